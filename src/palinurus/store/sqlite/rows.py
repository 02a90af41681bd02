"""Reading: SQL to the port's values, on any connection. Shared by the store, the writer and the read-only reader."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from palinurus.store.port import InboxRow, OutboxRow, SessionRow, TraceStep, UsageRow

# Columns in the order of the struct's fields.
ITEM = "id, dedupe, session, lane, body, at, state, outcome, note, attempts, absorbed_by, claimed, settled"
REPLY = "id, item, channel, target, data, at, attempts, state, receipt, error, due, seq"
SPENT = "item, run, session, agent, provider, model, at, input, output, cache_read, cache_write, cost, ms"
SESSION = "key, agent, session_id, updated, data"

_LAST = "\U0010ffff"


def to_tuple(value: msgspec.Struct) -> tuple[Any, ...]:
    """A struct's values in the order of its fields."""
    return msgspec.structs.astuple(value)


def find_item(conn: sqlite3.Connection, ident: str) -> InboxRow | None:
    """By id, or by a prefix that only one id has."""
    if not ident:
        return None
    found = conn.execute(
        f"SELECT {ITEM} FROM inbox WHERE id >= ? AND id < ? ORDER BY id LIMIT 2", (ident, ident + _LAST)
    ).fetchall()
    if not found or (len(found) > 1 and found[0][0] != ident):
        return None
    return InboxRow(*found[0])


def list_items(conn: sqlite3.Connection, limit: int, session: str | None, state: str | None) -> list[InboxRow]:
    """Newest first."""
    return _items(
        conn,
        f"SELECT {ITEM} FROM inbox WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR state = ?2)"
        " ORDER BY seq DESC LIMIT ?3",
        (session, state, limit),
    )


def list_waiting(conn: sqlite3.Connection, session: str) -> list[InboxRow]:
    """Queued messages of a session, oldest first."""
    return _items(conn, f"SELECT {ITEM} FROM inbox WHERE session = ? AND state = 'queued' ORDER BY seq", (session,))


def list_running(conn: sqlite3.Connection) -> list[InboxRow]:
    """Oldest first."""
    return _items(conn, f"SELECT {ITEM} FROM inbox WHERE state = 'running' ORDER BY seq", ())


def list_queued(conn: sqlite3.Connection) -> list[InboxRow]:
    """Oldest first."""
    return _items(conn, f"SELECT {ITEM} FROM inbox WHERE state = 'queued' ORDER BY seq", ())


def find_reply(conn: sqlite3.Connection, ident: str) -> OutboxRow | None:
    found = conn.execute(f"SELECT {REPLY} FROM outbox WHERE id = ?", (ident,)).fetchone()
    return OutboxRow(*found) if found else None


def list_replies(conn: sqlite3.Connection, item: str) -> list[OutboxRow]:
    """All parts that answer a message, in order."""
    return [OutboxRow(*r) for r in conn.execute(f"SELECT {REPLY} FROM outbox WHERE item = ? ORDER BY seq", (item,))]


def list_due_replies(conn: sqlite3.Connection, channel: str, now: int) -> list[OutboxRow]:
    """The first open part of each target, if it is due."""
    found = conn.execute(
        f"SELECT {REPLY} FROM outbox WHERE seq IN (SELECT min(seq) FROM outbox"
        " WHERE channel = ? AND state IN ('pending', 'sending') GROUP BY target) AND due <= ? ORDER BY seq",
        (channel, now),
    )
    return [OutboxRow(*row) for row in found]


def find_session(conn: sqlite3.Connection, key: str) -> SessionRow | None:
    found = conn.execute(f"SELECT {SESSION} FROM sessions WHERE key = ?", (key,)).fetchone()
    return SessionRow(*found) if found else None


def list_sessions(conn: sqlite3.Connection, agent: str | None) -> list[SessionRow]:
    """Newest first."""
    found = conn.execute(
        f"SELECT {SESSION} FROM sessions WHERE ?1 IS NULL OR agent = ?1 ORDER BY updated DESC, key", (agent,)
    )
    return [SessionRow(*row) for row in found]


def list_usage(conn: sqlite3.Connection, since: int, session: str | None) -> list[UsageRow]:
    """Oldest first."""
    found = conn.execute(
        f"SELECT {SPENT} FROM spent WHERE at >= ?1 AND (?2 IS NULL OR session = ?2) ORDER BY at, seq", (since, session)
    )
    return [UsageRow(*row) for row in found]


def build_trace(conn: sqlite3.Connection, ident: str) -> list[TraceStep]:
    """Everything about one message, oldest first: its steps, its model calls, and where its replies stand."""
    row = find_item(conn, ident)
    if row is None:
        return []
    calls = [
        _model(UsageRow(*r)) for r in conn.execute(f"SELECT {SPENT} FROM spent WHERE item = ? ORDER BY seq", (row.id,))
    ]
    steps = [TraceStep(row.id, row.at, "accepted", row.session)]
    for fields in conn.execute("SELECT item, at, what, detail FROM steps WHERE item = ? ORDER BY n", (row.id,)):
        step = TraceStep(*fields)
        # the order of the steps is sure, their times are not (clocks are set back); calls come with the end of the turn
        while calls and (calls[0].at < step.at or step.what == "settled"):
            steps.append(calls.pop(0))
        steps.append(step)
    last = max(step.at for step in steps)
    for part in list_replies(conn, row.id):
        if part.state in _OPEN:
            steps.append(TraceStep(row.id, max(last, part.at), _OPEN[part.state], _open(part)))
    return steps


_OPEN = {"pending": "waiting", "sending": "uncertain"}


def _open(part: OutboxRow) -> str:
    tried = f", {part.attempts} tried" if part.attempts else ""
    error = f": {part.error}" if part.error else ""
    return f"{part.channel} {part.target} {part.id}{tried}{error}"


def _model(call: UsageRow) -> TraceStep:
    cost = "" if call.cost is None else f", ${call.cost:.6f}"
    cached = f" ({call.cache_read} cached)" if call.cache_read else ""
    text = (
        f"{call.provider}/{call.model}: {call.input + call.cache_read + call.cache_write} in{cached}, {call.output} out"
    )
    return TraceStep(call.item, call.at, "model", f"{text}, {call.ms} ms{cost}")


def _items(conn: sqlite3.Connection, sql: str, args: tuple[Any, ...]) -> list[InboxRow]:
    return [InboxRow(*row) for row in conn.execute(sql, args)]
