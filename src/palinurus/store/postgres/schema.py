"""The tables and functions of a fleet, and how nodes of two versions share them.

Tables have a version: `tables.sql` is a list of steps, each after a line `-- version N`; a step that was released is
never edited, and adds only what nodes of the version before can live with. Functions are each node's own: they stand in
a schema named after what they say, so old and new nodes call theirs on the same tables, one batch after the other.
"""

from __future__ import annotations

import os
import re
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec

from palinurus.errors import StateBroken, StateError
from palinurus.patterns import compile_late

SCHEMA = "palinurus"
KEPT = "1 day"  # functions that no node has used for so long go
_MARK = compile_late(r"^-- version \d+\b.*$", re.MULTILINE)
# Nobody else installs, and no batch of changes runs meanwhile.
_ALONE = "SELECT pg_advisory_xact_lock(7001, 0), pg_advisory_xact_lock(7001, hashtext('palinurus'))"


class FleetSchema(msgspec.Struct, frozen=True):
    """What one version of the program needs: `steps` lead from an empty database to its tables."""

    steps: tuple[str, ...]
    functions: str

    @property
    def version(self) -> int:
        return len(self.steps)

    @property
    def place(self) -> str:
        """The schema its functions stand in."""
        return f"{SCHEMA}_{blake2b(self.functions.encode(), digest_size=6).hexdigest()}"

    @property
    def search_path(self) -> str:
        return f"{self.place}, {SCHEMA}"


@cache
def read_schema() -> FleetSchema:
    """Of this program."""
    return FleetSchema(tuple(_MARK.split(_read("tables"))[1:]), _read("functions"))


def _read(name: str) -> str:
    """Beside this file: `importlib.resources` would load half a megabyte for it."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.sql"), encoding="utf-8") as source:
        return source.read()


async def install_schema(conn: Any, schema: FleetSchema) -> None:
    """Bring the tables up to date and have the functions there. Changes nothing where both are: then the right to make
    tables is not needed. Raises StateBroken if this version and those at work cannot live together."""
    if await _is_ready(conn, schema):
        return
    async with conn.transaction():
        await conn.execute(f"{_ALONE}; CREATE SCHEMA IF NOT EXISTS {SCHEMA}; SET LOCAL search_path TO {SCHEMA}")
        await _migrate(conn, schema)
        await _install_functions(conn, schema)


async def _is_ready(conn: Any, schema: FleetSchema) -> bool:
    if await conn.fetchval(f"SELECT to_regclass('{SCHEMA}.programs')") is None:
        return False
    found = await _read_version(conn)
    check_known(found, schema)
    touch = f"UPDATE {SCHEMA}.programs SET used = clock_timestamp() WHERE place = $1 RETURNING place"
    return found >= schema.version and await conn.fetchval(touch, schema.place) is not None


async def _read_version(conn: Any) -> int:
    """0: an empty database."""
    ((there,),) = await conn.fetch(f"SELECT to_regclass('{SCHEMA}.meta') IS NOT NULL")
    found = await conn.fetch(f"SELECT value FROM {SCHEMA}.meta WHERE key = 'version'") if there else ()
    return next((int(row[0]) for row in found), 0)


def check_known(found: int, schema: FleetSchema) -> None:
    """Raises StateBroken if tables of version `found` are too new for it."""
    if found > schema.version + 1:
        raise StateBroken(
            f"the fleet's tables are of version {found}; this Palinurus knows {schema.version} and can live with"
            f" {schema.version + 1} at most",
            fix="update Palinurus on this machine",
        )


async def _migrate(conn: Any, schema: FleetSchema) -> None:
    found = await _read_version(conn)
    check_known(found, schema)
    if found >= 2:
        sql = "SELECT id, version FROM node WHERE until > clock_timestamp() AND version < $1 ORDER BY version LIMIT 1"
        for name, version in await conn.fetch(sql, schema.version - 1):
            raise StateBroken(
                f"node {name} is at work with version {version} of the tables; this Palinurus has {schema.version}, and"
                " only neighbours live together",
                fix=f"update {name} to a release in between, or stop it: pal fleet drain {name}",
            )
    for number in range(found, schema.version):
        await conn.execute(schema.steps[number])
        sql = "INSERT INTO meta VALUES ('version', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        await conn.execute(sql, str(number + 1))


async def _install_functions(conn: Any, schema: FleetSchema) -> None:
    """Ours; and those go that nobody has used for long."""
    sql = (
        f"DELETE FROM programs WHERE used < clock_timestamp() - interval '{KEPT}' AND place <> $1 AND NOT EXISTS"
        " (SELECT 1 FROM node WHERE functions = place AND until > clock_timestamp()) RETURNING place"
    )
    for (place,) in await conn.fetch(sql, schema.place):
        await conn.execute(f'DROP SCHEMA IF EXISTS "{place}" CASCADE')
    note = "INSERT INTO programs (place, version) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING place"
    if await conn.fetchval(note, schema.place, schema.version) is not None:
        await conn.execute(f"CREATE SCHEMA {schema.place}; SET LOCAL search_path TO {schema.search_path}")
        await conn.execute(schema.functions)


async def check_whole(conn: Any) -> None:
    """Raises StateBroken while a copy into it is not finished."""
    for (source,) in await conn.fetch(f"SELECT value FROM {SCHEMA}.meta WHERE key = 'copying'"):
        raise StateBroken(
            f"the copy of {source} into the fleet's database is not finished", fix="run `pal store copy` again"
        )


async def find_version(conn: Any) -> int:
    """Of the tables. Raises StateError where there are none."""
    found = await _read_version(conn)
    if not found:
        raise StateError("that database is no fleet yet", fix="pal fleet init URL")
    return found
