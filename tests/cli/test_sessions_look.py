"""`pal sessions` search and export."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.sessions import run_sessions
from palinurus.errors import BadRequest, StateUnwritable
from palinurus.sessions.files import list_session_files

SID = "0b2e7c9a-1111-4222-8333-444455556666"

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "state"))
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": SID, "timestamp": "2026-01-01T00:00:00Z"}]
    for n, text in enumerate(("find the <b>walnut</b> \x1b[31m", "a walnut tree", "and a pear")):
        message = {"role": "user", "content": text, "timestamp": 1767225600000 + n * 86_400_000}
        parent = f"{n - 1:08x}" if n else None
        lines.append({"type": "message", "id": f"{n:08x}", "parentId": parent, "message": message})
    source = tmp_path / "x.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with contextlib.redirect_stdout(io.StringIO()):
        run_sessions(["import", str(source), "--session", "talk"])
    return tmp_path / "state"


def test_search(home: Path, capsys: Printed) -> None:
    run_sessions(["search", "walnut"])
    out = capsys.readouterr().out
    assert out.index("a walnut tree") < out.index("find the <b>walnut</b>")
    assert "agent:main:talk" in out
    assert "\x1b" not in out
    run_sessions(["search", "walnut", "tree"])
    assert capsys.readouterr().out.count("walnut") == 1
    run_sessions(["search", "a walnut", "--json"])
    (hit,) = json.loads(capsys.readouterr().out)
    assert (hit["key"], hit["entry"], hit["who"]) == ("agent:main:talk", "00000001", "user")
    run_sessions(["search", "walnut", "--since", "2026-01-02T00:00:00+00:00"])
    assert capsys.readouterr().out.count("agent:main:talk") == 1
    run_sessions(["search", "walnut", "--agent", "work"])
    assert capsys.readouterr().out == "nothing found\n"
    run_sessions(["search", "walnut", "--limit", "1"])
    assert capsys.readouterr().out.count("agent:main:talk") == 1


def test_earlier_transcripts_of_a_session_are_found_under_its_key(home: Path, capsys: Printed) -> None:
    run_sessions(["reset", "talk"])
    capsys.readouterr()
    run_sessions(["search", "pear", "--json"])
    (hit,) = json.loads(capsys.readouterr().out)
    assert hit["key"] == "agent:main:talk"
    assert ".reset." in hit["path"]


def test_search_says_when_it_goes_without_the_index(home: Path, capsys: Printed) -> None:
    (home / "index.db").mkdir()
    run_sessions(["search", "pear"])
    printed = capsys.readouterr()
    assert "and a pear" in printed.out
    assert "files were read instead" in printed.err


@pytest.mark.parametrize("argv", [["--since", "soon", "x"], ["--agent", "a/b", "x"], ["--", "--"]])
def test_bad_searches(home: Path, argv: list[str]) -> None:
    with pytest.raises(BadRequest):
        run_sessions(["search", *argv])


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("a.html", "<!doctype html>"),
        ("a.md", "# agent:main:talk"),
        ("a.json", "{\n"),
        ("a.jsonl", '{"type": "session"'),
    ],
)
def test_export_by_the_file_s_name(home: Path, tmp_path: Path, capsys: Printed, name: str, begin: str) -> None:
    out = tmp_path / name
    run_sessions(["export", "talk", "-o", str(out)])
    assert out.read_text().startswith(begin)
    assert out.stat().st_mode & 0o777 == 0o600
    assert str(out) in capsys.readouterr().out


def test_export_to_standard_output(home: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run_sessions(["export", "talk", "--format", "markdown"])
    assert b"a walnut tree" in capfdbinary.readouterr().out
    with pytest.raises(StateUnwritable, match="cannot be written"):
        run_sessions(["export", "talk", "-o", str(tmp_path)])


def test_looking_changes_no_transcript(home: Path, capsys: Printed) -> None:
    before = list_session_files(str(home))
    for argv in (["tree", "talk"], ["search", "x"], ["show", "talk"], ["export", "talk", "--format", "html"]):
        run_sessions(argv)
    assert list_session_files(str(home)) == before
