"""Reading: SQL to the port's values, on any connection of asyncpg. The columns are those of SQLite's tables."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from palinurus.store.lines import merge_trace, name_columns
from palinurus.store.port import InboxRow, OutboxRow, SessionRow, StoreRecord, TraceStep, UsageRow

ITEM, REPLY, SPENT = name_columns(InboxRow), name_columns(OutboxRow), name_columns(UsageRow)
RECORD, SESSION = name_columns(StoreRecord), name_columns(SessionRow)

_LAST = "\U0010ffff"

S = TypeVar("S", bound=msgspec.Struct)


class Queries(Protocol):
    """The part of an asyncpg connection or pool that reads."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


async def _list(db: Queries, kind: type[S], sql: str, *args: Any) -> list[S]:
    return [kind(*row) for row in await db.fetch(sql, *args)]


async def _first(db: Queries, kind: type[S], sql: str, *args: Any) -> S | None:
    return next(iter(await _list(db, kind, sql, *args)), None)


async def find_item(db: Queries, ident: str) -> InboxRow | None:
    """By id, or by a prefix that only one id has."""
    if not ident:
        return None
    sql = f"SELECT {ITEM} FROM inbox WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 2"
    found = await _list(db, InboxRow, sql, ident, ident + _LAST)
    return None if not found or (len(found) > 1 and found[0].id != ident) else found[0]


async def find_deduped(db: Queries, dedupe: str) -> InboxRow | None:
    return await _first(db, InboxRow, f"SELECT {ITEM} FROM inbox WHERE dedupe = $1", dedupe)


async def list_items(db: Queries, limit: int, session: str | None, state: str | None) -> list[InboxRow]:
    """Newest first."""
    where = "($1::text IS NULL OR session = $1) AND ($2::text IS NULL OR state = $2)"
    return await _list(db, InboxRow, f"SELECT {ITEM} FROM inbox WHERE {where} ORDER BY seq DESC LIMIT $3",
                       session, state, limit)  # fmt: skip


async def list_waiting(db: Queries, session: str) -> list[InboxRow]:
    sql = f"SELECT {ITEM} FROM inbox WHERE session = $1 AND state = 'queued' ORDER BY seq"
    return await _list(db, InboxRow, sql, session)


async def list_queued(db: Queries) -> list[InboxRow]:
    """Of every session, oldest first."""
    return await _list(db, InboxRow, f"SELECT {ITEM} FROM inbox WHERE state = 'queued' ORDER BY seq")


async def list_running(db: Queries, node: str) -> list[InboxRow]:
    sql = f"SELECT {ITEM} FROM inbox WHERE state = 'running' AND node = $1 ORDER BY seq"
    return await _list(db, InboxRow, sql, node)


async def read_tail(db: Queries, path: str, after: int) -> bytes:
    """The bytes of a transcript from `after` on."""
    found = await db.fetch(
        "SELECT start, data FROM line WHERE path = $1 AND start + length(data) + 1 > $2 ORDER BY start", path, after
    )
    data = b"".join(bytes(row[1]) + b"\n" for row in found)
    return data[max(0, after - found[0][0]) :] if found else b""


async def find_reply(db: Queries, ident: str) -> OutboxRow | None:
    return await _first(db, OutboxRow, f"SELECT {REPLY} FROM outbox WHERE id = $1", ident)


async def list_replies(db: Queries, item: str) -> list[OutboxRow]:
    return await _list(db, OutboxRow, f"SELECT {REPLY} FROM outbox WHERE item = $1 ORDER BY seq", item)


async def list_due_replies(db: Queries, channel: str, now: int) -> list[OutboxRow]:
    """The first open part of each target, if it is due."""
    sql = (
        f"SELECT {REPLY} FROM outbox WHERE seq IN (SELECT min(seq) FROM outbox"
        " WHERE channel = $1 AND state IN ('pending', 'sending') GROUP BY target) AND due <= $2 ORDER BY seq"
    )
    return await _list(db, OutboxRow, sql, channel, now)


async def find_session(db: Queries, key: str) -> SessionRow | None:
    return await _first(db, SessionRow, f"SELECT {SESSION} FROM sessions WHERE key = $1", key)


async def list_sessions(db: Queries, agent: str | None) -> list[SessionRow]:
    sql = f"SELECT {SESSION} FROM sessions WHERE $1::text IS NULL OR agent = $1 ORDER BY updated DESC, key"
    return await _list(db, SessionRow, sql, agent)


async def find_record(db: Queries, kind: str, key: str) -> StoreRecord | None:
    return await _first(db, StoreRecord, f"SELECT {RECORD} FROM kept WHERE kind = $1 AND key = $2", kind, key)


async def list_records(db: Queries, kind: str) -> list[StoreRecord]:
    return await _list(db, StoreRecord, f"SELECT {RECORD} FROM kept WHERE kind = $1 ORDER BY key", kind)


async def list_usage(db: Queries, since: int, session: str | None) -> list[UsageRow]:
    sql = f"SELECT {SPENT} FROM spent WHERE at >= $1 AND ($2::text IS NULL OR session = $2) ORDER BY at, seq"
    return await _list(db, UsageRow, sql, since, session)


async def build_trace(db: Queries, ident: str) -> list[TraceStep]:
    """Everything about one message, oldest first."""
    row = await find_item(db, ident)
    if row is None:
        return []
    spent = await _list(db, UsageRow, f"SELECT {SPENT} FROM spent WHERE item = $1 ORDER BY seq", row.id)
    steps = await _list(db, TraceStep, "SELECT item, at, what, detail FROM steps WHERE item = $1 ORDER BY n", row.id)
    return merge_trace(row, steps, spent, await list_replies(db, row.id))


async def put_blob(db: Queries, name: str, data: bytes) -> None:
    """Beside the changes: it is large, and nobody depends on when it came."""
    await db.fetch("INSERT INTO blob (name, data) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, data)


async def get_blob(db: Queries, name: str) -> bytes | None:
    found = await db.fetch("SELECT data FROM blob WHERE name = $1", name)
    return bytes(found[0][0]) if found else None


async def list_nodes(db: Queries) -> list[str]:
    return [row[0] for row in await db.fetch("SELECT id FROM node WHERE until > clock_timestamp() ORDER BY id")]
