"""The store on PostgreSQL passes the suite of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.clock import Clock
from palinurus.store.port import Store
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.store import PostgresStore
from palinurus.testing.conformance.store import StoreSuite


class TestPostgres(StoreSuite):
    @pytest.fixture(autouse=True)
    def _fleet(self, fleet: str) -> None:
        self.url = fleet
        self.shared = 0

    async def open(self, home: str, clock: Clock) -> Store:
        self.home, self.clock_used = home, clock
        return await open_postgres_store(self.url, home, clock, node=Path(home).name, database_time=False)

    async def share(self, store: Store) -> Store:
        self.shared += 1
        return await open_postgres_store(
            self.url, self.home, self.clock_used, node=f"other{self.shared}", database_time=False
        )

    async def catch_up(self, *stores: Store) -> None:
        for store in stores:
            assert isinstance(store, PostgresStore)
            await store.pull_news()
