"""`pal sessions` against a real state directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.sessions import run_sessions
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, NotFound, StateLocked
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import read_transcript
from palinurus.store.factory import open_reader, open_store
from palinurus.store.port import SessionRow
from palinurus.store.sqlite.lock import take_lock
from palinurus.testing.clock import FakeClock

KEY = "agent:main:bench"
SID = "0b2e7c9a-1111-4222-8333-444455556666"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def transcript(file: Path, count: int = 4, sid: str | None = SID, tail: str = "\n") -> Path:
    lines: list[dict[str, Any]] = []
    if sid is not None:
        lines.append({"type": "session", "version": 3, "id": sid, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w"})
    for n in range(count):
        role = "assistant" if n % 2 else "user"
        message: dict[str, Any] = {
            "role": role,
            "content": [{"type": "text", "text": f"text {n}"}],
            "timestamp": 1767225600000 + n,
        }
        if role == "assistant":
            message.update(api="openai-completions", provider="bench", model="big", stopReason="stop")
        parent = f"{n - 1:08x}" if n else None
        lines.append({"type": "message", "id": f"{n:08x}", "parentId": parent, "timestamp": "t", "message": message})
    file.write_text("\n".join(json.dumps(line) for line in lines) + tail)
    return file


def row(home: Path, key: str = KEY) -> SessionRow:
    with open_reader(str(home)) as reader:
        found = reader.session(key)
    assert found is not None
    return found


def test_import_puts_file_and_row_in_place(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = transcript(tmp_path / "x.jsonl")
    assert run_sessions(["import", str(source), "--session", KEY]) == 0
    assert "4 messages" in capsys.readouterr().out
    placed = home / "agents" / "main" / "sessions" / f"{SID}.jsonl"
    assert placed.read_bytes() == source.read_bytes()
    assert placed.stat().st_mode & 0o777 == 0o600
    assert placed.parent.stat().st_mode & 0o777 == 0o700
    record = SessionRecord.decode(row(home).data)
    assert (record.sessionId, record.modelProvider, record.model) == (SID, "bench", "big")
    # It begins now: the age of the file must not end the session at once.
    assert record.sessionStartedAt == record.lastInteractionAt == record.updatedAt
    assert sorted(p.name for p in placed.parent.iterdir()) == [placed.name]
    assert run_sessions(["path", "bench"]) == 0
    assert capsys.readouterr().out == f"{placed}\n"


def test_import_ends_the_last_line_and_adds_a_header(home: Path, tmp_path: Path) -> None:
    source = transcript(tmp_path / "x.jsonl", sid=None, tail="")
    run_sessions(["import", str(source), "--session", KEY])
    found = row(home)
    placed = home / "agents" / "main" / "sessions" / f"{found.session_id}.jsonl"
    assert placed.read_bytes().endswith(b"}\n")
    loaded = read_transcript(str(placed))
    assert len(loaded.messages()) == 4
    assert loaded.header is not None
    assert loaded.header.id == found.session_id


@pytest.mark.parametrize("sid", ["../../evil", "", "a b"])
def test_an_id_that_is_no_file_name_is_replaced(home: Path, tmp_path: Path, sid: str) -> None:
    run_sessions(["import", str(transcript(tmp_path / "x.jsonl", sid=sid)), "--session", KEY])
    found = row(home)
    placed = home / "agents" / "main" / "sessions" / f"{found.session_id}.jsonl"
    header = read_transcript(str(placed)).header
    assert header is not None
    assert header.id == found.session_id != sid
    assert read_transcript(str(placed)).bad == ()


def test_importing_again_keeps_the_earlier_file_and_the_label(home: Path, tmp_path: Path) -> None:
    source = transcript(tmp_path / "x.jsonl")
    run_sessions(["import", str(source), "--session", KEY])
    run_sessions(["import", str(source), "--session", KEY])
    folder = home / "agents" / "main" / "sessions"
    second = row(home)
    assert second.session_id != SID
    assert {p.name for p in folder.iterdir()} == {f"{SID}.jsonl", f"{second.session_id}.jsonl"}
    assert SessionRecord.decode(second.data).usageFamilySessionIds == (SID,)


def test_import_says_what_it_could_not_read(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = transcript(tmp_path / "x.jsonl", tail="\nnonsense\n")
    run_sessions(["import", str(source), "--session", KEY])
    assert "could not be read" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.bad-*"))


def test_import_refuses_what_is_no_transcript(home: Path, tmp_path: Path) -> None:
    source = tmp_path / "x.jsonl"
    source.write_text("hello\nworld\n")
    with pytest.raises(BadRequest, match="holds no transcript"):
        run_sessions(["import", str(source), "--session", KEY])
    with pytest.raises(NotFound, match="no such file"):
        run_sessions(["import", str(tmp_path / "none"), "--session", KEY])
    with pytest.raises(BadRequest, match="not a session key"):
        run_sessions(["import", str(transcript(source)), "--session", "agent:../x:y"])
    assert not home.exists()


def test_import_refuses_while_a_gateway_runs(home: Path, tmp_path: Path) -> None:
    lock = take_lock(str(home))
    try:
        with pytest.raises(StateLocked, match=r"cannot import: .* is in use by process") as caught:
            run_sessions(["import", str(transcript(tmp_path / "x.jsonl")), "--session", KEY])
    finally:
        lock.release()
    assert "pal gateway start" in caught.value.fix
    assert not (home / "agents").exists()


def test_list(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sessions([]) == 0
    assert capsys.readouterr().out == "no sessions yet\n"
    assert run_sessions(["--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    run_sessions(["import", str(transcript(tmp_path / "x.jsonl")), "--session", KEY])
    capsys.readouterr()
    run_sessions(["list"])
    (line,) = capsys.readouterr().out.splitlines()
    assert KEY in line and line.endswith("tokens  text 0")
    run_sessions(["--json"])
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["derivedTitle"] == "text 0"
    assert (entry["key"], entry["kind"], entry["sessionId"], entry["model"]) == (KEY, "other", SID, "big")
    assert entry["transcriptPath"] == str(home / "agents" / "main" / "sessions" / f"{SID}.jsonl")


async def test_a_broken_row_does_not_hide_the_others(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = await open_store(str(home), FakeClock())
    await store.save_session(SessionRow("agent:main:bad", "main", "x", 5, b"{broken"))
    await store.save_session(SessionRecord.fresh(SessionKey("main", "good"), 4, "y").row(SessionKey("main", "good")))
    await store.close()
    run_sessions(["list", "--json"])
    entries = {e["key"]: e for e in json.loads(capsys.readouterr().out)}
    assert "cannot be read" in entries["agent:main:bad"]["error"]
    assert entries["agent:main:good"]["sessionId"] == "y"
    run_sessions(["list"])
    assert "agent:main:bad" in capsys.readouterr().out


def test_show(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = transcript(tmp_path / "x.jsonl", count=6)
    with source.open("a") as handle:
        for ident, message in (
            (
                "aaaaaaa1",
                {
                    "role": "assistant",
                    "content": [{"type": "toolCall", "id": "c", "name": "ls", "arguments": {"p": 1}}],
                },
            ),
            (
                "aaaaaaa2",
                {
                    "role": "toolResult",
                    "toolCallId": "c",
                    "toolName": "ls",
                    "content": "\x1b[31mred\x07",
                    "isError": True,
                },
            ),
        ):
            handle.write(json.dumps({"type": "message", "id": ident, "parentId": "lost", "message": message}) + "\n")
    run_sessions(["import", str(source), "--session", KEY])
    capsys.readouterr()
    run_sessions(["show", KEY, "--limit", "3"])
    out = capsys.readouterr().out
    assert "text 5" in out
    assert "text 4" not in out
    assert '-> ls {"p":1}' in out
    assert "ls (error)" in out
    assert "[31mred" in out
    assert "\x1b" not in out
    assert "\x07" not in out
    run_sessions(["show", KEY, "--limit", "0", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 8


def test_export_gives_the_file(home: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    source = transcript(tmp_path / "x.jsonl")
    run_sessions(["import", str(source), "--session", KEY])
    capfdbinary.readouterr()
    run_sessions(["export", KEY])
    assert capfdbinary.readouterr().out == source.read_bytes()
    os.unlink(home / "agents" / "main" / "sessions" / f"{SID}.jsonl")
    with pytest.raises(NotFound, match="no transcript"):
        run_sessions(["export", KEY])


@pytest.mark.parametrize("command", ["show", "path", "export"])
def test_unknown_sessions(home: Path, tmp_path: Path, command: str) -> None:
    run_sessions(["import", str(transcript(tmp_path / "x.jsonl")), "--session", KEY])
    with pytest.raises(NotFound, match="no session agent:main:nobody"):
        run_sessions([command, "nobody"])
    with pytest.raises(BadRequest, match="not a session key"):
        run_sessions([command, "agent:a/b:c"])


@pytest.mark.seed(376)
def test_nothing_of_other_tools_is_listed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (".openclaw", ".pi", ".clawdbot"):
        other = tmp_path / folder / "agents" / "main" / "sessions"
        other.mkdir(parents=True)
        transcript(other / f"{SID}.jsonl")
        (other / "sessions.json").write_text(json.dumps({KEY: {"sessionId": SID}}))
    run_sessions(["list"])
    assert capsys.readouterr().out == "no sessions yet\n"
