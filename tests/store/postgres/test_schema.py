"""Two versions of the program on one PostgreSQL: neighbours live together, others are refused with a sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from palinurus.clock import SystemClock
from palinurus.errors import StateBroken, StateUnwritable
from palinurus.store.port import InboxItem, Settlement
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember
from palinurus.store.postgres.schema import FleetSchema, install_schema, read_schema
from palinurus.store.postgres.store import PostgresStore
from store.postgres.server import connected

NOW = read_schema()
NEXT = FleetSchema(
    (*NOW.steps, "ALTER TABLE inbox ADD COLUMN mood text NOT NULL DEFAULT 'calm'; CREATE TABLE later (x text);"),
    NOW.functions + "\n-- of a later version\n",
)
AFTER = FleetSchema((*NEXT.steps, "CREATE TABLE last (x text);"), NEXT.functions + "\n-- and later still\n")


@pytest.fixture
async def empty(server: str) -> AsyncIterator[str]:
    """The address of a database with nothing in it."""
    async with connected(server) as conn:
        await conn.execute("DROP DATABASE IF EXISTS versions WITH (FORCE)")
        await conn.execute("CREATE DATABASE versions")
        yield urlsplit(server)._replace(path="/versions").geturl()
        await conn.execute("DROP DATABASE versions WITH (FORCE)")


@asynccontextmanager
async def node(url: str, home: Path, name: str, schema: FleetSchema) -> AsyncIterator[PostgresStore]:
    member = FleetMember(name, lease=600.0, schema=schema)
    store = await open_postgres_store(url, str(home), SystemClock(), member)
    try:
        yield store
    finally:
        await store.close()


async def turn(store: PostgresStore, name: str) -> None:
    accepted = await store.accept(InboxItem(name, name, f"agent:main:{name}", "main", b"{}", 1), claim=True)
    assert accepted.claim is not None
    await store.settle(accepted.claim, Settlement("answered", f"answer to {name}"))


async def fetch(url: str, sql: str) -> Any:
    async with connected(url) as conn:
        return await conn.fetchval(sql)


async def test_a_new_version_joins_an_old_one_and_both_work_on(empty: str, tmp_path: Path) -> None:
    async with node(empty, tmp_path, "old", NOW) as old:
        await turn(old, "one")
        async with node(empty, tmp_path, "new", NEXT) as new:
            await turn(new, "two")
            await turn(old, "three")  # by its own functions, on the new tables
            for store in (old, new):
                assert [(await store.item(name)).note for name in ("one", "two", "three")] == [  # type: ignore[union-attr]
                    "answer to one",
                    "answer to two",
                    "answer to three",
                ]
            versions = {each.id: each.version for each in (await old.fleet.report()).nodes}
            assert versions == {"old": NOW.version, "new": NEXT.version}
            async with node(empty, tmp_path, "again", NOW) as again:  # an old one may also come
                await turn(again, "four")
    assert await fetch(empty, "SELECT value FROM meta WHERE key = 'version'") == str(NEXT.version)
    assert await fetch(empty, "SELECT count(*) FROM inbox WHERE mood = 'calm'") == 4


async def test_of_two_versions_apart_the_second_is_refused_and_says_what_to_do(empty: str, tmp_path: Path) -> None:
    async with node(empty, tmp_path, "old", NOW) as old:
        with pytest.raises(StateBroken, match=f"node old is at work with version {NOW.version}") as told:
            async with node(empty, tmp_path, "new", AFTER):
                pass
        assert "pal fleet drain old" in told.value.fix
        await turn(old, "one")
    async with node(empty, tmp_path, "new", AFTER) as new:
        await turn(new, "two")
        with pytest.raises(StateBroken, match=f"tables are of version {AFTER.version}") as told:
            async with node(empty, tmp_path, "old", NOW):
                pass
        assert "update Palinurus" in told.value.fix
        assert [each.id for each in (await new.fleet.report()).nodes] == ["new"]


async def test_a_database_of_the_first_version_is_brought_up_to_date(empty: str, tmp_path: Path) -> None:
    async with connected(empty) as conn:
        await conn.execute("CREATE SCHEMA palinurus; SET search_path TO palinurus")
        await conn.execute(NOW.steps[0])
        await conn.execute("INSERT INTO meta VALUES ('version', '1')")
        await conn.execute("INSERT INTO node (id, epoch, until) VALUES ('first', 1, now() + interval '1 hour')")
        await conn.execute("INSERT INTO kept VALUES ('job', 'x', '\\x01', 1)")
    async with node(empty, tmp_path, "new", NOW) as store:
        found = await store.get_record("job", "x")
        assert found is not None and found.data == b"\x01"
        assert [(each.id, each.version) for each in (await store.fleet.report()).nodes] == [
            ("first", 1),
            ("new", NOW.version),
        ]


async def test_functions_that_changed_are_there_at_once_and_old_ones_go_after_a_day(empty: str, tmp_path: Path) -> None:
    other = FleetSchema(
        NOW.steps, NOW.functions + "\nCREATE FUNCTION brand_new() RETURNS int LANGUAGE sql AS 'SELECT 7';"
    )
    async with node(empty, tmp_path, "a", NOW), node(empty, tmp_path, "b", other):
        assert await fetch(empty, f"SELECT {other.place}.brand_new()") == 7
    schemas = "SELECT array_agg(nspname::text ORDER BY nspname) FROM pg_namespace WHERE nspname LIKE 'palinurus%'"
    assert set(await fetch(empty, schemas)) == {"palinurus", NOW.place, other.place}
    await fetch(empty, "UPDATE programs SET used = used - interval '2 days'")
    async with node(empty, tmp_path, "c", NEXT):
        assert set(await fetch(empty, schemas)) == {"palinurus", NEXT.place}


async def test_who_may_not_make_tables_joins_what_is_there(empty: str, tmp_path: Path) -> None:
    async with connected(empty) as conn:
        await conn.execute("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN PASSWORD 'x'")
    parts = urlsplit(empty)
    plain = parts._replace(netloc=f"plain:x@{parts.netloc.rpartition('@')[2]}").geturl()
    with pytest.raises(StateUnwritable) as told:
        async with node(plain, tmp_path, "a", NOW):
            pass
    assert "pal fleet init" in told.value.fix
    async with connected(empty) as conn:
        await install_schema(conn, NOW)
        for place in ("palinurus", NOW.place):
            await conn.execute(f"GRANT USAGE ON SCHEMA {place} TO plain")
        await conn.execute("GRANT ALL ON ALL TABLES IN SCHEMA palinurus TO plain")
        await conn.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA palinurus TO plain")
    async with node(plain, tmp_path, "a", NOW) as store:
        await turn(store, "one")
    async with connected(empty) as conn:
        await conn.execute("DROP OWNED BY plain; DROP ROLE plain")


def test_all_versions_take_one_and_the_same_lock() -> None:
    """The functions' own schema is the first of the path, so a lock named after it would be each version's own."""
    assert "current_schema" not in NOW.functions
