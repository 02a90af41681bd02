"""The writer's thread: batches, faults of the disk under it (F5, F9), callers that go away."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.errors import StateBroken
from palinurus.store.port import Acceptance, InboxItem, Settlement
from palinurus.store.sqlite import open_sqlite_store
from palinurus.testing.conformance.inbox import make_item, make_line, make_reply_part
from store.sqlite.processes import child, on_tmpfs


@contextmanager
def swapped(file: Path, other: int) -> Iterator[None]:
    """Every open descriptor of `file` leads to `other` meanwhile: the disk goes bad under a running database."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}") == str(file) and int(name) != other:
                found.append(int(name))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    assert found
    kept = {fd: os.dup(fd) for fd in found}
    for fd in kept:
        os.dup2(other, fd)
    try:
        yield
    finally:
        for fd, old in kept.items():
            os.dup2(old, fd)
            os.close(old)


async def test_after_a_failed_write_nothing_is_believed_any_more(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    await store.accept(make_item("m1", "s1"), claim=False)
    wal = tmp_path / "state.db-wal"
    unwritable = os.open(wal, os.O_RDONLY)
    with swapped(wal, unwritable):
        with pytest.raises(StateBroken) as caught:
            await store.accept(make_item("m2", "s2"), claim=False)
        assert "disk" in caught.value.message
    os.close(unwritable)
    for ident in ("m3", "m4", "m5"):
        with pytest.raises(StateBroken):  # although the disk works again
            await store.accept(make_item(ident, ident), claim=False)
    await store.close()
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    assert await store.item("m1") is not None
    await store.close()


def test_a_full_disk_refuses_and_recovers_by_itself(tmp_path: Path) -> None:
    done = on_tmpfs("full", tmp_path, "size=1500k,mode=700")
    assert done.stdout == "3 True True\n", done.stderr


def test_a_file_that_may_not_grow_is_a_full_disk_too(tmp_path: Path) -> None:
    """SQLite calls a quota an I/O error; it must not be taken for a broken disk."""
    done = child("small", tmp_path / "home")
    assert "DiskFull" in done.stdout.splitlines(), done.stderr


async def test_a_bad_value_fails_only_its_own_caller(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    bad = [
        InboxItem("b1", "b1", "s", "main", object(), 1),  # type: ignore[arg-type]
        InboxItem("b2", "b2", "s", "main", b"", 1 << 70),
        InboxItem("b3", "b3\ud800", "s", "main", b"", 1),
        InboxItem("g0", "other", "s", "main", b"", 1),  # an id that exists
    ]
    mixed = [make_item("g0", "s0"), bad[0], make_item("g1", "s1"), bad[1], bad[2], make_item("g2", "s2"), bad[3]]
    got = await asyncio.gather(*(store.accept(each, claim=True) for each in mixed), return_exceptions=True)
    assert [isinstance(g, Acceptance) for g in got] == [True, False, True, False, False, True, False]
    assert not any(isinstance(g, StateBroken) for g in got)
    assert [await store.item(f"b{n}") for n in (1, 2, 3)] == [None, None, None]
    await store.close()


async def test_many_callers_share_a_commit(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    wal = tmp_path / "state.db-wal"
    before = wal.stat().st_size
    await asyncio.gather(*(store.accept(make_item(f"m{n:03}", f"s{n}"), claim=False) for n in range(200)))
    together = wal.stat().st_size - before
    for n in range(10):
        await store.accept(make_item(f"n{n}", f"t{n}"), claim=False)
    alone = wal.stat().st_size - before - together
    assert together / 200 < alone / 10 / 4
    await store.close()


async def test_close_finishes_what_was_queued_though_nobody_waits(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    tasks = [asyncio.ensure_future(store.accept(make_item(f"m{n}", f"s{n}"), claim=False)) for n in range(50)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await store.close()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as conn:
        assert conn.execute("SELECT count(*) FROM inbox").fetchone() == (50,)


async def test_after_a_transcripts_disk_failed_only_receipts_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has happened outside is written down, or it happens again after the restart; nothing else is begun."""
    real = os.fsync

    def fsync(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".jsonl"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    held = (await store.accept(make_item("m1"), claim=True)).claim
    assert held is not None
    await store.settle(held, Settlement("answered", lines=(make_line("e1"),), replies=(make_reply_part("r1"),)))
    await store.mark_sending("r1", 1)
    async with asyncio.timeout(60):
        with pytest.raises(StateBroken):
            while True:
                await store.post_replies(())
                await asyncio.sleep(1.5)  # it is synced when nothing happens for a second
    await store.mark_delivered("r1", "55", 2)
    with pytest.raises(StateBroken):
        await store.mark_sending("r1", 3)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as conn:
        assert conn.execute("SELECT state, receipt FROM outbox").fetchall() == [("sent", "55")]
