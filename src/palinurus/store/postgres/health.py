"""Is a PostgreSQL fit to carry a fleet? Looked at from one machine, with connections that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palinurus.store.fleet import ServerHealth
from palinurus.store.postgres.link import load_driver
from palinurus.store.postgres.roster import read_report
from palinurus.store.postgres.schema import SCHEMA, read_schema

_LOOK = """
SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(), current_setting('synchronous_commit'),
  (SELECT count(*) FROM pg_stat_replication),
  (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint, to_regclass($1) IS NOT NULL
"""


async def examine_server(url: str, now: Callable[[], int]) -> ServerHealth:
    """`now` is this machine's clock. Raises what the driver raises."""
    driver = load_driver()
    conn = await driver.connect(url, statement_cache_size=0)
    try:
        pooled = await _is_pooled(driver, url, conn)
        here = now()
        release, standby, commits, count, synced, then, there = await conn.fetchrow(_LOOK, f"{SCHEMA}.programs")
        if there and not pooled:
            await conn.execute(f"SET search_path TO {SCHEMA}")
        report = await read_report(conn) if there and not pooled else None
        return ServerHealth(
            release, standby, commits, count, synced, here - then, pooled, read_schema().version, report
        )
    finally:
        await conn.close()


async def _is_pooled(driver: Any, url: str, conn: Any) -> bool:
    """What one connection sets for itself must not be there in another: a pooler gives both the same one."""
    other = await driver.connect(url, statement_cache_size=0)
    try:
        await conn.execute("SELECT set_config('palinurus.probe', 'seen', false)")
        found = await other.fetchval("SELECT coalesce(current_setting('palinurus.probe', true), '')")
        await conn.execute("SELECT set_config('palinurus.probe', '', false)")
        return bool(found)
    finally:
        await other.close()
