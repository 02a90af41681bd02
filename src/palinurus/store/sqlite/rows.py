"""Reading: SQL to the port's values, on any connection. Shared by the store, the writer and the read-only reader."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from palinurus.store.port import ItemRow, Outgoing, SessionRow, Spent, Step

# Columns in the order of the struct's fields.
ITEM = "id, dedupe, session, lane, body, at, state, outcome, note, attempts, absorbed_by, claimed, settled"
REPLY = "id, item, channel, target, data, at, attempts, state, receipt, error, due, seq"
SPENT = "item, run, session, agent, provider, model, at, input, output, cache_read, cache_write, cost, ms"
SESSION = "key, agent, session_id, updated, data"

_LAST = "\U0010ffff"


def fields(value: msgspec.Struct) -> tuple[Any, ...]:
    """A struct's values in the order of its fields."""
    return msgspec.structs.astuple(value)


def item(conn: sqlite3.Connection, ident: str) -> ItemRow | None:
    """By id, or by a prefix that only one id has."""
    if not ident:
        return None
    found = conn.execute(
        f"SELECT {ITEM} FROM inbox WHERE id >= ? AND id < ? ORDER BY id LIMIT 2", (ident, ident + _LAST)
    ).fetchall()
    if not found or (len(found) > 1 and found[0][0] != ident):
        return None
    return ItemRow(*found[0])


def items(conn: sqlite3.Connection, limit: int, session: str | None, state: str | None) -> list[ItemRow]:
    """Newest first."""
    return _items(
        conn,
        f"SELECT {ITEM} FROM inbox WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR state = ?2)"
        " ORDER BY seq DESC LIMIT ?3",
        (session, state, limit),
    )


def waiting(conn: sqlite3.Connection, session: str) -> list[ItemRow]:
    """Queued messages of a session, oldest first."""
    return _items(conn, f"SELECT {ITEM} FROM inbox WHERE session = ? AND state = 'queued' ORDER BY seq", (session,))


def running(conn: sqlite3.Connection) -> list[ItemRow]:
    """Oldest first."""
    return _items(conn, f"SELECT {ITEM} FROM inbox WHERE state = 'running' ORDER BY seq", ())


def queued(conn: sqlite3.Connection) -> list[ItemRow]:
    """Oldest first."""
    return _items(conn, f"SELECT {ITEM} FROM inbox WHERE state = 'queued' ORDER BY seq", ())


def reply(conn: sqlite3.Connection, ident: str) -> Outgoing | None:
    found = conn.execute(f"SELECT {REPLY} FROM outbox WHERE id = ?", (ident,)).fetchone()
    return Outgoing(*found) if found else None


def replies(conn: sqlite3.Connection, item: str) -> list[Outgoing]:
    """All parts that answer a message, in order."""
    return [Outgoing(*r) for r in conn.execute(f"SELECT {REPLY} FROM outbox WHERE item = ? ORDER BY seq", (item,))]


def outgoing(conn: sqlite3.Connection, channel: str, now: int) -> list[Outgoing]:
    """The first open part of each target, if it is due."""
    found = conn.execute(
        f"SELECT {REPLY} FROM outbox WHERE seq IN (SELECT min(seq) FROM outbox"
        " WHERE channel = ? AND state IN ('pending', 'sending') GROUP BY target) AND due <= ? ORDER BY seq",
        (channel, now),
    )
    return [Outgoing(*row) for row in found]


def session(conn: sqlite3.Connection, key: str) -> SessionRow | None:
    found = conn.execute(f"SELECT {SESSION} FROM sessions WHERE key = ?", (key,)).fetchone()
    return SessionRow(*found) if found else None


def sessions(conn: sqlite3.Connection, agent: str | None) -> list[SessionRow]:
    """Newest first."""
    found = conn.execute(
        f"SELECT {SESSION} FROM sessions WHERE ?1 IS NULL OR agent = ?1 ORDER BY updated DESC, key", (agent,)
    )
    return [SessionRow(*row) for row in found]


def spent(conn: sqlite3.Connection, since: int, session: str | None) -> list[Spent]:
    """Oldest first."""
    found = conn.execute(
        f"SELECT {SPENT} FROM spent WHERE at >= ?1 AND (?2 IS NULL OR session = ?2) ORDER BY at, seq", (since, session)
    )
    return [Spent(*row) for row in found]


def trace(conn: sqlite3.Connection, ident: str) -> list[Step]:
    """Everything about one message, oldest first: its steps, its model calls, and where its replies stand."""
    row = item(conn, ident)
    if row is None:
        return []
    calls = [
        _model(Spent(*r)) for r in conn.execute(f"SELECT {SPENT} FROM spent WHERE item = ? ORDER BY seq", (row.id,))
    ]
    steps = [Step(row.id, row.at, "accepted", row.session)]
    for fields in conn.execute("SELECT item, at, what, detail FROM steps WHERE item = ? ORDER BY n", (row.id,)):
        step = Step(*fields)
        # the order of the steps is sure, their times are not (clocks are set back); calls come with the end of the turn
        while calls and (calls[0].at < step.at or step.what == "settled"):
            steps.append(calls.pop(0))
        steps.append(step)
    last = max(step.at for step in steps)
    for part in replies(conn, row.id):
        if part.state in _OPEN:
            steps.append(Step(row.id, max(last, part.at), _OPEN[part.state], _open(part)))
    return steps


_OPEN = {"pending": "waiting", "sending": "uncertain"}


def _open(part: Outgoing) -> str:
    tried = f", {part.attempts} tried" if part.attempts else ""
    error = f": {part.error}" if part.error else ""
    return f"{part.channel} {part.target} {part.id}{tried}{error}"


def _model(call: Spent) -> Step:
    cost = "" if call.cost is None else f", ${call.cost:.6f}"
    cached = f" ({call.cache_read} cached)" if call.cache_read else ""
    text = (
        f"{call.provider}/{call.model}: {call.input + call.cache_read + call.cache_write} in{cached}, {call.output} out"
    )
    return Step(call.item, call.at, "model", f"{text}, {call.ms} ms{cost}")


def _items(conn: sqlite3.Connection, sql: str, args: tuple[Any, ...]) -> list[ItemRow]:
    return [ItemRow(*row) for row in conn.execute(sql, args)]
