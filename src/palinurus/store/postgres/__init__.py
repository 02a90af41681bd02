"""The store on PostgreSQL, for several nodes. Needs the extra `fleet` (asyncpg), which is loaded when one is opened."""

from __future__ import annotations

from palinurus.clock import Clock
from palinurus.store.postgres.link import FleetMember, connect_fleet
from palinurus.store.postgres.store import PostgresStore


async def open_postgres_store(url: str, home: str, clock: Clock, member: FleetMember) -> PostgresStore:
    """Join the fleet at `url`. Call `recover()` before anything else.

    Raises StateUnwritable (no server, wrong password), StateBroken (a newer schema), BadRequest (no asyncpg).
    """
    return PostgresStore(await connect_fleet(url, clock, member), home)
