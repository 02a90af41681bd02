from __future__ import annotations

import json
from pathlib import Path

import pytest

from palinurus.cli.agent import run as agent
from palinurus.cli.status import run


def test_without_a_gateway(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["gateway"], found["model"], found["sessions"], found["errors"]) == (False, "builtin/demo", 0, [])
    agent(["--local", "-m", "hello"])
    capsys.readouterr()
    run([])
    out = capsys.readouterr().out
    assert "not running" in out and "sessions  1" in out and "0 running, 0 waiting" in out


def test_failures_and_config_problems_are_shown(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (demo / "palinurus.json").write_text('{agents: {defaults: {model: "nobody/nothing"}}, gatway: {}}')
    assert agent(["--local", "-m", "hello"]) == 1
    assert "nobody" in capsys.readouterr().err
    run(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["errors"][0]["outcome"] == "failed" and "nobody" in found["errors"][0]["why"]
    assert any("gatway" in line for line in found["config"])


def test_a_broken_database_is_named(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (demo / "state.db").write_bytes(b"this is no database" * 500)
    assert run([]) == 3
    assert "pal doctor" in capsys.readouterr().out
