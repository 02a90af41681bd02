"""`pal sessions` rewind, branch, label, reset, delete, cleanup on a real state directory."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from pathlib import Path

import pytest

from palinurus.cli.sessions import run_sessions
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.errors import BadRequest, NotFound, StateLocked
from palinurus.sessions.files import append_lines, list_session_files, place_file
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript, read_transcript
from palinurus.store.factory import open_reader, open_store
from palinurus.store.port import InboxItem, TranscriptLine
from palinurus.store.sqlite.lock import take_lock
from palinurus.testing.clock import FakeClock

KEY = SessionKey("main", "talk")
NOW = 1_781_082_001_000
PATH = "agents/main/sessions/sid.jsonl"

Printed = pytest.CaptureFixture[str]


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of four messages."""
    place_ = tmp_path / "state"
    monkeypatch.setenv("PALINURUS_HOME", str(place_))
    monkeypatch.setenv("HOME", str(tmp_path))
    store = await open_store(str(place_), FakeClock(NOW))
    record = SessionRecord.fresh(KEY, NOW, "sid")
    await store.save_session(SessionRecord(**{**_fields(record), "thinkingLevel": "high", "totalTokens": 9}).row(KEY))
    await store.save_session(SessionRecord.fresh(SessionKey("main", "main"), NOW, "m").row(SessionKey("main", "main")))
    await store.close()
    transcript = Transcript(PATH, "/w")
    lines: list[TranscriptLine] = []
    for n in range(4):
        said = (
            AssistantMessage((TextBlock(f"text {n}"),), provider="p", model="m") if n % 2 else UserMessage(f"text {n}")
        )
        lines += transcript.add(said, "", NOW + n)
    place_file(str(place_), PATH, b"")
    append_lines(str(place_), lines)
    return place_


def _fields(record: SessionRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def ids(home: Path) -> list[str]:
    return [entry.id for entry in read_transcript(str(home / PATH)).entries]


def texts(home: Path, path: str = PATH) -> list[str]:
    return [m.text for m in read_transcript(str(home / path)).messages()]


def record(home: Path, key: str = str(KEY)) -> SessionRecord:
    with open_reader(str(home)) as reader:
        row = reader.session(key)
    assert row is not None
    return SessionRecord.decode(row.data)


def test_rewind_keeps_the_later_entries(home: Path, capsys: Printed) -> None:
    second = ids(home)[1]
    before = (home / PATH).read_bytes()
    run_sessions(["rewind", "talk", second[:7]])
    assert "2 messages" in capsys.readouterr().out
    assert texts(home) == ["text 0", "text 1"]
    assert (home / PATH).read_bytes().startswith(before)
    assert record(home).totalTokensFresh is False
    run_sessions(["tree", "talk"])
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["*", ">", " ", " "]
    assert "assistant: text 1" in lines[1]
    run_sessions(["rewind", "talk", "root"])
    assert texts(home) == []
    run_sessions(["rewind", "talk", ids(home)[3]])
    assert texts(home) == ["text 0", "text 1", "text 2", "text 3"]
    with pytest.raises(NotFound, match="no entry 'zzz'"):
        run_sessions(["rewind", "talk", "zzz"])


def test_label(home: Path, capsys: Printed) -> None:
    first = ids(home)[0]
    run_sessions(["label", "talk", first, "good \x1b[31mstart"])
    run_sessions(["tree", "talk"])
    assert "[good [31mstart]" in capsys.readouterr().out
    run_sessions(["rewind", "talk", "good [31mstart"])
    assert texts(home) == ["text 0"]
    run_sessions(["label", "talk", first])
    run_sessions(["tree", "talk", "--json"])
    nodes = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(node["label"] is None for node in nodes)
    assert [node["leaf"] for node in nodes] == [True, False, False, False]
    with pytest.raises(BadRequest, match="root"):
        run_sessions(["label", "talk", "root", "x"])


def test_branch_makes_a_session_of_its_own(home: Path, capsys: Printed) -> None:
    before = (home / PATH).read_bytes()
    second = ids(home)[1]
    run_sessions(["branch", "talk", second, "--as", "other"])
    made = record(home, "agent:main:other")
    assert (made.parentSessionKey, made.forkedFromParent, made.thinkingLevel) == (str(KEY), True, "high")
    assert made.totalTokens is None
    assert texts(home, made.path("main")) == ["text 0", "text 1"]
    header = read_transcript(str(home / made.path("main"))).header
    assert header is not None
    assert (header.id, header.parentSession) == (made.sessionId, PATH)
    assert (home / PATH).read_bytes() == before
    with pytest.raises(BadRequest, match="already"):
        run_sessions(["branch", "talk", second, "--as", "other"])
    with pytest.raises(BadRequest, match="stays with its agent"):
        run_sessions(["branch", "talk", second, "--as", "agent:work:x"])
    capsys.readouterr()
    run_sessions(["branch", "talk", second])
    run_sessions(["branch", "talk", second])
    out = capsys.readouterr().out
    assert f"agent:main:explicit:branch-{second} holds" in out
    assert f"agent:main:explicit:branch-{second}-2 holds" in out


def test_reset_keeps_what_was_switched_and_archives_the_file(home: Path) -> None:
    run_sessions(["reset", "talk"])
    made = record(home)
    assert made.sessionId != "sid"
    assert made.thinkingLevel == "high"
    assert made.usageFamilySessionIds == ("sid",)
    (file,) = list_session_files(str(home))
    assert file.name.startswith("sid.jsonl.reset.")


def test_delete(home: Path, capsys: Printed) -> None:
    run_sessions(["search", "text"])
    run_sessions(["delete", "talk"])
    assert "kept as" in capsys.readouterr().out
    with pytest.raises(NotFound):
        run_sessions(["show", "talk"])
    (file,) = list_session_files(str(home))
    assert file.name.startswith("sid.jsonl.deleted.")
    assert b"text 2" not in (home / "index.db").read_bytes()
    with pytest.raises(BadRequest, match=r"Cannot delete the main session \(agent:main:main\)"):
        run_sessions(["delete", "main"])


def test_delete_killed_half_way_can_be_done_again(home: Path) -> None:
    os.rename(home / PATH, home / f"{PATH}.deleted.2026-06-10T09-00-01.000Z")  # as far as it came
    run_sessions(["delete", "talk"])
    with pytest.raises(NotFound):
        run_sessions(["show", "talk"])
    assert len(list_session_files(str(home))) == 1


CHANGES = (["rewind", "talk", "root"], ["label", "talk", "root"], ["branch", "talk", "root"], ["reset", "talk"],
           ["delete", "talk"], ["cleanup"])  # fmt: skip


@pytest.mark.parametrize("argv", CHANGES, ids=lambda argv: argv[0])
def test_nothing_is_changed_while_a_gateway_runs(home: Path, argv: list[str]) -> None:
    before = (home / PATH).read_bytes()
    lock = take_lock(str(home))
    try:
        with pytest.raises(StateLocked, match=r"cannot .* is in use by process") as caught:
            run_sessions(argv)
    finally:
        lock.release()
    assert "pal gateway start" in caught.value.fix
    assert (home / PATH).read_bytes() == before
    assert record(home).sessionId == "sid"


@pytest.mark.parametrize("argv", CHANGES[:2] + CHANGES[3:5], ids=lambda argv: argv[0])
async def test_a_turn_that_was_cut_off_finds_its_conversation(home: Path, argv: list[str]) -> None:
    store = await open_store(str(home), FakeClock(NOW))
    await store.accept(InboxItem("i1", "d1", str(KEY), "main", b"{}", NOW), claim=True)
    await store.close()
    before = (home / PATH).read_bytes()
    with pytest.raises(BadRequest, match="1 message of agent:main:talk still wait"):
        await asyncio.to_thread(run_sessions, argv)
    assert (home / PATH).read_bytes() == before
    assert record(home).sessionId == "sid"


def test_lines_still_in_the_journal_come_before_the_change(home: Path) -> None:
    """Killed after the commit and before the file was written: going back must not be undone by the late line."""
    transcript = read_transcript(str(home / PATH), PATH)
    (late,) = transcript.add(UserMessage("late"), "", NOW)
    state = sqlite3.connect(home / "state.db")
    state.execute("INSERT INTO journal (path, id, data) VALUES (?, ?, ?)", (late.path, late.id, late.data))
    state.commit()
    state.close()
    run_sessions(["rewind", "talk", ids(home)[0]])
    assert late.id in ids(home)
    assert texts(home) == ["text 0"]


def test_cleanup(home: Path, capsys: Printed) -> None:
    orphan = home / "agents/main/sessions/orphan.jsonl.bad-1"
    orphan.write_bytes(b"{}\n")
    os.utime(orphan, ns=(0, 0))
    run_sessions(["cleanup", "--dry-run"])
    assert "orphan" in capsys.readouterr().out
    assert orphan.exists()
    run_sessions(["cleanup", "--json"])
    actions = json.loads(capsys.readouterr().out)
    assert {a["reason"] for a in actions} >= {"orphan"}
    assert not orphan.exists()
    run_sessions(["cleanup"])
    assert capsys.readouterr().out.startswith("0 gone")


@pytest.mark.parametrize(
    ("argv", "way"),
    [
        (["rewind", "talk"], "--help"),
        (["nothing"], "use one of: list, show"),
        (["show"], "--help"),
        (["export", "talk", "--format", "pdf"], "jsonl, json, markdown, html"),
    ],
)
def test_a_wrong_line_is_a_bad_request(home: Path, argv: list[str], way: str) -> None:
    with pytest.raises(BadRequest) as caught:
        run_sessions(argv)
    assert way in caught.value.fix
