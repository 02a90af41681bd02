"""What the store does around its statements: who waits for what, what is read where, what is left when it is closed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from palinurus.errors import StateBroken, StateError
from palinurus.store.port import OutboxRow, SessionRow
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.store import INLINE, SqliteStore
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import FILE, make_item


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = await open_sqlite_store(str(tmp_path / "home"), FakeClock())
    assert isinstance(made, SqliteStore)
    yield made
    await made.close()


async def test_a_message_that_comes_twice_holds_nobody(store: SqliteStore) -> None:
    await store.accept(make_item("m1"), claim=False)
    again = await store.accept(make_item("m1"), claim=False, hold=3600.0)
    assert again.duplicate and [one.id for one in await store.claim("main")] == ["m1"]


async def test_what_a_node_has_claimed_another_does_not_take_up(store: SqliteStore) -> None:
    other = store.share()
    await store.accept(make_item("m1"), claim=False)
    assert await store.claim("main")
    assert await other.recover() == []
    await other.close()


async def test_receipts_are_taken_while_a_transcripts_disk_is_broken(store: SqliteStore) -> None:
    claim = (await store.accept(make_item("m1"), claim=True)).claim
    assert claim is not None
    await store.queue_replies(claim, [OutboxRow("r1", "m1", "fake", "chat", b"{}", 1)])
    await store.mark_sending("r1", 1)
    store._state.writer._broken = StateBroken("a transcript's disk")
    with pytest.raises(StateBroken):
        await store.accept(make_item("m2"), claim=False)
    await store.mark_delivered("r1", "x", 2)
    found = await store.reply("r1")
    assert found is not None and found.state == "sent"
    store._state.writer._broken = None


async def test_a_session_that_is_touched_is_newer(store: SqliteStore) -> None:
    await store.save_session(SessionRow("agent:main:a", "main", "s1", 1, b"{}"))
    await store.touch(SessionRow("agent:main:a", "main", "s1", 7, b"{}"))
    found = await store.session("agent:main:a")
    assert found is not None and found.updated == 7


async def test_who_reads_from_the_beginning_gets_what_is_only_in_the_journal(
    store: SqliteStore, tmp_path: Path
) -> None:
    place = tmp_path / "home" / FILE
    place.parent.mkdir(parents=True)
    place.write_bytes(b'{"id":"e1"}\n')
    with closing(sqlite3.connect(tmp_path / "home" / "state.db")) as conn:
        conn.execute("INSERT INTO journal (path, id, data) VALUES (?, 'e2', ?)", (FILE, b'{"id":"e2"}'))
        conn.commit()
    assert await store.read_tail(FILE, 0) == b'{"id":"e1"}\n{"id":"e2"}\n'
    assert await store.read_tail(FILE, 12) == b""  # who has the beginning looks at the file only


def suspends(work: Coroutine[Any, Any, bytes]) -> bool:
    """Does it leave the event loop to others?"""
    try:
        work.send(None)
    except StopIteration:
        return False
    work.close()
    return True


async def test_a_long_transcript_is_read_in_a_thread_and_the_end_of_one_is_not(
    store: SqliteStore, tmp_path: Path
) -> None:
    place = tmp_path / "home" / FILE
    place.parent.mkdir(parents=True)
    place.write_bytes(b"x" * (INLINE + 1))
    assert suspends(store.read_tail(FILE, 0))
    assert not suspends(store.read_tail(FILE, INLINE - 1)) and not suspends(store.read_tail(FILE, 1))


async def test_a_closed_store_is_one_file(tmp_path: Path) -> None:
    made = await open_sqlite_store(str(tmp_path / "home"), FakeClock())
    await made.accept(make_item("m1"), claim=False)
    assert os.path.exists(tmp_path / "home" / "state.db-wal")
    await made.close()
    assert not os.path.exists(tmp_path / "home" / "state.db-wal")


async def test_a_reading_that_the_database_refuses_is_an_error_of_ours(store: SqliteStore) -> None:
    reader, store._state.reader = store._state.reader, sqlite3.connect(":memory:")
    with pytest.raises(StateError):
        await store.item("m1")
    store._state.reader.close()
    store._state.reader = reader


async def test_what_a_killed_process_left_in_the_journal_is_in_its_file_after_the_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await (await open_sqlite_store(str(home), FakeClock())).close()
    with closing(sqlite3.connect(home / "state.db")) as conn:
        conn.execute("INSERT INTO journal (path, id, data) VALUES (?, 'e1', ?)", (FILE, b'{"id":"e1"}'))
        conn.commit()
    made = await open_sqlite_store(str(home), FakeClock())
    assert await made.recover() == []
    assert (home / FILE).read_bytes() == b'{"id":"e1"}\n'
    await made.close()


async def test_a_writer_that_stops_takes_nothing_more_and_remembers_what_broke_first(store: SqliteStore) -> None:
    writer = store._state.writer
    for why in ("first", "second"):
        writer._fault(StateBroken(why))
    assert writer._broken is not None and writer._broken.message == "first"
    writer._broken, writer._stopping = None, True
    with pytest.raises(StateError, match="closed"):
        writer.put(lambda tx: None)
    writer._stopping = False
