"""Looking at a fleet from the command line: read-only, one connection, calls that wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from palinurus.errors import NotFound, StateError, StateUnwritable
from palinurus.store.fleet import FleetReport, ServerHealth
from palinurus.store.port import InboxRow, OutboxRow, SessionRow, StoreRecord, TraceStep, UsageRow
from palinurus.store.postgres import roster, rows
from palinurus.store.postgres.link import load_driver
from palinurus.store.postgres.schema import SCHEMA, install_schema, read_schema

T = TypeVar("T")

_LOOK = """
SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(), current_setting('synchronous_commit'),
  (SELECT count(*) FROM pg_stat_replication),
  (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint, to_regclass($1) IS NOT NULL
"""


class PostgresReader:
    """Made by `open_postgres_reader`. Sees everything that is committed. Use as a context manager."""

    def __init__(self, url: str) -> None:
        self._driver = load_driver()
        self._loop = asyncio.new_event_loop()  # of its own: who calls may be inside one
        self._thread = threading.Thread(target=self._loop.run_forever, name="fleet-reader", daemon=True)
        self._thread.start()
        try:
            self._conn = self._run(self._driver.connect(url, server_settings={"search_path": SCHEMA}))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PostgresReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def item(self, ident: str) -> InboxRow | None:
        """By id, or by a prefix that only one id has."""
        return self._read(lambda db: rows.find_item(db, ident))

    def items(self, limit: int = 50, session: str | None = None, state: str | None = None) -> list[InboxRow]:
        """Newest first."""
        return self._read(lambda db: rows.list_items(db, limit, session, state))

    def replies(self, item: str) -> list[OutboxRow]:
        """The reply parts of one message, in order, whatever became of them."""
        return self._read(lambda db: rows.list_replies(db, item))

    def session(self, key: str) -> SessionRow | None:
        return self._read(lambda db: rows.find_session(db, key))

    def sessions(self, agent: str | None = None) -> list[SessionRow]:
        """Newest first."""
        return self._read(lambda db: rows.list_sessions(db, agent))

    def list_usage(self, since: int = 0, session: str | None = None) -> list[UsageRow]:
        """The usage ledger, oldest first."""
        return self._read(lambda db: rows.list_usage(db, since, session))

    def trace(self, ident: str) -> list[TraceStep]:
        """Everything recorded about one message, oldest first."""
        return self._read(lambda db: rows.build_trace(db, ident))

    def list_records(self, kind: str) -> list[StoreRecord]:
        """Small records of a part of the program, by key."""
        return self._read(lambda db: rows.list_records(db, kind))

    def read_lines(self, path: str, size: int) -> bytes:
        """The first bytes of a transcript."""
        return self._read(lambda db: rows.read_tail(db, path, 0))[:size]

    def integrity(self) -> list[str]:
        """Nothing: the server looks after its own pages."""
        return []

    def report(self) -> FleetReport:
        """The nodes, and what waits."""
        return self._read(roster.read_report)

    def install(self) -> None:
        """Make the tables and functions of this program, or bring them up to date."""
        self._run(install_schema(self._conn, read_schema()))

    def drain(self, node: str) -> bool:
        """Ask a node to finish what it runs, and to go. False: no such."""
        return self._read(lambda db: roster.drain_node(db, node))

    def evict(self, node: str) -> bool:
        """Take a node's lease away: it is refused from now on, and the others take over its work. False: no such."""
        return self._read(lambda db: roster.evict_node(db, node))

    def close(self) -> None:
        if self._loop.is_running():
            if hasattr(self, "_conn"):
                asyncio.run_coroutine_threadsafe(self._conn.close(), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _read(self, run: Callable[[Any], Awaitable[T]]) -> T:
        return self._run(run(self._conn))

    def _run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        with _explaining(self._driver):
            return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()


@contextmanager
def _explaining(driver: Any) -> Iterator[None]:
    """The driver's errors as ours."""
    try:
        yield
    except (driver.UndefinedTableError, driver.UndefinedColumnError):
        raise NotFound("that database is no fleet yet, or an old one", fix="pal fleet init URL") from None
    except OSError as error:
        raise StateUnwritable(f"the fleet's database cannot be reached: {error}", fix="check the address") from None
    except (driver.PostgresError, driver.InterfaceError) as error:
        pooler = "startup parameter" in str(error)
        fix = "name PostgreSQL itself, not a pooler" if pooler else "check the address and the password"
        raise StateError(f"the fleet's database: {error}", fix=fix) from None


def examine_server(url: str, now: Callable[[], int]) -> ServerHealth:
    """Is it fit to carry a fleet? `now` is this machine's clock. Raises StateError kinds, BadRequest (no asyncpg)."""
    with _explaining(load_driver()):
        return asyncio.run(_examine_server(url, now))


def open_postgres_reader(url: str) -> PostgresReader:
    """Connect. Raises StateError kinds, BadRequest without asyncpg."""
    return PostgresReader(url)


async def _examine_server(url: str, now: Callable[[], int]) -> ServerHealth:
    """`now` is this machine's clock. Raises what the driver raises."""
    driver = load_driver()
    conn = await driver.connect(url, statement_cache_size=0)
    try:
        pooled = await _is_pooled(driver, url, conn)
        here = now()
        release, standby, commits, count, synced, then, there = await conn.fetchrow(_LOOK, f"{SCHEMA}.programs")
        if there and not pooled:
            await conn.execute(f"SET search_path TO {SCHEMA}")
        report = await roster.read_report(conn) if there and not pooled else None
        return ServerHealth(
            release=release,
            standby=standby,
            commits=commits,
            standbys=count,
            synchronous=synced,
            skew=here - then,
            pooled=pooled,
            known=read_schema().version,
            report=report,
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
