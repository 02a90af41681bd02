from __future__ import annotations

import base64
import io
import json
import re
import sys
from pathlib import Path

import pytest

from palinurus.cli.access.approvals import run_approvals
from palinurus.cli.agent import FILES_BYTES, run_agent
from palinurus.errors import BadRequest

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


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


def test_a_command_that_fails_is_not_ok(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_agent(["--json", "-m", "run ls /nope"]) == 0
    (tool,) = json.loads(capsys.readouterr().out)["tools"]
    assert (tool["name"], tool["ok"], tool["exitCode"]) == ("exec", False, 2)


def test_a_failure_has_a_code_and_a_reason(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_agent(["--local", "-m", "hi", "--model", "nobody/nothing"]) == 1
    told = capsys.readouterr().err
    assert "nobody" in told and "\n  fix: `pal why last`" in told


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


def test_a_reply_that_fits_a_schema(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "required": ["sails"], "properties": {"sails": {"type": "integer"}}}')
    (demo / "workspace").mkdir(parents=True)
    (demo / "workspace" / "boat.json").write_text('{"name": "Argo", "sails": 2}')
    assert run_agent(["--local", "-m", "read boat.json", "--schema", str(schema)]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "Argo", "sails": 2}
    assert run_agent(["--local", "-m", "list files", "--schema", str(schema)]) == 1
    told = capsys.readouterr()
    assert "had the form that was asked for" in told.err and told.out == ""  # whoever reads JSON there reads none
    for text, word in (("{", "not JSON"), ('{"if": {}}', "not supported"), ("[]", "must be an object")):
        schema.write_text(text)
        with pytest.raises(BadRequest, match=word):
            run_agent(["--local", "-m", "x", "--schema", str(schema)])
    with pytest.raises(BadRequest, match="No such file"):
        run_agent(["--local", "-m", "x", "--schema", str(tmp_path / "missing")])


def test_what_nobody_can_allow_is_refused_at_once(
    demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert run_agent(["--local", "-m", "run echo sail >> MEMORY.md"]) == 0
    told = capsys.readouterr()
    assert "refused" in told.err and "MEMORY.md" in told.err and "/approve" not in told.err
    found = re.search(r"`pal (approvals answer \w+ allow-once)`", told.err)
    assert found is not None and len(told.err.splitlines()) == 1
    assert run_approvals(found[1].split()[1:]) == 0  # it is kept: the answer serves the next try
    assert "Allowed once" in capsys.readouterr().out


def test_a_stopped_turn_says_so_in_words(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_agent(["--local", "--json", "-m", "run sleep 60", "--timeout", "0.2"]) == 124
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["text"]) == ("aborted", "")
    assert found["error"] == "stopped: the time limit was reached"
    assert run_agent(["--local", "-m", "run sleep 60", "--timeout", "0.2"]) == 124
    assert capsys.readouterr().out == ""


def test_files_go_along(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note, picture = tmp_path / "note.txt", tmp_path / "dot.png"
    note.write_text("the anchor is heavy")
    picture.write_bytes(base64.b64decode(DOT))
    argv = ["--local", "--json", "-m", "what is this?", "--file", str(note), "--file", str(picture)]
    assert run_agent(argv) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "answered"
    kept = [path.read_text() for path in (demo / "media" / "inbound").rglob("*note*")]  # as it came, and the session's
    assert kept and set(kept) == {"the anchor is heavy"}
    (transcript,) = (demo / "agents" / "main" / "sessions").glob("*.jsonl")
    assert "note.txt (text/plain, 19 bytes)" in transcript.read_text()


def test_files_that_cannot_go_along(demo: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(FILES_BYTES + 1)
    for path, word in ((tmp_path / "missing", "No such file"), (tmp_path, "regular file"), (large, "together")):
        with pytest.raises(BadRequest, match=word):
            run_agent(["--local", "-m", "x", "--file", str(path)])
