"""The Store port on one SQLite file: changes go to the writer's thread, reads are made here, on the loop's thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from palinurus.clock import Clock
from palinurus.errors import StateError
from palinurus.store import port
from palinurus.store.sqlite import changes, database, rows
from palinurus.store.sqlite.database import to_state_error
from palinurus.store.sqlite.journal import TranscriptJournal
from palinurus.store.sqlite.lock import StateLock
from palinurus.store.sqlite.writer import StoreTransaction, StoreWriter

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore:
    """Made by `open_store`. Every change returns after its commit; see `store/port.py` for the contract."""

    def __init__(self, home: str, conn: sqlite3.Connection, lock: StateLock, clock: Clock) -> None:
        self._file = database.locate_database(home)
        self._reader: sqlite3.Connection | None = database.open_for_reading(home)
        self._writer = StoreWriter(conn, self._file, TranscriptJournal(home), clock, ended=lock.release)
        self._writer.start()

    async def accept(self, item: port.InboxItem, *, claim: bool) -> port.Acceptance:
        return await self._change(changes.accept_item, item, claim)

    async def claim(self, lane: str, skip: Sequence[str] = ()) -> port.RunClaim | None:
        return await self._change(changes.claim_next, lane, skip)

    async def list_waiting(self, session: str) -> list[port.InboxRow]:
        return self._read(rows.list_waiting, session)

    async def append(
        self,
        claim: port.RunClaim,
        lines: Sequence[port.TranscriptLine],
        *,
        absorb: Sequence[str] = (),
        steps: Sequence[port.TraceStep] = (),
        spent: Sequence[port.UsageRow] = (),
    ) -> None:
        await self._change(changes.append_lines, claim, lines, absorb, steps=steps, spent=spent)

    async def queue_replies(self, claim: port.RunClaim, replies: Sequence[port.OutboxRow]) -> None:
        await self._change(changes.queue_replies, claim, replies)

    async def post_replies(self, replies: Sequence[port.OutboxRow]) -> None:
        await self._change(changes.post_replies, replies)

    async def reply(self, ident: str) -> port.OutboxRow | None:
        return self._read(rows.find_reply, ident)

    async def settle(self, claim: port.RunClaim, end: port.Settlement) -> None:
        await self._change(changes.settle_turn, claim, end)

    async def yield_back(self, claim: port.RunClaim) -> None:
        await self._change(changes.yield_back, claim)

    async def dismiss(self, ends: Sequence[port.Dismissal]) -> port.DismissedMessages:
        return await self._change(changes.dismiss_items, ends)

    async def list_running(self) -> list[port.InboxRow]:
        return self._read(rows.list_in_state, "running")

    async def requeue(self, ids: Sequence[str]) -> list[port.InboxRow]:
        return await self._change(changes.requeue_items, ids)

    async def recover(self) -> list[port.InboxRow]:
        return await self._change(changes.recover_items)

    async def item(self, ident: str) -> port.InboxRow | None:
        return self._read(rows.find_item, ident)

    async def find(self, dedupe: str) -> port.InboxRow | None:
        return self._read(rows.find_deduped, dedupe)

    async def list_due_replies(self, channel: str, now: int) -> list[port.OutboxRow]:
        return self._read(rows.list_due_replies, channel, now)

    async def mark_sending(self, ident: str, now: int) -> port.OutboxRow:
        return await self._change(changes.mark_sending, ident, now)

    async def mark_delivered(self, ident: str, receipt: str, now: int) -> None:
        await self._change(changes.mark_delivered, ident, receipt, now)

    async def mark_undelivered(self, ident: str, error: str, due: int | None) -> None:
        await self._change(changes.mark_undelivered, ident, error, due)

    async def session(self, key: str) -> port.SessionRow | None:
        return self._read(rows.find_session, key)

    async def sessions(self, agent: str | None = None) -> list[port.SessionRow]:
        return self._read(rows.list_sessions, agent)

    async def save_session(self, row: port.SessionRow) -> None:
        await self._change(changes.save_session, row)

    async def touch(self, row: port.SessionRow) -> None:
        await self._change(changes.touch_session, row)

    async def write(self, lines: Sequence[port.TranscriptLine]) -> None:
        await self._change(lambda tx: tx.append(list(lines)))

    async def list_journal_lines(self, path: str) -> list[port.TranscriptLine]:
        return self._read(rows.list_journal_lines, path)

    async def complete_file(self, path: str) -> None:
        await self._change(changes.complete_file, path)

    async def drop_session(self, key: str, path: str = "") -> None:
        await self._change(changes.drop_session, key, path)

    async def prune(self, before: int) -> int:
        return await self._change(changes.prune_rows, before)

    async def put_record(
        self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = port.ANY_RECORD
    ) -> bool:
        return await self._change(changes.put_record, kind, key, data, expect)

    async def get_record(self, kind: str, key: str) -> port.StoreRecord | None:
        return self._read(rows.find_record, kind, key)

    async def list_records(self, kind: str) -> list[port.StoreRecord]:
        return self._read(rows.list_records, kind)

    async def claim_slot(self, job: str, due: int) -> bool:
        return await self._change(changes.claim_slot, job, due)

    async def list_usage(self, since: int, session: str | None = None) -> list[port.UsageRow]:
        return self._read(rows.list_usage, since, session)

    async def trace(self, ident: str) -> list[port.TraceStep]:
        return self._read(rows.build_trace, ident)

    async def close(self) -> None:
        """Finish what is queued, sync the transcript files, free the directory. Safe to call twice."""
        reader, self._reader = self._reader, None
        if reader is None:
            return
        reader.close()  # before the writer's: the last one to close folds the WAL into the file
        self._writer.stop()
        await asyncio.to_thread(self._writer.join)

    async def _change(self, run: Callable[Concatenate[StoreTransaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        result: Any = await self._writer.put(lambda tx: run(tx, *args, **kwargs))
        return result  # type: ignore[no-any-return]

    def _read(self, run: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._reader is None:
            raise StateError("the store is closed")
        try:
            return run(self._reader, *args, **kwargs)
        except sqlite3.Error as error:
            raise to_state_error(error, self._file) from None
