"""The store on PostgreSQL passes the suite of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.clock import Clock
from palinurus.store.port import Store
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember
from palinurus.store.postgres.store import PostgresStore
from palinurus.testing.conformance.inbox import FILE, make_line
from palinurus.testing.conformance.store import StoreSuite


class TestPostgres(StoreSuite):
    @pytest.fixture(autouse=True)
    def _fleet(self, fleet: str) -> None:
        self.url = fleet
        self.shared = 0

    async def open(self, home: str, clock: Clock) -> Store:
        self.home, self.clock_used = home, clock
        return await self.join(Path(home).name)

    async def share(self, store: Store) -> Store:
        self.shared += 1
        return await self.join(f"other{self.shared}")

    async def join(self, name: str) -> Store:
        member = FleetMember(name, lease=600.0, database_time=False)  # nobody renews it: the clock stands still
        return await open_postgres_store(self.url, self.home, self.clock_used, member)

    async def catch_up(self, *stores: Store) -> None:
        for store in stores:
            assert isinstance(store, PostgresStore)
            await store.pull_news()

    async def test_lines_of_a_session_that_was_dropped_are_gone(self, store: Store) -> None:
        await store.append(await self.accept_and_claim(store), [make_line("e1")])
        await store.drop_session("agent:main:a", FILE)
        assert await store.read_tail(FILE, 0) == b""
