"""Small databases that hold copies (the indexes of memory and of transcripts): private files, version checked, and
which errors making them anew cures."""

from __future__ import annotations

import os
import sqlite3

_PASSING = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM,
)  # fmt: skip


def open_database(file: str, schema: str, mark: str) -> sqlite3.Connection:
    """The database, made if it was missing. ":memory:" is one of nobody else's.

    `mark` names version and settings; one that bears another raises sqlite3.DatabaseError. Raises OSError.
    """
    if file != ":memory:":
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.chmod(file, 0o600)
    conn = sqlite3.connect(file, timeout=2.0, isolation_level=None, check_same_thread=False)
    try:
        if _empty(conn):
            _make(conn, schema, mark)
        row = conn.execute("SELECT value FROM meta WHERE key = 'mark'").fetchone()
        if row is None or row[0] != mark:
            raise sqlite3.DatabaseError("of another version")
    except BaseException:
        conn.close()
        raise
    return conn


def _empty(conn: sqlite3.Connection) -> bool:
    return not conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _make(conn: sqlite3.Connection, schema: str, mark: str) -> None:
    with conn:
        conn.execute("BEGIN IMMEDIATE")
        if _empty(conn):  # nobody else was faster
            for statement in ("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)", *schema.split(";")):
                conn.execute(statement)
            conn.execute("INSERT INTO meta VALUES ('mark', ?)", (mark,))


def is_passing(exc: sqlite3.Error) -> bool:
    """Busy, read-only, full: making the file anew would not help."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF in _PASSING


def discard_database(file: str, aside: str = "") -> None:
    """Remove the file and what belongs to it; with `aside`, the file itself is kept under that name."""
    for name in (f"{file}-journal", f"{file}-wal", f"{file}-shm"):
        if os.path.lexists(name):
            os.unlink(name)
    if os.path.lexists(file):
        if aside:
            os.replace(file, aside)
        else:
            os.unlink(file)
