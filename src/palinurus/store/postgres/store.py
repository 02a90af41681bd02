"""The Store port on PostgreSQL: each change is one `op` of functions.sql, each read one SELECT."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from palinurus.errors import StateError, StateUnwritable
from palinurus.files import write_whole_file
from palinurus.store import port
from palinurus.store.lines import is_transcript_path
from palinurus.store.news import NewsListener
from palinurus.store.postgres import rows
from palinurus.store.postgres.batch import BlobPlace
from palinurus.store.postgres.bus import FleetBus
from palinurus.store.postgres.link import FleetLink
from palinurus.store.postgres.roster import FleetRoster
from palinurus.store.shared import SpendingAnswer, SpendingWish

P = ParamSpec("P")
T = TypeVar("T")

PRUNED = 500  # rows of a table that go in one commit


class _Parts:
    """The bytes of one change, and what stands for them in it."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []

    def put(self, data: bytes) -> BlobPlace:
        self.blobs.append(data)
        return BlobPlace(len(self.blobs))

    def lines(self, lines: Sequence[port.TranscriptLine]) -> list[list[Any]]:
        for line in lines:
            if not is_transcript_path(line.path):
                raise StateError(f"{line.path!r} is not a transcript path inside the state directory")
        return [[line.path, line.id, self.put(line.data)] for line in lines]

    def replies(self, replies: Sequence[port.OutboxRow]) -> list[list[Any]]:
        return [[r.id, r.item, r.channel, r.target, self.put(r.data), r.at, r.due] for r in replies]

    def session(self, row: port.SessionRow | None) -> list[Any] | None:
        return None if row is None else [row.key, row.agent, row.session_id, row.updated, self.put(row.data)]

    def expect(self, data: bytes | None) -> dict[str, Any]:
        if data == port.ANY_RECORD:
            return {"checks": False}
        return {"checks": True, "expect": None if data is None else self.put(data)}


def _held(claim: port.RunClaim) -> dict[str, Any]:
    return {"id": claim.id, "fence": claim.fence, "attempts": claim.attempts}


def _plain(values: Sequence[msgspec.Struct]) -> list[tuple[Any, ...]]:
    return [msgspec.structs.astuple(value) for value in values]


class PostgresStore:
    """Made by `open_postgres_store`. Every change returns after its commit; see `store/port.py` for the contract."""

    def __init__(self, link: FleetLink, home: str) -> None:
        self._link = link
        self._home = home
        self._open = True
        self.fleet = FleetRoster(link)

    async def accept(
        self, item: port.InboxItem, *, claim: bool, limit: int | None = None, hold: float = 0.0
    ) -> port.Acceptance:
        parts = _Parts()
        op = {
            "op": "accept", "id": item.id, "dedupe": item.dedupe, "session": item.session, "lane": item.lane,
            "body": parts.put(item.body), "at": item.at, "slot": item.slot, "claim": claim, "limit": limit,
            "hold": hold,
        }  # fmt: skip
        got = await self._change(op, parts)
        taken = None
        if got["state"] == "running" and not got["duplicate"]:
            taken = port.RunClaim(item.id, item.session, item.lane, item.body, at=item.at, attempts=1, fence=1)
        return port.Acceptance(got["id"], got["duplicate"], got["state"], taken)

    async def claim(self, lane: str, most: int = 1, *, serves: Sequence[str] | None = None) -> list[port.RunClaim]:
        op = {"op": "claim", "lane": lane, "most": most, "serves": None if serves is None else list(serves)}
        return [
            port.RunClaim(ident, session, pool, base64.b64decode(body), at=at, attempts=attempts, fence=fence)
            for ident, session, pool, body, at, attempts, fence in await self._change(op)
        ]

    async def hold(self, session: str, seconds: float) -> None:
        await self._change({"op": "hold", "session": session, "seconds": seconds})

    async def list_waiting(self, session: str) -> list[port.InboxRow]:
        return await self._read(rows.list_waiting, session)

    async def rearrange(self, session: str, ids: Sequence[str]) -> list[str]:
        got: list[str] = await self._change({"op": "rearrange", "session": session, "ids": list(dict.fromkeys(ids))})
        return got

    async def append(
        self,
        claim: port.RunClaim,
        lines: Sequence[port.TranscriptLine],
        *,
        absorb: Sequence[str] = (),
        steps: Sequence[port.TraceStep] = (),
        spent: Sequence[port.UsageRow] = (),
    ) -> None:
        parts = _Parts()
        op = {"op": "append", **_held(claim), "lines": parts.lines(lines), "absorb": list(absorb)}
        await self._change({**op, "steps": _plain(steps), "spent": _plain(spent)}, parts)

    async def queue_replies(self, claim: port.RunClaim, replies: Sequence[port.OutboxRow]) -> None:
        parts = _Parts()
        await self._change({"op": "replies", **_held(claim), "replies": parts.replies(replies)}, parts)

    async def post_replies(self, replies: Sequence[port.OutboxRow]) -> None:
        parts = _Parts()
        await self._change({"op": "replies", "replies": parts.replies(replies)}, parts)

    async def reply(self, ident: str) -> port.OutboxRow | None:
        return await self._read(rows.find_reply, ident)

    async def settle(self, claim: port.RunClaim, end: port.Settlement) -> None:
        parts = _Parts()
        op = {
            "op": "settle", **_held(claim), "outcome": end.outcome, "note": end.note, "lines": parts.lines(end.lines),
            "replies": parts.replies(end.replies), "session": parts.session(end.session),
            "touch": parts.session(end.touch), "spent": _plain(end.spent), "steps": _plain(end.steps),
        }  # fmt: skip
        await self._change(op, parts)

    async def yield_back(self, claim: port.RunClaim) -> None:
        await self._change({"op": "yield", **_held(claim)})

    async def dismiss(self, ends: Sequence[port.Dismissal]) -> port.DismissedMessages:
        parts = _Parts()
        told = [
            {"id": e.id, "outcome": e.outcome, "note": e.note, "replies": parts.replies(e.replies), "silent": e.silent}
            for e in ends
        ]
        ended, marked = await self._change({"op": "dismiss", "ends": told}, parts)
        return port.DismissedMessages(tuple(ended), tuple(marked))

    async def stop(
        self,
        session: str,
        note: str,
        *,
        waiting: str | None = None,
        only: Sequence[str] | None = None,
        silent: bool = False,
    ) -> port.DismissedMessages:
        op = {"op": "stop", "session": session, "note": note, "waiting": waiting, "silent": silent}
        ended, marked = await self._change({**op, "only": None if only is None else list(only)})
        return port.DismissedMessages(tuple(ended), tuple(marked))

    async def list_running(self) -> list[port.InboxRow]:
        return await self._read(rows.list_running, self._link.node)

    async def requeue(self, ids: Sequence[str]) -> list[port.InboxRow]:
        await self._change({"op": "requeue", "ids": list(ids)})
        return [row for row in await self._read(rows.list_queued) if row.id in ids]

    async def recover(self) -> list[port.InboxRow]:
        await self._link.lease.settle()
        await self._change({"op": "requeue"})
        return await self._read(rows.list_queued)

    async def item(self, ident: str) -> port.InboxRow | None:
        return await self._read(rows.find_item, ident)

    async def find(self, dedupe: str) -> port.InboxRow | None:
        return await self._read(rows.find_deduped, dedupe)

    async def list_due_replies(self, channel: str, now: int) -> list[port.OutboxRow]:
        return await self._read(rows.list_due_replies, channel, now)

    async def mark_sending(self, ident: str, now: int, *, attempts: int | None = None) -> port.OutboxRow:
        got = await self._change({"op": "mark", "how": "sending", "id": ident, "now": now, "attempts": attempts})
        return port.OutboxRow(**{**got, "data": base64.b64decode(got["data"])})

    async def mark_delivered(self, ident: str, receipt: str, now: int) -> None:
        await self._change({"op": "mark", "how": "sent", "id": ident, "receipt": receipt, "now": now})

    async def mark_undelivered(self, ident: str, error: str, due: int | None) -> None:
        await self._change({"op": "mark", "how": "failed", "id": ident, "error": error, "due": due})

    async def session(self, key: str) -> port.SessionRow | None:
        return await self._read(rows.find_session, key)

    async def sessions(self, agent: str | None = None) -> list[port.SessionRow]:
        return await self._read(rows.list_sessions, agent)

    async def save_session(self, row: port.SessionRow, *, expect: bytes | None = port.ANY_RECORD) -> bool:
        parts = _Parts()
        op = {"op": "session", "how": "save", "row": parts.session(row), **parts.expect(expect)}
        return bool(await self._change(op, parts))

    async def touch(self, row: port.SessionRow) -> None:
        parts = _Parts()
        await self._change({"op": "session", "how": "touch", "row": parts.session(row)}, parts)

    async def write(self, lines: Sequence[port.TranscriptLine], *, idle: str = "") -> None:
        parts = _Parts()
        await self._change({"op": "write", "lines": parts.lines(lines), "idle": idle}, parts)

    async def read_tail(self, path: str, after: int) -> bytes:
        return await self._read(rows.read_tail, path, after)

    async def complete_file(self, path: str) -> None:
        data = await self.read_tail(path, 0)
        if data:
            await asyncio.to_thread(_write_transcript, os.path.join(self._home, path), data)

    async def drop_session(self, key: str, path: str = "") -> None:
        await self._change({"op": "session", "how": "drop", "key": key, "path": path})

    async def prune(self, before: int) -> int:
        return int(await self._change({"op": "prune", "before": before, "rows": PRUNED}))

    async def put_record(
        self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = port.ANY_RECORD
    ) -> bool:
        parts = _Parts()
        op = {"op": "record", "kind": kind, "key": key, "data": None if data is None else parts.put(data)}
        return bool(await self._change({**op, **parts.expect(expect)}, parts))

    async def get_record(self, kind: str, key: str) -> port.StoreRecord | None:
        return await self._read(rows.find_record, kind, key)

    async def list_records(self, kind: str) -> list[port.StoreRecord]:
        return await self._read(rows.list_records, kind)

    async def claim_slot(self, job: str, due: int) -> bool:
        return bool(await self._change({"op": "slot", "job": job, "due": due}))

    async def grant(self, name: str, *, alone: bool = False) -> bool:
        return bool(await self._change({"op": "grant", "name": name, "alone": alone}))

    async def give_up(self, name: str) -> None:
        await self._change({"op": "give up", "name": name})

    async def confirm(self) -> None:
        await self._link.lease.confirm()

    def watch(self, listener: NewsListener) -> Callable[[], None]:
        return self._link.watch(listener)

    async def pull_news(self) -> None:
        """Tell the listeners now what they would hear in a moment."""
        await self._link.pull()

    @property
    def node(self) -> str:
        return self._link.node

    async def list_nodes(self) -> list[str]:
        return await self._read(rows.list_nodes)

    async def put_blob(self, name: str, data: bytes) -> None:
        await self._read(rows.put_blob, name, data)

    async def get_blob(self, name: str) -> bytes | None:
        return await self._read(rows.get_blob, name)

    async def reserve(self, wish: SpendingWish) -> SpendingAnswer:
        return msgspec.convert(await self._change({"op": "reserve", **msgspec.to_builtins(wish)}), SpendingAnswer)

    def release(self, ident: str, accounts: Sequence[str], usd: float, tokens: float) -> None:
        op = {"op": "release", "id": ident, "accounts": list(accounts), "usd": usd, "tokens": tokens}
        with contextlib.suppress(StateError):  # out of the fleet: then nothing of it is kept back any more
            self._link.put(op, []).add_done_callback(lambda done: done.exception())

    async def open_bus(self) -> FleetBus:
        bus = FleetBus(self._link)
        bus.start()
        return bus

    async def list_usage(self, since: int, session: str | None = None) -> list[port.UsageRow]:
        return await self._read(rows.list_usage, since, session)

    async def trace(self, ident: str) -> list[port.TraceStep]:
        return await self._read(rows.build_trace, ident)

    async def close(self) -> None:
        """Finish what is queued, leave the fleet. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        await self._link.stop()
        self._link.member.ended()

    async def _change(self, op: dict[str, Any], parts: _Parts | None = None) -> Any:
        if not self._open:
            raise StateError("the store is closed")
        return await self._link.put(op, parts.blobs if parts is not None else [])

    async def _read(
        self, run: Callable[Concatenate[rows.Queries, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if not self._open:
            raise StateError("the store is closed")
        return await self._link.read(lambda db: run(db, *args, **kwargs))


def _write_transcript(file: str, data: bytes) -> None:
    try:
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        write_whole_file(file, data)
    except OSError as error:
        raise StateUnwritable(f"{file}: {error.strerror}", fix="check who owns the folder and its mode") from None
