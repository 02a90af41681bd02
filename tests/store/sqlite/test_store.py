"""The SQLite store passes the suite of the port, also when its reads take a while."""

from __future__ import annotations

from palinurus.clock import Clock
from palinurus.store.port import Store
from palinurus.store.sqlite import open_sqlite_store
from palinurus.testing.conformance.store import StoreSuite
from palinurus.testing.slowstore import share_store, slow_down


class TestSqlite(StoreSuite):
    async def open(self, home: str, clock: Clock) -> Store:
        return await open_sqlite_store(home, clock)

    def share(self, store: Store) -> Store:
        return share_store(store)


class TestSlowSqlite(StoreSuite):
    """The same, with reads that take a while."""

    async def open(self, home: str, clock: Clock) -> Store:
        return slow_down(await open_sqlite_store(home, clock), seed=1)

    def share(self, store: Store) -> Store:
        return share_store(store)
