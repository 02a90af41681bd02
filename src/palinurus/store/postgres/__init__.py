"""The store on PostgreSQL, for several nodes. Needs the extra `fleet` (asyncpg), which is loaded when one is opened."""

from __future__ import annotations

from palinurus.clock import Clock
from palinurus.store.postgres.link import FleetLink, FleetMember, load_driver
from palinurus.store.postgres.store import PostgresStore


async def open_postgres_store(url: str, home: str, clock: Clock, member: FleetMember) -> PostgresStore:
    """Join the fleet at `url`. Call `recover()` before anything else.

    Raises StateUnwritable (no server, wrong password), StateBroken (a newer schema), BadRequest (no asyncpg).
    """
    link = FleetLink(load_driver(), url, clock, member)
    await link.start()
    return PostgresStore(link, home)
