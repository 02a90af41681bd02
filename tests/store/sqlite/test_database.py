"""Broken, foreign and future files: one clear error each, nothing renamed or removed behind anyone's back."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.errors import NotFound, StateBroken, StateError, StateUnwritable
from palinurus.store.port import InboxItem, Settlement
from palinurus.store.sqlite import database, open_sqlite_store
from palinurus.store.sqlite.reader import open_sqlite_reader
from palinurus.testing.conformance.inbox import make_line


async def filled(home: Path, count: int = 200) -> Path:
    store = await open_sqlite_store(str(home), SystemClock())
    for n in range(count):
        await store.accept(InboxItem(f"m{n:05}", f"d{n}", f"s{n}", "main", b"x" * 500, n), claim=False)
    await store.close()
    return home / "state.db"


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"SQLite format 3\0" + b"\xff" * 5000, b"{}"])
async def test_garbage_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(content)
    with pytest.raises(StateBroken) as caught:
        await open_sqlite_store(str(tmp_path), SystemClock())
    assert str(file) in caught.value.message
    assert "pal doctor" in caught.value.fix
    assert file.read_bytes() == content
    # the lock is free again
    with pytest.raises(StateBroken):
        await open_sqlite_store(str(tmp_path), SystemClock())


async def test_damage_inside_is_found_at_start(tmp_path: Path) -> None:
    file = await filled(tmp_path)
    with file.open("r+b") as raw:
        raw.seek(4096 * 12)
        raw.write(os.urandom(4096 * 8))
    with pytest.raises(StateBroken, match="damaged"):
        await open_sqlite_store(str(tmp_path), SystemClock())
    with open_sqlite_reader(str(tmp_path)) as reader:
        assert reader.integrity()


async def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"")
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    assert await store.sessions() == []
    await store.close()


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    file = await filled(tmp_path, 1)
    with closing(sqlite3.connect(file)) as conn:
        conn.execute("PRAGMA user_version = 99")
    with pytest.raises(StateBroken, match="newer"):
        await open_sqlite_store(str(tmp_path), SystemClock())
    with pytest.raises(StateBroken, match="newer"):
        open_sqlite_reader(str(tmp_path))


def test_an_empty_file_is_no_state_yet(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()  # a disk that was full at the first start
    with pytest.raises(NotFound, match="has no state yet"):
        open_sqlite_reader(str(tmp_path))


def test_nothing_to_read_yet(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no state yet"):
        open_sqlite_reader(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


async def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = await open_sqlite_store(str(tmp_path / "home"), SystemClock())
        held = (await store.accept(InboxItem("m1", "d1", "a", "main", b"", 1), claim=True)).claim
        assert held is not None
        await store.settle(held, Settlement("answered", lines=(make_line("e1"),)))
        found = {p: p.stat().st_mode & 0o777 for p in [tmp_path / "home", *(tmp_path / "home").rglob("*")]}
        await store.close()
    finally:
        os.umask(old)
    assert len(found) > 6
    assert {p.name: oct(mode) for p, mode in found.items() if mode & 0o077} == {}


async def test_a_file_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    file = await filled(tmp_path, 1)
    file.chmod(0o644)
    await (await open_sqlite_store(str(tmp_path), SystemClock())).close()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_somebody_elses_file(tmp_path: Path) -> None:
    os.chown(await filled(tmp_path, 1), 12345, 12345)
    with pytest.raises(StateUnwritable, match="belongs to user 12345"):
        await open_sqlite_store(str(tmp_path), SystemClock())


async def test_the_file_is_safe_against_power_loss(tmp_path: Path) -> None:
    file = await filled(tmp_path, 1)
    with closing(sqlite3.connect(file)) as conn:
        assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert not (tmp_path / "state.db-wal").exists()  # folded in by a clean close


def count_handles(file: Path) -> int:
    """How often this process has it open."""
    names = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(os.path.exists(name) and os.readlink(name) == str(file) for name in names)


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_cannot_be_read_is_said_to_be_broken_and_let_go(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(content)
    for attempt in (database.open_for_reading, database.open_for_writing):
        with pytest.raises(StateBroken):
            attempt(str(tmp_path))
        assert count_handles(file) == 0


async def test_a_damaged_file_is_let_go(tmp_path: Path) -> None:
    file = await filled(tmp_path)
    with file.open("r+b") as broken:
        broken.seek(4096 * 12)
        broken.write(b"\xff" * 4096 * 8)
    with pytest.raises(StateBroken, match="damaged"):
        database.open_for_writing(str(tmp_path))
    assert count_handles(file) == 0


def test_where_there_is_no_database_none_is_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(StateError):
        database.open_for_reading(str(tmp_path / "nowhere"))
    with pytest.raises(StateError):
        database.open_for_reading(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


async def test_who_looks_waits_for_who_writes_and_keeps_little_in_memory(tmp_path: Path) -> None:
    await filled(tmp_path, 1)
    with closing(database.open_for_reading(str(tmp_path))) as conn:
        assert conn.execute("PRAGMA busy_timeout").fetchone() == (5000,)
        assert conn.execute("PRAGMA cache_size").fetchone() == (-1000,)
    with closing(database.open_for_writing(str(tmp_path))) as conn:  # checked with less: every page goes through once
        assert conn.execute("PRAGMA cache_size").fetchone() == (-4000,)


def test_only_a_lack_of_room_is_a_lack_of_room(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert database.has_room(str(tmp_path / "file")) is True
    assert database.has_room("/proc/self/status") is True  # nothing can be put beside it, for another reason
