"""The writer's thread between batches and after faults: what is synced when, who is refused, what goes on."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from palinurus.clock import SystemClock
from palinurus.errors import StateBroken, StateError
from palinurus.store.port import RunClaim, Store
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.journal import MANY
from palinurus.testing.conformance.inbox import FILE, make_item, make_line, make_reply_part
from store.sqlite.processes import command
from store.sqlite.test_writer import swapped


def count(home: Path, table: str = "journal") -> int:
    with closing(sqlite3.connect(home / "state.db", timeout=60)) as conn:
        return int(conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.02)


async def opened(home: Path) -> tuple[Any, RunClaim]:
    store: Store = await open_sqlite_store(str(home), SystemClock())
    held = (await store.accept(make_item("m1"), claim=True)).claim
    assert held is not None
    return store, held


async def test_rows_go_when_nothing_happens_for_a_while_and_work_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, held = await opened(tmp_path)
    with caplog.at_level(logging.WARNING):
        for n in range(2):
            await store.append(held, [make_line(f"e{n}")])
            assert count(tmp_path) == 1
            await until(lambda: count(tmp_path) == 0)
        await store.accept(make_item("m2"), claim=False)
        await store.close()
    assert caplog.text == ""
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 2


async def test_many_rows_are_synced_though_it_is_never_idle(tmp_path: Path) -> None:
    store, held = await opened(tmp_path)
    await store.append(held, [make_line(f"e{n}") for n in range(MANY)])
    for _ in range(5):
        await store.put_record("busy", "x", b"")
    assert count(tmp_path) == MANY  # one more than this is too many
    await store.append(held, [make_line("last")])
    async with asyncio.timeout(60):
        while count(tmp_path):
            await store.put_record("busy", "x", b"")
            await asyncio.sleep(0.02)
    await store.close()


async def test_a_file_that_can_be_written_again_is_without_anybody_asking(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir(parents=True)
    store, held = await opened(tmp_path)
    await store.append(held, [make_line("e1")])
    (tmp_path / FILE).rmdir()
    await until(lambda: (tmp_path / FILE).is_file() and count(tmp_path) == 0)
    assert (tmp_path / FILE).read_bytes() == make_line("e1").data + b"\n"
    await store.close()


async def test_rows_that_cannot_go_are_no_reason_to_refuse_what_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What failed between two batches is undone, and said."""
    store, held = await opened(tmp_path)
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as db:
        db.execute("CREATE TRIGGER stay BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'it stays'); END")
        await store.append(held, [make_line("e1")])
        await until(lambda: "it stays" in caplog.text)
        await store.accept(make_item("m2"), claim=False)
        db.execute("DROP TRIGGER stay")
    await store.append(held, [make_line("e2")])
    await until(lambda: count(tmp_path) == 0)
    assert (tmp_path / FILE).read_bytes().count(b"\n") == 2
    await store.close()


async def test_a_closed_store_takes_nothing(tmp_path: Path) -> None:
    store, _ = await opened(tmp_path)
    await store.close()
    with pytest.raises(StateError, match="closed"):
        await store.accept(make_item("m2"), claim=False)
    with pytest.raises(StateError, match="closed"):
        await store.item("m1")


async def test_what_sqlite_refuses_as_a_whole_is_refused_to_all_and_the_next_goes_on(tmp_path: Path) -> None:
    store, _ = await opened(tmp_path)
    bad = store._state.writer.put(lambda tx: tx.conn.execute("SELECT * FROM nowhere"), by=store._node)
    good = asyncio.ensure_future(store.accept(make_item("m2", "s2"), claim=False))
    with pytest.raises(StateError) as caught:
        await bad
    assert not isinstance(caught.value, StateBroken) and "nowhere" in caught.value.message
    got = await asyncio.gather(good, return_exceptions=True)
    if isinstance(got[0], StateError):  # it was in the same batch
        assert await store.item("m2") is None
    await store.accept(make_item("m3", "s3"), claim=False)
    assert await store.item("m3") is not None
    await store.close()


async def test_a_bug_in_one_operation_is_its_callers_alone(tmp_path: Path) -> None:
    store, held = await opened(tmp_path)

    def half(tx: Any) -> None:
        tx.append([make_line("never")])
        tx.conn.execute("INSERT INTO kept VALUES ('half', 'x', x'', 1)")
        raise RuntimeError("a bug")

    futures = [
        store._state.writer.put(half, by=store._node),
        asyncio.ensure_future(store.append(held, [make_line("e1")])),
    ]
    got = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(got[0], RuntimeError) and got[1] is None
    assert (tmp_path / FILE).read_bytes() == make_line("e1").data + b"\n"
    assert await store.get_record("half", "x") is None and count(tmp_path) == 1
    await store.close()


async def test_each_step_is_in_the_trace(tmp_path: Path) -> None:
    store, _ = await opened(tmp_path)
    assert [(step.what, step.detail) for step in await store.trace("m1")][-1] == ("claimed", "attempt 1")
    await store.close()


async def test_when_the_database_itself_is_broken_receipts_are_refused_too(tmp_path: Path) -> None:
    store, held = await opened(tmp_path)
    await store.queue_replies(held, [make_reply_part("r1"), make_reply_part("r2")])
    await store.mark_sending("r1", 1)
    wal = tmp_path / "state.db-wal"
    with open(wal, "rb") as unwritable, swapped(wal, unwritable.fileno()):
        with pytest.raises(StateBroken):
            await store.accept(make_item("m2", "s2"), claim=False)
    with pytest.raises(StateBroken):  # although the disk works again
        await store.mark_delivered("r1", "55", 2)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as conn:
        assert conn.execute("SELECT state FROM outbox ORDER BY seq").fetchall() == [("sending",), ("pending",)]


def test_a_failing_fsync_stops_all_but_receipts(tmp_path: Path) -> None:
    """By strace: the kernel says EIO to every fsync of a file; SQLite's own (fdatasync) go on."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    inject = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=2+"]
    done = subprocess.run(
        [*inject, *command("unsynced", tmp_path / "home")], capture_output=True, text=True, timeout=120
    )
    if "ptrace" in done.stderr:
        pytest.skip("strace may not look here")
    assert done.stdout.splitlines() == ["broken", "delivered", "StateBroken", "sent 1", "pending 0", "kept 1"], (
        done.stderr
    )
