from __future__ import annotations

import json
from pathlib import Path

import pytest

from palinurus.config.load import load_config
from palinurus.core.types.approval import SAFE_HOSTS, TaintRules


def rules(tmp_path: Path, section: object) -> TaintRules:
    (tmp_path / "palinurus.json").write_text(json.dumps({"tools": {"taint": section}}))
    return load_config(str(tmp_path), {}).settings.tools.taint


def test_it_is_on_unless_told(tmp_path: Path) -> None:
    assert rules(tmp_path, {}) == TaintRules() and TaintRules().enabled
    assert not rules(tmp_path, {"enabled": False}).enabled


def test_lists_add_to_what_we_know(tmp_path: Path) -> None:
    made = rules(tmp_path, {"allow": ["write ", "exec:network"], "hosts": ["Docs.Example.org."]})
    assert made.allow == ("write", "exec:network") and made.hosts == (*SAFE_HOSTS, "docs.example.org")


@pytest.mark.parametrize("host", ["*", "com", "http://a.example", "10.0.0.1", ""])
def test_a_host_that_would_open_too_much_is_an_error_and_left_out(tmp_path: Path, host: str) -> None:
    assert rules(tmp_path, {"hosts": [host]}).hosts == SAFE_HOSTS
    (found,) = load_config(str(tmp_path), {}).problems
    assert found.fatal and "host name" in found.message
