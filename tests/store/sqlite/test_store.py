"""The SQLite store passes the suite of the port, also when its reads take a while."""

from __future__ import annotations

import shutil
from pathlib import Path

from palinurus.clock import Clock
from palinurus.store.port import Settlement, Store
from palinurus.store.sqlite import open_sqlite_store
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import FILE, make_line
from palinurus.testing.conformance.store import StoreSuite
from palinurus.testing.slowstore import share_store, slow_down


class TestSqlite(StoreSuite):
    async def open(self, home: str, clock: Clock) -> Store:
        return await open_sqlite_store(home, clock)

    async def share(self, store: Store) -> Store:
        return share_store(store)

    async def test_lines_reach_the_file(self, store: Store, tmp_path: Path) -> None:
        held = await self.accept_and_claim(store)
        await store.append(held, [make_line("e1"), make_line("e2")])
        await store.settle(held, Settlement("answered", lines=(make_line("e3"),)))
        lines = b"".join(make_line(e).data + b"\n" for e in ("e1", "e2", "e3"))
        assert (tmp_path / "home" / FILE).read_bytes() == lines

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


class TestSlowSqlite(StoreSuite):
    """The same, with reads that take a while."""

    async def open(self, home: str, clock: Clock) -> Store:
        return slow_down(await open_sqlite_store(home, clock), seed=1)

    async def share(self, store: Store) -> Store:
        return share_store(store)
