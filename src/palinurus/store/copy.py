"""A whole state from a directory to a fleet's PostgreSQL, or back: messages, replies, sessions, ledger, records, steps,
slots, transcripts. Killed at any moment and run again it goes on; at the end both sides are compared.

A state that is being copied to says so (`copying`), and no gateway starts on it before the copy is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from palinurus import late
from palinurus.clock import Clock
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import StateBroken, StateError
from palinurus.files import open_plain_file, sync_folder, write_whole_file
from palinurus.store.factory import POINTER
from palinurus.store.lines import is_transcript_path
from palinurus.store.sqlite import database, lock, open_sqlite_store, schema

BATCH = 500  # rows in one commit
COPYING = "copying"  # in the table `meta`

# table -> the columns that name a row, in its order. All columns are those of SQLite's tables.
TABLES: dict[str, tuple[str, ...]] = {
    "inbox": ("seq",),
    "outbox": ("seq",),
    "sessions": ("key",),
    "spent": ("seq",),
    "slots": ("job", "due"),
    "steps": ("item", "n"),
    "kept": ("kind", "key"),
}
COLUMNS: dict[str, tuple[str, ...]] = {
    "inbox": tuple(
        "seq id dedupe session lane body at state outcome note attempts absorbed_by claimed settled fence".split()
    ),
    "outbox": tuple("seq id item channel target data at attempts state receipt error due".split()),
    "sessions": ("key", "agent", "session_id", "updated", "data"),
    "spent": tuple("seq item run session agent provider model at input output cache_read cache_write cost ms".split()),
    "slots": ("job", "due", "at"),
    "steps": ("item", "n", "at", "what", "detail"),
    "kept": ("kind", "key", "data", "at"),
}
# A message's steps are numbered by themselves in a directory, all together in a fleet.
_STEPS = "SELECT item, row_number() OVER (PARTITION BY item ORDER BY n) AS n, at, what, detail FROM steps"
_TEXTS = ("key", "kind", "job", "item")  # the same order on both sides
Row = tuple[Any, ...]


class CopiedTranscript(msgspec.Struct, frozen=True):
    """One transcript. `digest`: SHA-256 of its bytes."""

    path: str
    size: int
    digest: str


class CopyReport(msgspec.Struct, frozen=True):
    """What a state has: rows by table, and its transcripts."""

    rows: dict[str, int]
    digests: dict[str, str]  # by table, over all its rows
    transcripts: list[CopiedTranscript]


class StateSide(Protocol):
    """A whole state that nobody else uses."""

    name: str

    def read_rows(self, table: str) -> AsyncIterator[Row]:
        """In order."""
        ...

    async def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """One commit; a row that is there becomes the new one."""
        ...

    async def list_transcripts(self) -> list[str]: ...

    async def read_transcript(self, path: str) -> bytes: ...

    async def put_transcript(self, path: str, data: bytes) -> None:
        """The whole of it, in one step."""
        ...

    async def begin(self, source: str) -> None:
        """From now on it is being copied to. Raises StateError if it holds something else."""
        ...

    async def end(self) -> None:
        """It is whole."""
        ...


async def copy_state(source: StateSide, target: StateSide) -> CopyReport:
    """Copy everything, then compare. Raises StateError if the two differ afterwards."""
    await target.begin(source.name)
    for table in TABLES:
        rows: list[Row] = []
        async for row in source.read_rows(table):
            rows.append(row)
            if len(rows) == BATCH:
                await target.put_rows(table, rows)
                pass_crashpoint("copy.rows")
                rows = []
        if rows:
            await target.put_rows(table, rows)
            pass_crashpoint("copy.rows")
    there = set(await target.list_transcripts())
    for path in await source.list_transcripts():
        data = await source.read_transcript(path)
        if path not in there or await target.read_transcript(path) != data:
            await target.put_transcript(path, data)
            pass_crashpoint("copy.lines")
    wanted, made = await describe_state(source), await describe_state(target)
    if wanted != made:
        raise StateError(
            f"the copy differs from {source.name}: {_compare(wanted, made)}",
            fix="see that no gateway uses either state, and copy again",
        )
    await target.end()
    return made


async def describe_state(side: StateSide) -> CopyReport:
    """Count and digest everything."""
    counts, digests = dict.fromkeys(TABLES, 0), {}
    for table in TABLES:
        seen = sha256()
        async for row in side.read_rows(table):
            counts[table] += 1
            seen.update(msgspec.msgpack.encode(row))
        digests[table] = seen.hexdigest()
    found = []
    for path in await side.list_transcripts():
        data = await side.read_transcript(path)
        found.append(CopiedTranscript(path, len(data), sha256(data).hexdigest()))
    return CopyReport(counts, digests, found)


def _compare(wanted: CopyReport, made: CopyReport) -> str:
    differ = [f"{name} ({wanted.rows[name]} and {made.rows[name]} rows)" for name in TABLES
              if wanted.digests[name] != made.digests[name]]  # fmt: skip
    differ += sorted({one.path for one in set(wanted.transcripts) ^ set(made.transcripts)})
    return ", ".join(differ[:5])


class DirectorySide:
    """A state directory, under its lock. Implements `StateSide`."""

    def __init__(self, home: str, conn: sqlite3.Connection) -> None:
        self.name = home
        self._home = home
        self._conn = conn

    async def read_rows(self, table: str) -> AsyncIterator[Row]:
        chosen = f"({_STEPS})" if table == "steps" else table
        sql = f"SELECT {', '.join(COLUMNS[table])} FROM {chosen} ORDER BY {', '.join(TABLES[table])}"
        for row in self._conn.execute(sql):
            yield tuple(_to_text(value) if isinstance(value, str) else value for value in row)

    async def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        marks = ", ".join("?" * len(COLUMNS[table]))
        with self._conn:
            sql = f"INSERT OR REPLACE INTO {table} ({', '.join(COLUMNS[table])}) VALUES ({marks})"
            self._conn.executemany(sql, rows)

    async def list_transcripts(self) -> list[str]:
        found = []
        for folder, _, names in os.walk(os.path.join(self._home, "agents")):
            within = os.path.relpath(folder, self._home)
            if os.path.basename(folder) == "sessions":
                found += [f"{within}/{name}" for name in names if name.endswith(".jsonl")]
        return sorted(path for path in found if is_transcript_path(path))

    async def read_transcript(self, path: str) -> bytes:
        data = await asyncio.to_thread(_read_file, os.path.join(self._home, path))
        return data if data.endswith(b"\n") or not data else data + b"\n"

    async def put_transcript(self, path: str, data: bytes) -> None:
        if not is_transcript_path(path):
            raise StateBroken(f"{path!r} is not a transcript path", fix="look who wrote into that database")
        file = os.path.join(self._home, path)
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        write_whole_file(file, data)
        sync_folder(os.path.dirname(file))

    async def begin(self, source: str) -> None:
        found = self._conn.execute("SELECT value FROM meta WHERE key = ?", (COPYING,)).fetchone()
        full = any(self._conn.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in TABLES)
        _check_target(self.name, source, found[0] if found else None, full=full or bool(await self.list_transcripts()))
        with self._conn:
            self._conn.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (COPYING, source))

    async def end(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # its state is here now
            os.unlink(os.path.join(self._home, POINTER))
        with self._conn:
            self._conn.execute("DELETE FROM meta WHERE key = ?", (COPYING,))


def _read_file(path: str) -> bytes:
    with open_plain_file(path) as file:
        return file.read()


def _to_text(value: str) -> str:
    """As PostgreSQL can keep it."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _check_target(name: str, source: str, begun: str | None, *, full: bool) -> None:
    if begun is not None and begun != source:
        raise StateError(f"{name}: a copy from {begun} was begun there", fix=f"finish it: pal store copy {begun} …")
    if begun is None and full:
        raise StateError(f"{name} is not empty", fix="copy to an empty directory or database")


class FleetSide:
    """A fleet's database in which no node is at work. Implements `StateSide`."""

    def __init__(self, name: str, conn: Any) -> None:
        self.name = name
        self._conn = conn

    async def read_rows(self, table: str) -> AsyncIterator[Row]:
        chosen = f"({_STEPS}) AS s" if table == "steps" else table
        order = ", ".join(f'{column} COLLATE "C"' if column in _TEXTS else column for column in TABLES[table])
        sql = f"SELECT {', '.join(COLUMNS[table])} FROM {chosen} ORDER BY {order}"
        async with self._conn.transaction(isolation="repeatable_read", readonly=True):
            async for row in self._conn.cursor(sql, prefetch=BATCH):
                yield tuple(row)

    async def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        columns, key = COLUMNS[table], TABLES[table]
        if table == "steps":  # their order is their number
            sql = "INSERT INTO steps (item, at, what, detail) VALUES ($1, $2, $3, $4)"
            await self._conn.executemany(sql, [(item, *told) for item, _, *told in rows])
            return
        marks = ", ".join(f"${n + 1}" for n in range(len(columns)))
        kept = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT ({', '.join(key)})"
        await self._conn.executemany(f"{sql} DO UPDATE SET {kept}", rows)

    async def list_transcripts(self) -> list[str]:
        found = await self._conn.fetch('SELECT DISTINCT path COLLATE "C" FROM line ORDER BY 1')
        return [row[0] for row in found]

    async def read_transcript(self, path: str) -> bytes:
        found = await self._conn.fetch("SELECT data FROM line WHERE path = $1 ORDER BY start", path)
        return b"".join(bytes(row[0]) + b"\n" for row in found)

    async def put_transcript(self, path: str, data: bytes) -> None:
        rows = list(_cut_lines(path, data))
        async with self._conn.transaction():
            await self._conn.execute("DELETE FROM line WHERE path = $1", path)
            await self._conn.executemany("INSERT INTO line VALUES ($1, $2, $3, $4)", rows)

    async def begin(self, source: str) -> None:
        begun = await self._conn.fetchval("SELECT value FROM meta WHERE key = $1", COPYING)
        full = [await self._conn.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})") for table in (*TABLES, "line")]
        _check_target(self.name, source, begun, full=any(full))
        sql = "INSERT INTO meta VALUES ($1, $2) ON CONFLICT DO NOTHING"
        await self._conn.execute(sql, COPYING, source)
        await self._conn.execute("DELETE FROM steps")  # they have no name to find them by: all of them again

    async def end(self) -> None:
        for table in ("inbox", "outbox", "spent", "steps"):
            column = "n" if table == "steps" else "seq"
            sql = f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 0) + 1, false)"
            await self._conn.execute(f"{sql} FROM {table}")
        await self._conn.execute("DELETE FROM meta WHERE key = $1", COPYING)


class _Line(msgspec.Struct):
    id: str = ""


def _cut_lines(path: str, data: bytes) -> Iterator[Row]:
    start = 0
    for line in data.split(b"\n")[:-1]:
        try:
            ident = _to_text(msgspec.json.decode(line, type=_Line).id)
        except msgspec.MsgspecError:
            ident = ""  # a broken line: kept as it is
        yield path, start, ident, line
        start += len(line) + 1


@contextlib.asynccontextmanager
async def open_directory(home: str, clock: Clock, *, change: bool = False) -> AsyncIterator[DirectorySide]:
    """Under its lock. What a crash left is taken up as at a start, if it may be changed. Raises StateError kinds."""
    if change:
        if os.path.exists(os.path.join(home, POINTER)):
            raise StateError(f"the state of {home} is in a fleet's database", fix="name that as FROM")
        store = await open_sqlite_store(home, clock)
        try:
            await store.recover()
        finally:
            await store.close()
    held = await asyncio.to_thread(lock.take_lock, home)
    try:
        conn = database.open_for_writing(home)
        try:
            schema.migrate_schema(conn, database.locate_database(home))
            yield DirectorySide(home, conn)
        finally:
            conn.close()
    finally:
        held.release()


@contextlib.asynccontextmanager
async def open_fleet(url: str) -> AsyncIterator[FleetSide]:
    """With its tables there. Raises StateError if a node is at work."""
    async with late.load_part("fleet-alone")(url) as (name, conn):
        yield FleetSide(name, conn)
