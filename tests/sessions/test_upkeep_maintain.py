"""Maintenance on a real store and real files, beside work, and killed in between."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from palinurus.config.sections.schedule import UpkeepSettings
from palinurus.core.types.keys import SessionKey
from palinurus.sessions import search
from palinurus.sessions.files import archive_file, list_session_files, place_file
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.upkeep import run_upkeep
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, TranscriptLine
from palinurus.store.sqlite.store import SqliteStore
from palinurus.testing.clock import FakeClock


def rules_for_all(**fields: Any) -> UpkeepSettings:
    """As if the owner had set every rule."""
    return UpkeepSettings(**{"people": frozenset({"age", "count", "archive"}), **fields})


DAY = 86_400_000
NOW = 1_781_082_001_000
LINE = b'{"type":"message","id":"aaaaaaaa","parentId":null,"message":{"role":"user","content":"walnut"}}\n'


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(str(tmp_path), FakeClock(NOW))
    await opened.recover()
    yield opened
    await opened.close()


async def session(home: Path, store: SqliteStore, rest: str, age: float) -> str:
    key, at = SessionKey("main", rest), NOW - int(age * DAY)
    record = SessionRecord(sessionId=rest.replace(":", "-"), updatedAt=at)
    place_file(str(home), record.path("main"), LINE)
    os.utime(home / record.path("main"), ns=(at * 1_000_000, at * 1_000_000))
    await store.save_session(record.row(key))
    return str(key)


def names(home: Path) -> list[str]:
    return sorted(file.name for file in list_session_files(str(home)))


async def test_old_sessions_are_dropped_and_archived(tmp_path: Path, store: SqliteStore) -> None:
    await session(tmp_path, store, "direct:1", 40)
    kept = await session(tmp_path, store, "direct:2", 1)
    report = await run_upkeep(str(tmp_path), store, rules_for_all(), NOW)
    assert str(report) == "1 session dropped, 0 files removed"
    assert [row.key for row in await store.sessions()] == [kept]
    assert names(tmp_path) == ["direct-1.jsonl.deleted.2026-06-10T09-00-01.000Z", "direct-2.jsonl"]
    assert (await run_upkeep(str(tmp_path), store, rules_for_all(), NOW)).plan.actions == ()
    later = await run_upkeep(str(tmp_path), store, rules_for_all(prune_after=None), NOW + 31 * DAY)
    assert [a.reason for a in later.done] == ["archive"]
    assert names(tmp_path) == ["direct-2.jsonl"]


async def test_mode_warn_changes_nothing(tmp_path: Path, store: SqliteStore) -> None:
    await session(tmp_path, store, "direct:1", 40)
    report = await run_upkeep(str(tmp_path), store, rules_for_all(enforce=False), NOW)
    assert (len(report.plan.actions), report.done) == (1, ())
    assert names(tmp_path) == ["direct-1.jsonl"]
    assert len(await store.sessions()) == 1


async def test_sessions_at_work_are_left_alone(tmp_path: Path, store: SqliteStore) -> None:
    running = await session(tmp_path, store, "direct:1", 40)
    waiting = await session(tmp_path, store, "direct:2", 40)
    woken = await session(tmp_path, store, "direct:3", 40)
    await store.accept(InboxItem("i1", "d1", waiting, "main", b"{}", NOW), claim=False)
    busy = iter([(), (running,), (running,), (running,)])  # it starts after the plan was made

    class Waking:
        """The third session gets a message between plan and deed."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def session(self, key: str) -> object:
            row = await store.session(key)
            if key == woken and row is not None:
                record = SessionRecord(sessionId=row.session_id, updatedAt=NOW)
                await store.save_session(record.row(SessionKey("main", "direct:3")))
            return await store.session(key)

    report = await run_upkeep(str(tmp_path), Waking(), rules_for_all(), NOW, lambda: next(busy))  # type: ignore[arg-type]
    assert len(report.plan.actions) == 3
    assert report.done == ()
    assert len(await store.sessions()) == 3
    assert len(names(tmp_path)) == 3


async def test_killed_between_file_and_row(tmp_path: Path, store: SqliteStore) -> None:
    """The row without file goes the next time; the archive waits for its own day."""
    await session(tmp_path, store, "direct:1", 40)
    archive_file(str(tmp_path), "agents/main/sessions/direct-1.jsonl", "deleted", NOW)  # as far as it came
    rules = rules_for_all()
    assert [a.reason for a in (await run_upkeep(str(tmp_path), store, rules, NOW)).done] == ["old"]
    assert await store.sessions() == [] and len(names(tmp_path)) == 1
    assert [a.reason for a in (await run_upkeep(str(tmp_path), store, rules, NOW + 31 * DAY)).done] == ["archive"]
    assert names(tmp_path) == []


async def test_a_file_that_lost_its_row_stays(tmp_path: Path, store: SqliteStore) -> None:
    await store.drop_session(await session(tmp_path, store, "direct:1", 20))
    assert (await run_upkeep(str(tmp_path), store, rules_for_all(), NOW + 99 * DAY)).plan.actions == ()
    assert names(tmp_path) == ["direct-1.jsonl"]


async def test_what_is_archived_has_every_line_and_does_not_return(tmp_path: Path, store: SqliteStore) -> None:
    await session(tmp_path, store, "direct:1", 40)
    path = "agents/main/sessions/direct-1.jsonl"
    await store.write([TranscriptLine(path, "bbbbbbbb", b'{"id":"bbbbbbbb"}')])
    await run_upkeep(str(tmp_path), store, rules_for_all(), NOW)
    (name,) = names(tmp_path)
    assert (tmp_path / "agents/main/sessions" / name).read_bytes() == LINE + b'{"id":"bbbbbbbb"}\n'
    assert await store.read_tail(path, 0) == b""


async def test_ages_are_judged_by_the_time_that_is_believed(tmp_path: Path, store: SqliteStore) -> None:
    await session(tmp_path, store, "direct:1", 20)
    ahead = NOW + 400 * DAY
    assert (await run_upkeep(str(tmp_path), store, rules_for_all(), ahead, believed=NOW)).plan.actions == ()
    assert len((await run_upkeep(str(tmp_path), store, rules_for_all(), ahead, believed=ahead)).done) == 1


async def test_what_goes_leaves_the_index_too(tmp_path: Path, store: SqliteStore) -> None:
    await session(tmp_path, store, "direct:1", 40)
    assert len(search.search_transcripts(str(tmp_path), search.parse_query("walnut")).hits) == 1
    await run_upkeep(str(tmp_path), store, rules_for_all(), NOW)
    assert b"walnut" not in (tmp_path / search.NAME).read_bytes()


async def test_a_file_that_cannot_go_does_not_keep_the_others(tmp_path: Path, store: SqliteStore) -> None:
    await session(tmp_path, store, "direct:1", 40)
    await session(tmp_path, store, "direct:2", 40)
    folder = tmp_path / "agents/main/sessions"
    rules = rules_for_all()
    orphan = folder / "o.jsonl.bad-1"
    orphan.write_bytes(LINE)
    os.utime(orphan, ns=(0, 0))

    class Swapped:
        """Somebody puts a folder where a file was."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def drop_session(self, key: str, path: str = "") -> None:
            if orphan.is_file():
                orphan.unlink()
                orphan.mkdir()
            await store.drop_session(key, path)

    report = await run_upkeep(str(tmp_path), Swapped(), rules, NOW)  # type: ignore[arg-type]
    assert len(report.done) == 2
    assert len(report.failed) == 1
    assert "o.jsonl.bad-1" in report.failed[0]


async def test_sessions_are_looked_through_in_a_thread(tmp_path: Path, store: SqliteStore) -> None:
    """With ten thousand of them everybody would wait for it."""
    await session(tmp_path, store, "direct:1", 40)
    rules, asked = rules_for_all(), set[int]()

    class Watched:
        def __getattr__(self, name: str) -> object:
            asked.add(threading.get_ident())
            return getattr(rules, name)

    report = await run_upkeep(str(tmp_path), store, cast("UpkeepSettings", Watched()), NOW)
    assert report.done and asked - {threading.get_ident()}
