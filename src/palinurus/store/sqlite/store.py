"""The Store port on one SQLite file: changes go to the writer's thread, reads are made here, on the loop's thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from palinurus.clock import Clock
from palinurus.errors import StateError
from palinurus.store.port import (
    ANY,
    Accepted,
    Claim,
    Item,
    ItemRow,
    Kept,
    Line,
    Outgoing,
    SessionRow,
    Settlement,
    Spent,
    Step,
)
from palinurus.store.sqlite import file, inbox, kept, outbox, rows
from palinurus.store.sqlite.faults import fault
from palinurus.store.sqlite.journal import Journal
from palinurus.store.sqlite.lock import Lock
from palinurus.store.sqlite.writer import Tx, Writer

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore:
    """Made by `open_store`. Every change returns after its commit; see `store/port.py` for the contract."""

    def __init__(self, home: str, conn: sqlite3.Connection, lock: Lock, clock: Clock) -> None:
        self._file = file.path(home)
        self._reader: sqlite3.Connection | None = file.reading(home)
        self._writer = Writer(conn, self._file, Journal(home), clock, lock.release)
        self._writer.start()

    async def accept(self, item: Item, *, claim: bool) -> Accepted:
        return await self._change(inbox.accept, item, claim)

    async def claim(self, lane: str, skip: Sequence[str] = ()) -> Claim | None:
        return await self._change(inbox.claim, lane, skip)

    async def list_waiting(self, session: str) -> list[ItemRow]:
        return self._read(rows.waiting, session)

    async def append(
        self, claim: Claim, lines: Sequence[Line], *, absorb: Sequence[str] = (), steps: Sequence[Step] = ()
    ) -> None:
        await self._change(inbox.append, claim, lines, absorb, steps)

    async def queue_replies(self, claim: Claim, replies: Sequence[Outgoing]) -> None:
        await self._change(inbox.say, claim, replies)

    async def post_replies(self, replies: Sequence[Outgoing]) -> None:
        await self._change(outbox.post, replies)

    async def reply(self, ident: str) -> Outgoing | None:
        return self._read(rows.reply, ident)

    async def settle(self, claim: Claim, end: Settlement) -> None:
        await self._change(inbox.settle, claim, end)

    async def yield_back(self, claim: Claim) -> None:
        await self._change(inbox.yield_back, claim)

    async def recover(self) -> list[ItemRow]:
        return await self._change(inbox.recover)

    async def item(self, ident: str) -> ItemRow | None:
        return self._read(rows.item, ident)

    async def list_due_replies(self, channel: str, now: int) -> list[Outgoing]:
        return self._read(rows.outgoing, channel, now)

    async def mark_sending(self, ident: str, now: int) -> Outgoing:
        return await self._change(outbox.sending, ident, now)

    async def mark_delivered(self, ident: str, receipt: str, now: int) -> None:
        await self._change(outbox.delivered, ident, receipt, now)

    async def mark_undelivered(self, ident: str, error: str, due: int | None) -> None:
        await self._change(outbox.undelivered, ident, error, due)

    async def session(self, key: str) -> SessionRow | None:
        return self._read(rows.session, key)

    async def sessions(self, agent: str | None = None) -> list[SessionRow]:
        return self._read(rows.sessions, agent)

    async def save_session(self, row: SessionRow) -> None:
        await self._change(inbox.save_session, row)

    async def touch(self, row: SessionRow) -> None:
        await self._change(inbox.touch_session, row)

    async def write(self, lines: Sequence[Line]) -> None:
        await self._change(lambda tx: tx.append(list(lines)))

    async def drop_session(self, key: str) -> None:
        await self._change(inbox.drop_session, key)

    async def put_record(self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = ANY) -> bool:
        return await self._change(kept.keep, kind, key, data, expect)

    async def get_record(self, kind: str, key: str) -> Kept | None:
        return self._read(kept.one, kind, key)

    async def list_records(self, kind: str) -> list[Kept]:
        return self._read(kept.every, kind)

    async def claim_slot(self, job: str, due: int) -> bool:
        return await self._change(inbox.slot, job, due)

    async def list_usage(self, since: int, session: str | None = None) -> list[Spent]:
        return self._read(rows.spent, since, session)

    async def trace(self, ident: str) -> list[Step]:
        return self._read(rows.trace, ident)

    async def close(self) -> None:
        """Finish what is queued, sync the transcript files, free the directory. Safe to call twice."""
        reader, self._reader = self._reader, None
        if reader is None:
            return
        reader.close()  # before the writer's: the last one to close folds the WAL into the file
        self._writer.stop()
        await asyncio.to_thread(self._writer.join)

    async def _change(self, run: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        result: Any = await self._writer.put(lambda tx: run(tx, *args, **kwargs))
        return result  # type: ignore[no-any-return]

    def _read(self, run: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._reader is None:
            raise StateError("the store is closed")
        try:
            return run(self._reader, *args, **kwargs)
        except sqlite3.Error as error:
            raise fault(error, self._file) from None
