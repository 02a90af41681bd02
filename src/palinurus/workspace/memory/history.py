"""The versions of memory files, and who made them: a database of its own, because files cannot bring it back.

A version is written when a change is seen: after a tool call that may have made it, before a search, at a command.
What nobody noted stands here as changed by nobody known. Damaged, the file is set aside and a new one begun.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any, NamedTuple

import msgspec

from palinurus.cachefile import discard_database, is_passing, open_database

VERSION = 1
KEPT = 100  # versions of one file
TEXT = 512 * 1024  # bytes of a version that can be brought back
_SCHEMA = """
CREATE TABLE versions (
  n INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, hash TEXT NOT NULL,
  data BLOB, tool TEXT NOT NULL DEFAULT '', session TEXT NOT NULL DEFAULT '', run TEXT NOT NULL DEFAULT '',
  call TEXT NOT NULL DEFAULT '', of INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX versions_path ON versions (path, n)
"""
_ROW = "n, path, at, kind, hash, data, tool, session, run, call, of"


class MemoryAuthor(NamedTuple):
    """The tool call that made a change."""

    tool: str = ""
    session: str = ""
    run: str = ""
    call: str = ""


class MemoryVersion(msgspec.Struct, frozen=True):
    """kind: found (there before anybody looked), written (by a call that named the file), during (while a call ran
    that may have), changed (nobody knows), undone. `path` is the real one. No hash: the file was gone."""

    n: int
    path: str
    at: int
    kind: str
    hash: str
    data: bytes | None  # the whole file; None if it was gone or too large to keep
    author: MemoryAuthor = MemoryAuthor()
    of: int = 0  # undone: the version it brought back

    @property
    def text(self) -> str | None:
        return None if self.data is None else self.data.decode("utf-8", "replace")


class MemoryHistory:
    """One agent's. Not for several threads at once. Methods raise sqlite3.Error and OSError."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._conn: sqlite3.Connection | None = None
        self._begun = False

    def open(self, now: int) -> sqlite3.Connection:
        """The database. One that cannot be read is set aside under a name with the time."""
        if self._conn is None:
            try:
                self._conn = open_database(self._file, _SCHEMA, str(VERSION))
            except sqlite3.Error as exc:
                if is_passing(exc):
                    raise
                discard_database(self._file, f"{self._file}.broken-{now}")
                self._conn = open_database(self._file, _SCHEMA, str(VERSION))
        return self._conn

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def has_begun(self, now: int) -> bool:
        """Whether all files were looked at once: what is new afterwards is new."""
        if not self._begun:
            self._begun = self.open(now).execute("SELECT 1 FROM meta WHERE key = 'begun'").fetchone() is not None
        return self._begun

    def begin(self, now: int) -> None:
        self.open(now).execute("INSERT OR IGNORE INTO meta VALUES ('begun', ?)", (str(now),))

    def heads(self, now: int) -> dict[str, MemoryVersion]:
        """The last version of every file, without texts."""
        bare = _ROW.replace("data", "NULL")
        sql = f"SELECT {bare} FROM versions WHERE n IN (SELECT max(n) FROM versions GROUP BY path)"
        return {row[1]: _version(row) for row in self.open(now).execute(sql)}

    def add(self, version: MemoryVersion) -> None:
        """`n` is given here. Older ones than KEPT go; the oldest that stays has nothing before it."""
        conn = self.open(version.at)
        keeps = version.data is not None and len(version.data) <= TEXT
        packed = zlib.compress(version.data) if keeps and version.data is not None else None
        with conn:
            conn.execute("BEGIN IMMEDIATE")
            conn.execute(
                "INSERT INTO versions (path, at, kind, hash, data, tool, session, run, call, of)"
                " VALUES (?,?,?,?,?,?,?,?,?,?)",
                (version.path, version.at, version.kind, version.hash, packed, *version.author, version.of),
            )
            old = conn.execute(
                "SELECT n FROM versions WHERE path = ? ORDER BY n DESC LIMIT 1 OFFSET ?", (version.path, KEPT - 1)
            ).fetchone()
            if old is not None:
                gone = conn.execute("DELETE FROM versions WHERE path = ? AND n < ?", (version.path, old[0]))
                if gone.rowcount:
                    conn.execute("UPDATE versions SET kind = 'found' WHERE n = ?", old)

    def attribute(self, n: int, kind: str, author: MemoryAuthor, now: int) -> None:
        """A version that was seen before its author was known."""
        self.open(now).execute(
            "UPDATE versions SET kind = ?, tool = ?, session = ?, run = ?, call = ? WHERE n = ?", (kind, *author, n)
        )

    def versions(self, path: str, now: int) -> list[MemoryVersion]:
        """Of one file, oldest first, with their texts."""
        rows = self.open(now).execute(f"SELECT {_ROW} FROM versions WHERE path = ? ORDER BY n", (path,))
        return [_version(row) for row in rows]

    def latest(self, now: int) -> str | None:
        """The file that changed last."""
        sql = "SELECT path FROM versions WHERE kind != 'found' ORDER BY n DESC LIMIT 1"
        row = self.open(now).execute(sql).fetchone()
        return row[0] if row else None


def _version(row: tuple[Any, ...]) -> MemoryVersion:
    n, path, at, kind, digest, packed, *author, of = row
    data = None if packed is None else zlib.decompress(packed)
    return MemoryVersion(n, path, at, kind, hash=digest, data=data, author=MemoryAuthor(*author), of=of)
