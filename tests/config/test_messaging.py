"""tools.message as it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load
from palinurus.config.messaging import MessageRules

CASES: list[tuple[dict[str, Any], MessageRules]] = [
    ({}, MessageRules(True, None, True)),
    ({"crossContext": {"allowWithinProvider": False}}, MessageRules(False, None, True)),
    ({"crossContext": {"allowAcrossProviders": True}}, MessageRules(True, True, True)),
    ({"crossContext": {"allowAcrossProviders": False}}, MessageRules(True, False, True)),
    ({"allowCrossContextSend": True}, MessageRules(True, True, True)),  # the older spelling
    ({"allowCrossContextSend": True, "crossContext": {"allowAcrossProviders": False}}, MessageRules(True, False, True)),
    ({"broadcast": {"enabled": False}}, MessageRules(True, None, False)),
    ({"broadcast": "no", "crossContext": {"allowWithinProvider": "no"}}, MessageRules(True, None, True)),
]


@pytest.mark.parametrize(("written", "rules"), CASES)
def test_what_is_written_counts(tmp_path: Path, written: dict[str, Any], rules: MessageRules) -> None:
    (tmp_path / "palinurus.json").write_text(json.dumps({"tools": {"message": written}}))
    assert load(str(tmp_path), {}).settings.messaging == rules
