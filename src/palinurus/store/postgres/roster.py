"""Looking after the nodes of a fleet: who they are, how they are, what to do with them. Each order is one statement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from palinurus.errors import StateError, StateUnwritable
from palinurus.store.fleet import FleetFigures, FleetNode, FleetReport, UnservedAgent
from palinurus.store.postgres.link import CHANNEL, FleetLink, load_driver
from palinurus.store.postgres.rows import Queries
from palinurus.store.postgres.schema import SCHEMA, find_version, install_schema, read_schema

_NODES = """
SELECT n.id, n.epoch, extract(epoch FROM n.until - clock_timestamp())::float8,
  extract(epoch FROM clock_timestamp() - n.since)::float8,
  (SELECT count(*) FROM inbox AS i WHERE i.state = 'running' AND i.node = n.id),
  ARRAY(SELECT h.name FROM held AS h WHERE h.node = n.id AND h.name !~ '^(life|alive|heir)/' ORDER BY 1),
  n.version, n.release, n.config, n.serves, n.draining, n.stale, n.skew
FROM node AS n ORDER BY n.id
"""
_WAITING = """
SELECT count(*), coalesce(greatest(0, extract(epoch FROM clock_timestamp()) - min(at) / 1000.0), 0)::float8
FROM inbox WHERE state = 'queued'
"""
_UNSERVED = """
SELECT split_part(session, ':', 2), count(*) FROM inbox AS i WHERE state = 'queued' AND lane <> 'control'
  AND EXISTS (SELECT 1 FROM node WHERE until > clock_timestamp())
  AND NOT EXISTS (SELECT 1 FROM node AS n WHERE n.until > clock_timestamp() AND NOT n.draining AND (n.serves IS NULL
    OR EXISTS (SELECT 1 FROM jsonb_array_elements_text(n.serves) AS s WHERE starts_with(i.session, s))))
GROUP BY 1 ORDER BY 1
"""
# The lock first, so that the number of the news is given in the order in which news are seen.
_DRAIN = """
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(7001, hashtext('palinurus'))),
  found AS (UPDATE node SET draining = true FROM alone WHERE id = $1 RETURNING id)
INSERT INTO news (node, said)
SELECT '', jsonb_build_array(jsonb_build_array('drain', id, '', '')) FROM found RETURNING rev
"""


async def read_report(db: Queries) -> FleetReport:
    """All nodes and what waits. Raises StateError where there is no fleet."""
    version = await find_version(db)
    nodes = [_to_node(row) for row in await db.fetch(_NODES)]
    ((waiting, oldest),) = await db.fetch(_WAITING)
    unserved = [UnservedAgent(agent, count) for agent, count in await db.fetch(_UNSERVED)]
    return FleetReport(nodes, waiting, oldest, version=version, unserved=unserved)


def _to_node(row: Any) -> FleetNode:
    told = dict(zip(FleetNode.__struct_fields__, row, strict=True))
    for name in ("serves", "stale"):
        told[name] = msgspec.json.decode(told[name]) if told[name] is not None else None
    return FleetNode(**told)


async def drain_node(db: Queries, node: str) -> bool:
    """See `FleetPort`. The node hears of it at once, or with its next renewal."""
    done = await db.fetch(_DRAIN, node)
    await db.fetch(f"NOTIFY {CHANNEL}")
    return bool(done)


async def evict_node(db: Queries, node: str) -> bool:
    """See `FleetPort`."""
    done = await db.fetch("DELETE FROM node WHERE id = $1 RETURNING id", node)
    await db.fetch(f"NOTIFY {CHANNEL}")
    return bool(done)


@asynccontextmanager
async def open_alone(url: str) -> AsyncIterator[tuple[str, Any]]:
    """Its name without a password, and a connection; its tables are there. Raises StateError if a node is at work."""
    parts, driver = urlsplit(url), load_driver()
    user, at, place = parts.netloc.rpartition("@")
    try:
        conn = await driver.connect(url, server_settings={"search_path": SCHEMA})
    except (OSError, driver.PostgresError) as error:
        raise StateUnwritable(f"the fleet's database cannot be reached: {error}", fix="check the address") from None
    try:
        await install_schema(conn, read_schema())
        if busy := [node.id for node in (await read_report(conn)).nodes if node.left > 0]:
            fix = f"stop them first: pal fleet drain {busy[0]}"
            raise StateError(f"{len(busy)} nodes are at work there: {', '.join(busy)}", fix=fix)
        yield parts._replace(netloc=f"{user.partition(':')[0]}{at}{place}").geturl(), conn
    except (OSError, driver.PostgresError, driver.InterfaceError) as error:
        raise StateError(f"the fleet's database: {error}", fix="the same command goes on where it was") from None
    finally:
        await conn.close()


class FleetRoster:
    """Implements `FleetPort` over a node's own connections."""

    def __init__(self, link: FleetLink) -> None:
        self._link = link

    @property
    def name(self) -> str:
        return self._link.node

    @property
    def figures(self) -> FleetFigures:
        return self._link.figures

    async def report(self) -> FleetReport:
        return await self._link.read(read_report)

    async def drain(self, node: str) -> bool:
        return await self._link.read(lambda db: drain_node(db, node))

    async def evict(self, node: str) -> bool:
        return await self._link.read(lambda db: evict_node(db, node))

    async def serve(self, agents: Sequence[str]) -> None:
        prefixes = msgspec.json.encode([f"agent:{agent}:" for agent in agents] or None).decode()
        sql = "UPDATE node SET serves = nullif($3::jsonb, 'null') WHERE id = $1 AND epoch = $2"
        await self._link.read(lambda db: db.fetch(sql, self._link.node, self._link.epoch, prefixes))

    async def retire(self) -> None:
        sql = "SELECT retire_node($1, $2)"
        await self._link.read(lambda db: db.fetch(sql, self._link.node, self._link.epoch))
        await self._link.read(lambda db: db.fetch(f"NOTIFY {CHANNEL}"))
