"""The Store port on one SQLite file: changes go to the writer's thread, reads are made here, on the loop's thread."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from palinurus.clock import Clock
from palinurus.errors import StateError, StateUnwritable
from palinurus.files import open_plain_file
from palinurus.store import port
from palinurus.store.lines import join_journal
from palinurus.store.news import NewsListener
from palinurus.store.shared import SpendingWish
from palinurus.store.sqlite import changes, database, rows
from palinurus.store.sqlite.database import to_state_error
from palinurus.store.sqlite.journal import TranscriptJournal
from palinurus.store.sqlite.lock import StateLock
from palinurus.store.sqlite.nodes import StoreNodes
from palinurus.store.sqlite.writer import StoreTransaction, StoreWriter

INLINE = 256 * 1024  # bytes read on the event loop; more goes to a thread

P = ParamSpec("P")
T = TypeVar("T")


class OpenedState:
    """What the handles of one opened state share: the connections, the writer, and who the nodes are."""

    def __init__(self, home: str, conn: sqlite3.Connection, lock: StateLock, clock: Clock) -> None:
        self.home = home
        self.file = database.locate_database(home)
        self.nodes = StoreNodes(clock)
        self.journal = TranscriptJournal(home)
        self.reader = database.open_for_reading(home)
        self.writer = StoreWriter(conn, self.file, self.journal, clock, ended=lock.release, heard=self.nodes.tell)
        self.writer.start()


class SqliteStore:
    """Made by `open_sqlite_store`. Every change returns after its commit; see `store/port.py` for the contract."""

    def __init__(self, state: OpenedState) -> None:
        self._state = state
        self._nodes = state.nodes
        self._node = state.nodes.join()
        self._open = True

    def share(self) -> SqliteStore:
        """A handle for one more node in this process; the state is closed with the last of them."""
        self._state.writer.shared = True
        return SqliteStore(self._state)

    async def accept(
        self, item: port.InboxItem, *, claim: bool, limit: int | None = None, hold: float = 0.0
    ) -> port.Acceptance:
        def apply(tx: StoreTransaction) -> port.Acceptance:
            free = claim and not changes.list_for_others(tx, item.lane, [item.session], self._foreign())
            done = changes.accept_item(tx, item, free, limit)
            if hold > 0 and not done.duplicate and done.claim is None:
                self._nodes.hold(item.session, hold)
            return done

        done = await self._change(apply)
        self._nodes.note_runs(self._node, [item.id] if done.claim is not None else ())
        return done

    async def claim(self, lane: str, most: int = 1, *, serves: Sequence[str] | None = None) -> list[port.RunClaim]:
        def apply(tx: StoreTransaction) -> list[port.RunClaim]:
            held = [*self._nodes.list_held(), *changes.list_for_others(tx, lane, None, self._foreign())]
            return changes.claim_next(tx, lane, most, held, serves=serves)

        got = await self._change(apply)
        self._nodes.note_runs(self._node, [one.id for one in got])
        return got

    def _foreign(self) -> frozenset[str]:
        return self._nodes.list_foreign(self._node) if self._nodes.several else frozenset()

    async def hold(self, session: str, seconds: float) -> None:
        await self._change(lambda tx: self._nodes.hold(session, seconds))  # in its place among the changes

    async def list_waiting(self, session: str) -> list[port.InboxRow]:
        return self._read(rows.list_waiting, session)

    async def rearrange(self, session: str, ids: Sequence[str]) -> list[str]:
        return await self._change(changes.rearrange_items, session, ids)

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

    async def stop(
        self,
        session: str,
        note: str,
        *,
        waiting: str | None = None,
        only: Sequence[str] | None = None,
        silent: bool = False,
    ) -> port.DismissedMessages:
        return await self._change(changes.stop_session, session, note, waiting, only=only, silent=silent)

    async def list_running(self) -> list[port.InboxRow]:
        others = self._nodes.list_foreign(self._node)
        return [row for row in self._read(rows.list_in_state, "running") if row.id not in others]

    async def requeue(self, ids: Sequence[str]) -> list[port.InboxRow]:
        return await self._change(changes.requeue_items, ids)

    async def recover(self) -> list[port.InboxRow]:
        return await self._change(changes.recover_items, self._nodes.list_foreign(self._node))

    async def item(self, ident: str) -> port.InboxRow | None:
        return self._read(rows.find_item, ident)

    async def find(self, dedupe: str) -> port.InboxRow | None:
        return self._read(rows.find_deduped, dedupe)

    async def list_due_replies(self, channel: str, now: int) -> list[port.OutboxRow]:
        return self._read(rows.list_due_replies, channel, now)

    async def mark_sending(self, ident: str, now: int, *, attempts: int | None = None) -> port.OutboxRow:
        return await self._change(changes.mark_sending, ident, now, attempts)

    async def mark_delivered(self, ident: str, receipt: str, now: int) -> None:
        run = partial(changes.mark_delivered, ident=ident, receipt=receipt, now=now)
        await self._state.writer.put(run, by=self._node, receipt=True)

    async def mark_undelivered(self, ident: str, error: str, due: int | None) -> None:
        await self._change(changes.mark_undelivered, ident, error, due)

    async def session(self, key: str) -> port.SessionRow | None:
        return self._read(rows.find_session, key)

    async def sessions(self, agent: str | None = None) -> list[port.SessionRow]:
        return self._read(rows.list_sessions, agent)

    async def save_session(self, row: port.SessionRow, *, expect: bytes | None = port.ANY_RECORD) -> bool:
        return await self._change(changes.save_session, row, expect)

    async def touch(self, row: port.SessionRow) -> None:
        await self._change(changes.touch_session, row)

    async def write(self, lines: Sequence[port.TranscriptLine], *, idle: str = "") -> None:
        await self._change(changes.write_lines, lines, idle)

    async def read_tail(self, path: str, after: int) -> bytes:
        # before the file: rows go only after their lines are in it. Who has read the beginning finds the rest in the
        # file, unless that takes nothing
        fresh = not after or path in self._state.journal.stuck
        journal = self._read(rows.list_journal_lines, path) if fresh else ()
        full = os.path.join(self._state.home, path)
        try:
            size = os.stat(full).st_size
            if after and not journal and size <= after:
                return b""
            given = (full, after, journal)
            return await asyncio.to_thread(_read_from, *given) if size - after > INLINE else _read_from(*given)
        except FileNotFoundError:
            return join_journal(b"", journal)[after:]
        except OSError as error:
            why = error.strerror or "not a regular file"
            raise StateUnwritable(f"{full}: {why}", fix="check who owns the file and its mode") from None

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

    async def grant(self, name: str, *, alone: bool = False) -> bool:
        return not (alone and self._nodes.several) and self._nodes.grant(self._node, name)

    async def give_up(self, name: str) -> None:
        self._nodes.give_up(self._node, name)

    async def confirm(self) -> None:
        """One machine: its lock on the directory holds as long as the process."""

    def watch(self, listener: NewsListener) -> Callable[[], None]:
        return self._nodes.watch(self._node, listener)

    async def open_bus(self) -> None:
        return None  # nodes in one process are for tests

    @property
    def node(self) -> str:
        return ""

    async def list_nodes(self) -> list[str]:
        return []

    async def put_blob(self, name: str, data: bytes) -> None:
        return None

    async def get_blob(self, name: str) -> None:
        return None

    async def reserve(self, wish: SpendingWish) -> None:
        return None

    def release(self, ident: str, accounts: Sequence[str], usd: float, tokens: float) -> None:
        return None

    async def list_usage(self, since: int, session: str | None = None) -> list[port.UsageRow]:
        return self._read(rows.list_usage, since, session)

    async def trace(self, ident: str) -> list[port.TraceStep]:
        return self._read(rows.build_trace, ident)

    async def close(self) -> None:
        """Finish what is queued, sync the transcript files, free the directory. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        if not self._nodes.leave(self._node):
            await self._state.writer.put(lambda tx: None, by=self._node)  # after it all that was asked for is on disk
            return
        self._state.reader.close()  # before the writer's: the last one to close folds the WAL into the file
        self._state.writer.stop()
        await asyncio.to_thread(self._state.writer.join)

    async def _change(self, run: Callable[Concatenate[StoreTransaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not self._open:
            raise StateError("the store is closed")
        result: Any = await self._state.writer.put(lambda tx: run(tx, *args, **kwargs), by=self._node)
        return result  # type: ignore[no-any-return]

    def _read(self, run: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not self._open:
            raise StateError("the store is closed")
        try:
            return run(self._state.reader, *args, **kwargs)
        except sqlite3.Error as error:
            raise to_state_error(error, self._state.file) from None


def _read_from(file: str, after: int, journal: Sequence[port.TranscriptLine]) -> bytes:
    """What a transcript holds beyond `after`; with lines for its journal, all of it is read."""
    with open_plain_file(file, follow=True) as handle:
        handle.seek(0 if journal else after)
        data = handle.read()
    return join_journal(data, journal)[after:] if journal else data
