"""tools.message as it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.sections.tools import MessageToolRules

CASES: list[tuple[dict[str, Any], MessageToolRules]] = [
    ({}, MessageToolRules(True, None, True)),
    ({"crossContext": {"allowWithinProvider": False}}, MessageToolRules(False, None, True)),
    ({"crossContext": {"allowAcrossProviders": True}}, MessageToolRules(True, True, True)),
    ({"crossContext": {"allowAcrossProviders": False}}, MessageToolRules(True, False, True)),
    ({"allowCrossContextSend": True}, MessageToolRules(True, True, True)),  # the older spelling
    (
        {"allowCrossContextSend": True, "crossContext": {"allowAcrossProviders": False}},
        MessageToolRules(True, False, True),
    ),
    ({"broadcast": {"enabled": False}}, MessageToolRules(True, None, False)),
    ({"broadcast": "no", "crossContext": {"allowWithinProvider": "no"}}, MessageToolRules(False, None, False)),
]


@pytest.mark.parametrize(("written", "rules"), CASES)
def test_what_is_written_counts(tmp_path: Path, written: dict[str, Any], rules: MessageToolRules) -> None:
    (tmp_path / "palinurus.json").write_text(json.dumps({"tools": {"message": written}}))
    assert load_config(str(tmp_path), {}).settings.messaging == rules
