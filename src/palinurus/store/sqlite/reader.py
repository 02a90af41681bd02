"""Looking at the state from outside: read-only, beside a running gateway or without one. For the command line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from palinurus.errors import NotFound, StateBroken
from palinurus.store.port import InboxRow, OutboxRow, SessionRow, StoreRecord, TraceStep, UsageRow
from palinurus.store.sqlite import database, rows, schema
from palinurus.store.sqlite.database import to_state_error
from palinurus.store.sqlite.lock import explain_unusable

P = ParamSpec("P")
T = TypeVar("T")


class SqliteReader:
    """Made by `open_sqlite_reader`. Sees everything that is committed; changes nothing. Use as a context manager."""

    def __init__(self, conn: sqlite3.Connection, path: str) -> None:
        self._conn = conn
        self._path = path

    def __enter__(self) -> SqliteReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def item(self, ident: str) -> InboxRow | None:
        """By id, or by a prefix that only one id has."""
        return self._read(rows.find_item, ident)

    def items(self, limit: int = 50, session: str | None = None, state: str | None = None) -> list[InboxRow]:
        """Newest first."""
        return self._read(rows.list_items, limit, session, state)

    def replies(self, item: str) -> list[OutboxRow]:
        """The reply parts of one message, in order, whatever became of them."""
        return self._read(rows.list_replies, item)

    def session(self, key: str) -> SessionRow | None:
        return self._read(rows.find_session, key)

    def sessions(self, agent: str | None = None) -> list[SessionRow]:
        """Newest first."""
        return self._read(rows.list_sessions, agent)

    def list_usage(self, since: int = 0, session: str | None = None) -> list[UsageRow]:
        """The usage ledger, oldest first."""
        return self._read(rows.list_usage, since, session)

    def trace(self, ident: str) -> list[TraceStep]:
        """Everything recorded about one message, oldest first."""
        return self._read(rows.build_trace, ident)

    def list_records(self, kind: str) -> list[StoreRecord]:
        """Small records of a part of the program, by key."""
        return self._read(rows.list_records, kind)

    def read_lines(self, path: str, size: int) -> bytes:
        """None: they are in files."""
        return b""

    def integrity(self) -> list[str]:
        """What a whole check of the file finds; empty if it is sound. Slow on large files."""
        try:
            found = self._read(lambda conn: conn.execute("PRAGMA integrity_check(20)").fetchall())
        except StateBroken as error:
            return [error.message]
        return [row[0] for row in found if row[0] != "ok"]

    def close(self) -> None:
        self._conn.close()

    def _read(self, run: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return run(self._conn, *args, **kwargs)
        except sqlite3.Error as error:
            raise to_state_error(error, self._path) from None


def open_sqlite_reader(home: str) -> SqliteReader:
    """Open the state for reading. Raises NotFound if there is none yet, StateBroken, StateUnwritable."""
    path = database.locate_database(home)
    try:
        begun = os.stat(path).st_size > 0 or os.path.exists(f"{path}-wal")  # a disk that was full leaves an empty file
    except FileNotFoundError:
        begun = False
    except OSError as error:
        raise explain_unusable(home, error, "read") from None
    if not begun:
        raise NotFound(f"{home} has no state yet", fix="start the gateway once (pal gateway), or set PALINURUS_HOME")
    conn = database.open_for_reading(home)
    try:
        schema.read_version(conn, path)
    except BaseException:
        conn.close()
        raise
    return SqliteReader(conn, path)
