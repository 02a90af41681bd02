"""The SQLite store passes the suite of the port."""

from __future__ import annotations

from palinurus.clock import Clock
from palinurus.store.port import Store
from palinurus.store.sqlite import open_store
from palinurus.testing.conformance.store import StoreSuite


class TestSqlite(StoreSuite):
    async def open(self, home: str, clock: Clock) -> Store:
        return await open_store(home, clock)
