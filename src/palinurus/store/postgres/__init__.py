"""The store on PostgreSQL, for several nodes. Needs the extra `fleet` (asyncpg), which is loaded when one is opened."""

from __future__ import annotations

from collections.abc import Callable

from palinurus.clock import Clock
from palinurus.store.postgres.link import LEASE, FleetLink, connect_fleet
from palinurus.store.postgres.store import PostgresStore


async def open_postgres_store(
    url: str,
    home: str,
    clock: Clock,
    *,
    node: str,
    lease: float = LEASE,
    lost: Callable[[str], None] = lambda why: None,
    ended: Callable[[], None] = lambda: None,
    database_time: bool = True,
) -> PostgresStore:
    """Join the fleet at `url` as `node`. Call `recover()` before anything else.

    `lost` is told why, if the others go on without it: its lease was over; `ended` is called when it is
    closed. `database_time`: moments are those of the server, so that nodes agree; otherwise those of `clock`. Raises
    StateUnwritable (no server, wrong password), StateBroken (a newer schema), BadRequest (no asyncpg).
    """
    link: FleetLink = await connect_fleet(url, node, clock, lease=lease, database_time=database_time)
    link.on_lost = lost
    return PostgresStore(link, home, ended)
