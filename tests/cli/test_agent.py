from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from palinurus.cli.agent import run_agent
from palinurus.errors import BadRequest


def test_the_reply_on_stdout(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_agent(["--local", "-m", "list files"]) == 0
    out, err = capsys.readouterr()
    assert "AGENTS.md" in out and err == ""


def test_json(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_agent(["--json", "-m", "list files", "--session", "notes"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"id", "session", "outcome", "text", "model", "usage", "tools", "durationMs"}
    assert (found["session"], found["outcome"], found["model"]) == ("agent:main:notes", "answered", "builtin/demo")
    assert [t["ok"] for t in found["tools"]] == [True]


def test_a_failure_has_a_code_and_a_reason(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_agent(["--local", "-m", "hi", "--model", "nobody/nothing"]) == 1
    assert "nobody" in capsys.readouterr().err


def test_stdin(demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("list files"))
    assert run_agent(["-m", "-"]) == 0
    assert "AGENTS.md" in capsys.readouterr().out


def test_the_time_limit_stops_the_turn(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_agent(["--local", "-m", "run sleep 60", "--timeout", "0.2"]) == 124
    assert "time limit" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["-m", " "], ["-m", "x", "--agent", "nobody"], ["-m", "x", "--session", "a/b"], []])
def test_wrong_lines(demo: Path, argv: list[str]) -> None:
    with pytest.raises(BadRequest):
        run_agent(argv)
