"""The SQLite store passes the suite of the port, also when its reads take a while; what it does with files."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import shutil
from pathlib import Path

import pytest

from flow.test_durable import freeze
from palinurus.clock import Clock
from palinurus.errors import StateError, StateUnwritable
from palinurus.store.factory import StateReader
from palinurus.store.port import Settlement, Store
from palinurus.store.shared import SharedBytes, SharedStore
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.reader import open_sqlite_reader
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance import inbox, nodes, store
from palinurus.testing.conformance.inbox import FILE, make_item, make_line
from palinurus.testing.conformance.store import ReaderSuite, StoreSuite
from palinurus.testing.slowstore import READS, share_store, slow_down


class TestSqlite(ReaderSuite):
    async def open(self, home: str, clock: Clock) -> Store:
        return await open_sqlite_store(home, clock)

    async def share(self, store: Store) -> Store:
        return share_store(store)

    def look(self, home: str) -> StateReader:
        return open_sqlite_reader(home)

    async def test_lines_are_in_their_files(self, store: Store, tmp_path: Path) -> None:
        held, other = await self.accept_and_claim(store), "agents/main/sessions/other.jsonl"
        await store.append(held, [make_line("e1"), make_line("x1", other)])
        await store.settle(held, Settlement("answered", lines=(make_line("e2"),)))
        home = tmp_path / "home"
        assert (home / FILE).read_bytes() == b"".join(make_line(e).data + b"\n" for e in ("e1", "e2"))
        assert (home / other).read_bytes() == make_line("x1").data + b"\n"

    async def test_lines_of_a_session_that_was_dropped_do_not_make_its_file_anew(
        self, store: Store, tmp_path: Path, clock: FakeClock
    ) -> None:
        """Nor does a kill at that moment: a copy of the directory is what it leaves."""
        held = await self.accept_and_claim(store)
        await store.append(held, [make_line("e1")])
        (tmp_path / "home" / FILE).unlink()  # put away
        await store.drop_session("agent:main:a", FILE)
        shutil.copytree(tmp_path / "home", tmp_path / "killed")
        again = await self.open(str(tmp_path / "killed"), clock)
        try:
            await again.recover()
        finally:
            await again.close()
        assert not (tmp_path / "killed" / FILE).exists()

    async def test_a_line_and_what_becomes_of_its_file_in_one_commit(self, store: Store, tmp_path: Path) -> None:
        file = tmp_path / "home" / FILE
        await asyncio.gather(store.write([make_line("e1")]), store.complete_file(FILE))
        assert file.read_bytes() == make_line("e1").data + b"\n"  # once
        file.unlink()
        await asyncio.gather(store.write([make_line("e2")]), store.drop_session("agent:main:a", FILE))
        await store.close()
        assert not file.exists()

    async def test_a_file_that_takes_no_lines_is_not_whole(self, store: Store, tmp_path: Path) -> None:
        file = tmp_path / "home" / FILE
        file.mkdir(parents=True)
        await store.write([make_line("e1")])
        with pytest.raises(StateUnwritable):
            await store.complete_file(FILE)
        file.rmdir()
        await store.complete_file(FILE)
        assert file.read_bytes() == make_line("e1").data + b"\n"

    async def test_lines_that_their_file_does_not_take_are_read_all_the_same(
        self, store: Store, tmp_path: Path
    ) -> None:
        one, two = (make_line(name).data + b"\n" for name in ("e1", "e2"))
        await store.write([make_line("e1")])
        await store.complete_file(FILE)
        handle = freeze(tmp_path / "home" / FILE)
        await store.write([make_line("e2")])
        assert await store.read_tail(FILE, len(one)) == two and await store.read_tail(FILE, 0) == one + two
        os.close(handle)

    async def test_a_transcript_that_is_no_file_cannot_be_read(self, store: Store, tmp_path: Path) -> None:
        file = tmp_path / "home" / FILE
        file.parent.mkdir(parents=True)
        os.mkfifo(file)
        with pytest.raises(StateUnwritable, match="not a regular file"):
            await store.read_tail(FILE, 0)

    async def test_a_node_that_leaves_has_done_what_it_was_asked_for_and_does_no_more(self, store: Store) -> None:
        other = await self.share(store)
        asked = asyncio.ensure_future(other.accept(make_item("m1"), claim=False))
        await asyncio.sleep(0)
        await other.close()
        assert asked.done() and await store.item("m1") is not None
        with pytest.raises(StateError, match="closed"):
            await other.item("m1")
        with pytest.raises(StateError, match="closed"):
            await other.accept(make_item("m2"), claim=False)


class TestSlowSqlite(StoreSuite):
    """The same, with a store that takes its time."""

    async def open(self, home: str, clock: Clock) -> Store:
        return slow_down(await open_sqlite_store(home, clock), seed=1)

    async def share(self, store: Store) -> Store:
        return share_store(store)


def list_methods(port: type) -> set[str]:
    return {name for name, value in vars(port).items() if inspect.isfunction(value) and not name.startswith("_")}


def test_the_suite_asks_for_every_method_of_the_ports() -> None:
    suite = "".join(map(inspect.getsource, (inbox, nodes, store)))
    asked = set(re.findall(r"\.(\w+)\(", suite))
    assert (
        list_methods(Store) | list_methods(SharedStore) | list_methods(SharedBytes)
    ) - asked == set() and list_methods(StateReader) - asked == set()
    assert list_methods(Store) >= READS
