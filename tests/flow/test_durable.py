"""What survives a lost database, a wrong clock, a file that takes no more lines, and a kill after a deletion."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings
from palinurus.app import App
from palinurus.app.program import UPKEEP, UPKEEP_FIRST
from palinurus.clock import SystemClock
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelEvent, ModelRequest, StopSignal
from palinurus.errors import StateUnwritable
from palinurus.sessions.lifecycle import delete_session
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import read_transcript
from palinurus.store.factory import open_store
from palinurus.store.sqlite.schema import PRUNED
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock, run_ready_tasks
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from support import inbound

DAY = 86_400
SESSIONS = Path("agents") / "main" / "sessions"


@asynccontextmanager
async def timed(home: Path, model: ScriptedModel, clock: FakeClock, *channels: FakeChannel) -> AsyncIterator[App]:
    kept = {"maintenance": {"pruneAfter": "30d"}}  # unless somebody says so, conversations stay for ever
    app = App(settings(home, session=kept), {}, clock, model=model, channels={c.name: c for c in channels})
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def ask(app: App, text: str, **changes: Any) -> str:
    return (await app.wait((await app.submit(inbound(text, push=False, **changes))).id)).note


async def upkeep(clock: FakeClock, seconds: float) -> None:
    """Let time pass with everything it wakes, work in other threads included."""
    await clock.advance(seconds)
    for _ in range(50):
        await asyncio.sleep(0.01)
        await clock.advance(0.2)


def plain(home: Path) -> list[str]:
    return sorted(file.name for file in (home / SESSIONS).iterdir())


def lose_database(home: Path) -> None:
    for file in home.glob("state.db*"):
        file.unlink()


async def test_sessions_are_found_again_when_the_database_is_lost(tmp_path: Path) -> None:
    """Everything that was said is listed again, goes on where it was, and is not cleaned away for being old."""
    home, clock = tmp_path / "h", FakeClock()
    async with timed(home, ScriptedModel([say("one"), say("two")]), clock) as app:
        await ask(app, "main question")
        await ask(app, "other question", session="other")
        before = {row.key for row in await app.store.sessions()}
    foreign = home / SESSIONS / "from-another-program.jsonl"
    foreign.write_text(
        '{"type":"session","version":3,"id":"from-another-program","timestamp":"2025-01-01T00:00:00.000Z"}\n'
        '{"type":"message","id":"aaaaaaaa","parentId":null,"message":{"role":"user","content":"walnut"}}\n'
    )
    old = clock.now() * 1_000_000 - 40 * DAY * 1_000_000_000
    for file in (home / SESSIONS).iterdir():
        os.utime(file, ns=(old, old))
    files = plain(home)
    lose_database(home)

    model = ScriptedModel([say("three")])
    async with timed(home, model, clock) as app:
        rows = {row.key: row for row in await app.store.sessions()}
        assert set(rows) == before | {"agent:main:explicit:from-another-program"}
        assert rows["agent:main:explicit:from-another-program"].updated == old // 1_000_000
        await upkeep(clock, UPKEEP_FIRST + 6)
        assert plain(home) == files and len(await app.store.sessions()) == 3
        assert await ask(app, "and then?", session="other") == "three"
    assert [m.text for m in model.requests[0].messages] == ["other question", "two", "and then?"]


async def test_one_start_with_a_clock_far_ahead_forgets_nothing(tmp_path: Path) -> None:
    """Sessions stay listed and a repeated key stays a duplicate; a clock that stays so is believed the next day."""
    home, clock = tmp_path / "h", FakeClock()
    async with timed(home, ScriptedModel([say("done")], repeat=True), clock) as app:
        for n in range(5):
            await ask(app, "pay", session=f"direct:{n}", event=f"key-{n}")
        first = await app.submit(inbound("pay", session="direct:0", event="key-0"))
        assert first.duplicate
        for _ in range(2):  # the second day of this database: its time is believed
            await upkeep(clock, UPKEEP)
    clock.jump(400 * DAY)
    model = ScriptedModel([say("twice")], repeat=True)
    async with timed(home, model, clock) as app:
        await upkeep(clock, UPKEEP_FIRST + 6)
        assert len(await app.store.sessions()) == 5
        assert (await app.submit(inbound("pay", session="direct:0", event="key-0"))).duplicate
    async with timed(home, model, clock) as app:  # nor is a second start in the same hour any evidence
        await upkeep(clock, UPKEEP_FIRST + 6)
        assert len(await app.store.sessions()) == 5
    clock.jump(-400 * DAY)
    async with timed(home, model, clock) as app:
        await upkeep(clock, UPKEEP_FIRST + UPKEEP)
        assert len(await app.store.sessions()) == 5
        assert (await app.submit(inbound("pay", session="direct:0", event="key-0"))).duplicate
    assert not model.requests
    clock.jump(60 * DAY)
    async with timed(home, model, clock) as app:
        await upkeep(clock, UPKEEP_FIRST + 6)
        assert len(await app.store.sessions()) == 5
        await upkeep(clock, UPKEEP)
        async with asyncio.timeout(60):
            while await app.store.sessions():
                await upkeep(clock, 0)
        assert not (await app.submit(inbound("pay", session="direct:0", event="key-0"))).duplicate


async def test_what_is_old_goes_on_the_day_it_is_old_however_much_it_is(tmp_path: Path) -> None:
    """More than one piece of it, and without a restart."""
    home, clock = tmp_path / "h", FakeClock()
    async with timed(home, ScriptedModel([]), clock):
        await upkeep(clock, UPKEEP)
        with closing(sqlite3.connect(home / "state.db")) as conn, conn:
            rows = ((f"m{n}", f"d{n}", f"s{n}") for n in range(2 * PRUNED + 1))
            conn.executemany(
                "INSERT INTO inbox (id, dedupe, session, lane, body, at, state)"
                " VALUES (?, ?, ?, 'main', '{}', 5, 'done')",
                rows,
            )
        for _ in range(2):  # the second look of a new database is the first that believes the clock
            await upkeep(clock, UPKEEP)
        with closing(sqlite3.connect(home / "state.db")) as conn:
            async with asyncio.timeout(60):
                while conn.execute("SELECT count(*) FROM inbox").fetchone() != (0,):
                    await upkeep(clock, 0)


def freeze(file: Path) -> int:
    """Put in place of `file` one with the same bytes that nobody can make longer. Returns its handle."""
    handle = os.memfd_create("frozen", os.MFD_ALLOW_SEALING)
    os.write(handle, file.read_bytes())
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    file.unlink()
    file.symlink_to(f"/proc/{os.getpid()}/fd/{handle}")
    return handle


async def test_a_transcript_file_that_takes_no_more_lines_makes_nobody_forget(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with running(home, ScriptedModel([say("a1"), say("a2")])) as app:
        await ask(app, "q1")
        (file,) = (home / SESSIONS).iterdir()
        await app.store.complete_file(str(file.relative_to(home)))
        handle = freeze(file)
        await ask(app, "q2")
    assert b'"q2"' not in file.read_bytes()  # ids may hold these two letters
    model = ScriptedModel([say("a3"), say("a4")])
    async with running(home, model) as app:
        await ask(app, "q3")
    assert [m.text for m in model.requests[0].messages] == ["q1", "a1", "q2", "a2", "q3"]
    whole = file.read_bytes()
    file.unlink()
    file.write_bytes(whole)
    os.close(handle)
    async with running(home, model) as app:
        await ask(app, "q4")
    assert [m.text for m in model.requests[1].messages] == ["q1", "a1", "q2", "a2", "q3", "a3", "q4"]
    assert b'"q2"' in file.read_bytes()
    assert check_home(str(home)) == []


async def test_the_checker_sees_an_answer_that_lies_beside_the_path(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with running(home, ScriptedModel([say("a")], repeat=True)) as app:
        for text in ("q1", "q2", "q3"):
            await ask(app, text)
    assert check_home(str(home)) == []
    (file,) = (home / SESSIONS).iterdir()
    lines = file.read_bytes().splitlines()
    ids = [line.split(b'"id":"')[1][:8] for line in lines]
    lines[5] = lines[5].replace(b'"parentId":"' + ids[4], b'"parentId":"' + ids[2])
    file.write_bytes(b"\n".join([*lines, b""]))
    found = check_home(str(home))
    assert len(found) == 2 and all("is not on the path" in line for line in found)


async def test_a_session_whose_transcript_is_not_whole_is_not_deleted(tmp_path: Path) -> None:
    """Its last lines are in the database alone: put away without them they would be lost."""
    home = tmp_path / "h"
    async with running(home, ScriptedModel([say("a1"), say("a2")])) as app:
        await ask(app, "q1", session="other")
        (file,) = (home / SESSIONS).iterdir()
        await app.store.complete_file(str(file.relative_to(home)))
        handle = freeze(file)
        await ask(app, "q2", session="other")
        key = SessionKey("main", "other")
        row = await app.store.session(str(key))
        assert row is not None
        with pytest.raises(StateUnwritable):
            await delete_session(str(home), app.store, key, SessionRecord.decode(row.data), 0)
        assert await app.store.session(str(key)) == row and file.exists()
        os.close(handle)


async def test_a_deleted_session_does_not_return_after_a_kill(tmp_path: Path) -> None:
    """A copy of the directory is what a kill at this moment leaves."""
    home, after = tmp_path / "h", tmp_path / "after"
    async with running(home, ScriptedModel([say("a")])) as app:
        await ask(app, "q", session="other")
        key = SessionKey("main", "other")
        row = await app.store.session(str(key))
        assert row is not None
        record = SessionRecord.decode(row.data)
        kept = await delete_session(str(home), app.store, key, record, 0)
        shutil.copytree(home, after)
    again = await open_store(str(after), FakeClock())
    try:
        await again.recover()
        assert await again.session(str(key)) is None
    finally:
        await again.close()
    assert [f"{SESSIONS}/{name}" for name in plain(after)] == [kept]
    assert (after / kept).read_bytes().count(b"\n") == 3
    await run_ready_tasks()


@pytest.mark.parametrize("odd", ["pipe", "zero", "folder"])
async def test_a_transcript_that_is_no_file_ends_its_run_and_nobody_elses(tmp_path: Path, odd: str) -> None:
    home, model = tmp_path / "h", ScriptedModel([say("a")], repeat=True)
    async with running(home, model) as app:
        await ask(app, "q1", session="odd")
        (file,) = (home / SESSIONS).iterdir()
    whole = file.read_bytes()
    file.unlink()
    if odd == "pipe":
        os.mkfifo(file)
    elif odd == "zero":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    async with asyncio.timeout(60), running(home, model) as app:
        row = await app.wait((await app.submit(inbound("q2", session="odd", push=False))).id)
        assert row.outcome == "failed" and file.name in row.note
        assert await ask(app, "hello", session="other") == "a"
        if odd == "folder":
            file.rmdir()
        else:
            file.unlink()
        file.write_bytes(whole)
        assert await ask(app, "q3", session="odd") == "a"
    assert [m.text for m in model.requests[-1].messages][:2] == ["q1", "a"]


async def test_what_a_broken_turn_could_not_write_is_in_nobodys_memory(tmp_path: Path) -> None:
    """Its lines hung on the conversation in memory only: the next turn sees what a restart would see."""

    class Breaking(ScriptedModel):
        async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
            if request.messages[-1].text.endswith("breaks"):
                raise RuntimeError("a bug")
            async for event in super().stream(request, stop):
                yield event

    model = Breaking([say("one"), say("two"), say("three")])
    async with running(tmp_path / "h", model) as app:
        await ask(app, "first")
        assert "a bug" in await ask(app, "it breaks")
        await ask(app, "second")
    seen = model.requests[-1].messages
    async with running(tmp_path / "h", model) as app:
        await ask(app, "third")
    assert model.requests[-1].messages[: len(seen)] == seen
    assert check_home(str(tmp_path / "h")) == []


async def test_a_message_that_was_handed_back_is_asked_again_where_a_person_went_back_meanwhile(tmp_path: Path) -> None:
    """`pal sessions rewind` without a gateway, after a kill: it counted as answered, with the answer before it."""
    home, gate = tmp_path / "h", StreamGate()
    model = ScriptedModel([say("one"), hold_at(say("two"), gate), say("two after all")])
    async with running(home, model) as app:
        await ask(app, "q1")
        accepted = await app.submit(inbound("q2", push=False))
        await gate.wait_reached()
    store = await open_store(str(home), SystemClock())
    (file,) = (home / SESSIONS).iterdir()
    path = str(file.relative_to(home))
    transcript = read_transcript(str(file), path)
    before = transcript.entries_of(accepted.id)[0].parentId
    assert isinstance(before, str)
    await store.write(transcript.branch_line(before, 0))
    await store.close()
    async with running(home, model) as app:
        assert (await app.wait(accepted.id)).note == "two after all"
    assert [m.text for m in model.requests[-1].messages] == ["q1", "one", "q2"]
