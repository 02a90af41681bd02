"""Reading: SQL to the port's values, on any connection. Shared by the store, the writer and the read-only reader."""

from __future__ import annotations

import sqlite3
from typing import Any, TypeVar

import msgspec

from palinurus.store import port
from palinurus.store.lines import merge_trace, name_columns
from palinurus.store.port import InboxRow, ItemState, OutboxRow, SessionRow, StoreRecord, TraceStep, UsageRow

ITEM, REPLY, SPENT = name_columns(InboxRow), name_columns(OutboxRow), name_columns(UsageRow)
RECORD, SESSION = name_columns(StoreRecord), name_columns(SessionRow)

_LAST = "\U0010ffff"

S = TypeVar("S", bound=msgspec.Struct)


def _list(conn: sqlite3.Connection, kind: type[S], sql: str, *args: Any) -> list[S]:
    return [kind(*row) for row in conn.execute(sql, args)]


def find_item(conn: sqlite3.Connection, ident: str) -> InboxRow | None:
    """By id, or by a prefix that only one id has."""
    if not ident:
        return None
    sql = f"SELECT {ITEM} FROM inbox WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"
    found = _list(conn, InboxRow, sql, ident, ident + _LAST)
    return None if not found or (len(found) > 1 and found[0].id != ident) else found[0]


def find_deduped(conn: sqlite3.Connection, dedupe: str) -> InboxRow | None:
    return next(iter(_list(conn, InboxRow, f"SELECT {ITEM} FROM inbox WHERE dedupe = ?", dedupe)), None)


def list_items(conn: sqlite3.Connection, limit: int, session: str | None, state: str | None) -> list[InboxRow]:
    """Newest first."""
    where = "(?1 IS NULL OR session = ?1) AND (?2 IS NULL OR state = ?2)"
    sql = f"SELECT {ITEM} FROM inbox WHERE {where} ORDER BY seq DESC LIMIT ?3"
    return _list(conn, InboxRow, sql, session, state, limit)


def list_waiting(conn: sqlite3.Connection, session: str) -> list[InboxRow]:
    """Queued messages of a session, oldest first."""
    sql = f"SELECT {ITEM} FROM inbox WHERE session = ? AND state = 'queued' ORDER BY seq"
    return _list(conn, InboxRow, sql, session)


def list_in_state(conn: sqlite3.Connection, state: ItemState) -> list[InboxRow]:
    """Queued or running messages, oldest first."""
    # the state stands in the text: the partial indexes need to see it
    return _list(conn, InboxRow, f"SELECT {ITEM} FROM inbox WHERE state = '{state}' ORDER BY seq")


def list_journal_lines(conn: sqlite3.Connection, path: str) -> list[port.TranscriptLine]:
    """What may not be in the file yet, in order."""
    return _list(conn, port.TranscriptLine, "SELECT path, id, data FROM journal WHERE path = ? ORDER BY seq", path)


def find_reply(conn: sqlite3.Connection, ident: str) -> OutboxRow | None:
    return next(iter(_list(conn, OutboxRow, f"SELECT {REPLY} FROM outbox WHERE id = ?", ident)), None)


def list_replies(conn: sqlite3.Connection, item: str) -> list[OutboxRow]:
    """All parts that answer a message, in order."""
    return _list(conn, OutboxRow, f"SELECT {REPLY} FROM outbox WHERE item = ? ORDER BY seq", item)


def list_due_replies(conn: sqlite3.Connection, channel: str, now: int) -> list[OutboxRow]:
    """The first open part of each target, if it is due."""
    sql = (
        f"SELECT {REPLY} FROM outbox WHERE seq IN (SELECT min(seq) FROM outbox"
        " WHERE channel = ? AND state IN ('pending', 'sending') GROUP BY target) AND due <= ? ORDER BY seq"
    )
    return _list(conn, OutboxRow, sql, channel, now)


def find_session(conn: sqlite3.Connection, key: str) -> SessionRow | None:
    return next(iter(_list(conn, SessionRow, f"SELECT {SESSION} FROM sessions WHERE key = ?", key)), None)


def list_sessions(conn: sqlite3.Connection, agent: str | None) -> list[SessionRow]:
    """Newest first."""
    sql = f"SELECT {SESSION} FROM sessions WHERE ?1 IS NULL OR agent = ?1 ORDER BY updated DESC, key"
    return _list(conn, SessionRow, sql, agent)


def find_record(conn: sqlite3.Connection, kind: str, key: str) -> StoreRecord | None:
    sql = f"SELECT {RECORD} FROM kept WHERE kind = ? AND key = ?"
    return next(iter(_list(conn, StoreRecord, sql, kind, key)), None)


def list_records(conn: sqlite3.Connection, kind: str) -> list[StoreRecord]:
    """By key."""
    return _list(conn, StoreRecord, f"SELECT {RECORD} FROM kept WHERE kind = ? ORDER BY key", kind)


def list_usage(conn: sqlite3.Connection, since: int, session: str | None) -> list[UsageRow]:
    """Oldest first."""
    sql = f"SELECT {SPENT} FROM spent WHERE at >= ?1 AND (?2 IS NULL OR session = ?2) ORDER BY at, seq"
    return _list(conn, UsageRow, sql, since, session)


def build_trace(conn: sqlite3.Connection, ident: str) -> list[TraceStep]:
    """Everything about one message, oldest first: its steps, its model calls, and where its replies stand."""
    row = find_item(conn, ident)
    if row is None:
        return []
    spent = _list(conn, UsageRow, f"SELECT {SPENT} FROM spent WHERE item = ? ORDER BY seq", row.id)
    steps = _list(conn, TraceStep, "SELECT item, at, what, detail FROM steps WHERE item = ? ORDER BY n", row.id)
    return merge_trace(row, steps, spent, list_replies(conn, row.id))
