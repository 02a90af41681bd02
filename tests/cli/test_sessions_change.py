"""`pal sessions` rewind, branch, label, reset, delete, cleanup on a real state directory."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from pathlib import Path

import pytest

from palinurus.cli.sessions import run
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.errors import BadRequest, NotFound, StateLocked
from palinurus.sessions.files import append, listing, place
from palinurus.sessions.record import Record
from palinurus.sessions.transcript import Transcript, read
from palinurus.store.port import Item, Line
from palinurus.store.sqlite import open_store
from palinurus.store.sqlite.lock import take
from palinurus.store.sqlite.reader import open_reader
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
    record = Record.fresh(KEY, NOW, "sid")
    await store.save_session(Record(**{**_fields(record), "thinkingLevel": "high", "totalTokens": 9}).row(KEY))
    await store.save_session(Record.fresh(SessionKey("main", "main"), NOW, "m").row(SessionKey("main", "main")))
    await store.close()
    transcript = Transcript(PATH, "/w")
    lines: list[Line] = []
    for n in range(4):
        said = (
            AssistantMessage((TextBlock(f"text {n}"),), provider="p", model="m") if n % 2 else UserMessage(f"text {n}")
        )
        lines += transcript.add(said, "", NOW + n)
    place(str(place_), PATH, b"")
    append(str(place_), lines)
    return place_


def _fields(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def ids(home: Path) -> list[str]:
    return [entry.id for entry in read(str(home / PATH)).entries]


def texts(home: Path, path: str = PATH) -> list[str]:
    return [m.text for m in read(str(home / path)).messages()]


def record(home: Path, key: str = str(KEY)) -> Record:
    with open_reader(str(home)) as reader:
        row = reader.session(key)
    assert row is not None
    return Record.decode(row.data)


def test_rewind_keeps_the_later_entries(home: Path, capsys: Printed) -> None:
    second = ids(home)[1]
    before = (home / PATH).read_bytes()
    run(["rewind", "talk", second[:7]])
    assert "2 messages" in capsys.readouterr().out
    assert texts(home) == ["text 0", "text 1"]
    assert (home / PATH).read_bytes().startswith(before)
    assert record(home).totalTokensFresh is False
    run(["tree", "talk"])
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["*", ">", " ", " "]
    assert "assistant: text 1" in lines[1]
    run(["rewind", "talk", "root"])
    assert texts(home) == []
    run(["rewind", "talk", ids(home)[3]])
    assert texts(home) == ["text 0", "text 1", "text 2", "text 3"]
    with pytest.raises(NotFound, match="no entry 'zzz'"):
        run(["rewind", "talk", "zzz"])


def test_label(home: Path, capsys: Printed) -> None:
    first = ids(home)[0]
    run(["label", "talk", first, "good \x1b[31mstart"])
    run(["tree", "talk"])
    assert "[good [31mstart]" in capsys.readouterr().out
    run(["rewind", "talk", "good [31mstart"])
    assert texts(home) == ["text 0"]
    run(["label", "talk", first])
    run(["tree", "talk", "--json"])
    nodes = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(node["label"] is None for node in nodes)
    assert [node["leaf"] for node in nodes] == [True, False, False, False]
    with pytest.raises(BadRequest, match="root"):
        run(["label", "talk", "root", "x"])


def test_branch_makes_a_session_of_its_own(home: Path, capsys: Printed) -> None:
    before = (home / PATH).read_bytes()
    second = ids(home)[1]
    run(["branch", "talk", second, "--as", "other"])
    made = record(home, "agent:main:other")
    assert (made.parentSessionKey, made.forkedFromParent, made.thinkingLevel) == (str(KEY), True, "high")
    assert made.totalTokens is None
    assert texts(home, made.path("main")) == ["text 0", "text 1"]
    header = read(str(home / made.path("main"))).header
    assert header is not None
    assert (header.id, header.parentSession) == (made.sessionId, PATH)
    assert (home / PATH).read_bytes() == before
    with pytest.raises(BadRequest, match="already"):
        run(["branch", "talk", second, "--as", "other"])
    with pytest.raises(BadRequest, match="stays with its agent"):
        run(["branch", "talk", second, "--as", "agent:work:x"])
    capsys.readouterr()
    run(["branch", "talk", second])
    run(["branch", "talk", second])
    out = capsys.readouterr().out
    assert f"agent:main:explicit:branch-{second} holds" in out
    assert f"agent:main:explicit:branch-{second}-2 holds" in out


def test_reset_keeps_what_was_switched_and_archives_the_file(home: Path) -> None:
    run(["reset", "talk"])
    made = record(home)
    assert made.sessionId != "sid"
    assert made.thinkingLevel == "high"
    assert made.usageFamilySessionIds == ("sid",)
    (file,) = listing(str(home))
    assert file.name.startswith("sid.jsonl.reset.")


def test_delete(home: Path, capsys: Printed) -> None:
    run(["search", "text"])
    run(["delete", "talk"])
    assert "kept as" in capsys.readouterr().out
    with pytest.raises(NotFound):
        run(["show", "talk"])
    (file,) = listing(str(home))
    assert file.name.startswith("sid.jsonl.deleted.")
    assert b"text 2" not in (home / "index.db").read_bytes()
    with pytest.raises(BadRequest, match=r"Cannot delete the main session \(agent:main:main\)"):
        run(["delete", "main"])


def test_delete_killed_half_way_can_be_done_again(home: Path) -> None:
    os.rename(home / PATH, home / f"{PATH}.deleted.2026-06-10T09-00-01.000Z")  # as far as it came
    run(["delete", "talk"])
    with pytest.raises(NotFound):
        run(["show", "talk"])
    assert len(listing(str(home))) == 1


CHANGES = (["rewind", "talk", "root"], ["label", "talk", "root"], ["branch", "talk", "root"], ["reset", "talk"],
           ["delete", "talk"], ["cleanup"])  # fmt: skip


@pytest.mark.parametrize("argv", CHANGES, ids=lambda argv: argv[0])
def test_nothing_is_changed_while_a_gateway_runs(home: Path, argv: list[str]) -> None:
    before = (home / PATH).read_bytes()
    lock = take(str(home))
    try:
        with pytest.raises(StateLocked, match="while a gateway runs") as caught:
            run(argv)
    finally:
        lock.release()
    assert "stop the gateway" in caught.value.fix
    assert (home / PATH).read_bytes() == before
    assert record(home).sessionId == "sid"


@pytest.mark.parametrize("argv", CHANGES[:2] + CHANGES[3:5], ids=lambda argv: argv[0])
async def test_a_turn_that_was_cut_off_finds_its_conversation(home: Path, argv: list[str]) -> None:
    store = await open_store(str(home), FakeClock(NOW))
    await store.accept(Item("i1", "d1", str(KEY), "main", b"{}", NOW), claim=True)
    await store.close()
    before = (home / PATH).read_bytes()
    with pytest.raises(BadRequest, match="1 message of agent:main:talk still wait"):
        await asyncio.to_thread(run, argv)
    assert (home / PATH).read_bytes() == before
    assert record(home).sessionId == "sid"


def test_lines_still_in_the_journal_come_before_the_change(home: Path) -> None:
    """Killed after the commit and before the file was written: going back must not be undone by the late line."""
    transcript = read(str(home / PATH), PATH)
    (late,) = transcript.add(UserMessage("late"), "", NOW)
    state = sqlite3.connect(home / "state.db")
    state.execute("INSERT INTO journal (path, id, data) VALUES (?, ?, ?)", (late.path, late.id, late.data))
    state.commit()
    state.close()
    run(["rewind", "talk", ids(home)[0]])
    assert late.id in ids(home)
    assert texts(home) == ["text 0"]


def test_cleanup(home: Path, capsys: Printed) -> None:
    orphan = home / "agents/main/sessions/orphan.jsonl"
    orphan.write_bytes(b"{}\n")
    os.utime(orphan, ns=(0, 0))
    run(["cleanup", "--dry-run"])
    assert "orphan" in capsys.readouterr().out
    assert orphan.exists()
    run(["cleanup", "--json"])
    actions = json.loads(capsys.readouterr().out)
    assert {a["reason"] for a in actions} >= {"orphan"}
    assert not orphan.exists()
    run(["cleanup"])
    assert capsys.readouterr().out.startswith("0 gone")


@pytest.mark.parametrize("argv", [["rewind", "talk"], ["nothing"], ["show"], ["export", "talk", "--format", "pdf"]])
def test_a_wrong_line_is_a_bad_request(home: Path, argv: list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        run(argv)
    assert "--help" in caught.value.fix
