"""Messages that shall not be answered: stopped, interrupted, one too many. It is on disk before anybody is told.

What waits is done at once; a run is marked, and ends so whatever it still says (`Store.dismiss`). Knows neither lanes
nor turns; which messages are doomed is decided in `queue.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from palinurus.agent.settle import to_outgoing_rows
from palinurus.core.types.outbound import Reply
from palinurus.errors import StateError
from palinurus.inbox import queue
from palinurus.inbox.feed import RunFeeds
from palinurus.inbox.lanes import SessionQueues
from palinurus.inbox.message import MessageReader
from palinurus.inbox.queue import QueueEvent, QueueRow
from palinurus.inbox.running import ActiveRun, ClaimFinisher, make_notice, make_refused_end
from palinurus.services.inbox import StopReport
from palinurus.store.port import Dismissal, OutboxRow
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

AGAIN = 1.0  # seconds after the store failed
CLEARS = frozenset(("user", "stop", "stop-command"))  # reasons of a stop that also drop what waits
MARK = "stopped ({})"
QUIET = frozenset(map(MARK.format, ("stop", "interrupt")))  # the person hears of these from somebody else
UNMARKED = frozenset(("timeout", "drain"))  # ends that are no person's stop: after a crash the message runs again


class MessageDismisser:
    """One task a session puts on disk what is to end there; `step` tells the queue that it is done."""

    def __init__(
        self,
        book: SessionQueues,
        running: Mapping[str, ActiveRun],
        step: Callable[[str, str, QueueEvent], object],
        feeds: RunFeeds,
        reader: MessageReader,
        finisher: ClaimFinisher,
    ) -> None:
        self._store = finisher.store
        self._book = book
        self._running = running
        self._step = step
        self._feeds = feeds
        self._reader = reader
        self._now = finisher.clock.now
        self._replied = finisher.replied
        self._going: dict[str, asyncio.Task[None]] = {}
        self._tasks = TaskSet("dismissing messages")

    async def stop_session(self, session: str, reason: str) -> StopReport:
        """Its run, and what waits behind that if the reason is a person's. Raises StateError kinds."""
        run = self._running.get(session)
        before = len(self._book.list_doomed(session))
        if reason in CLEARS and session in self._book:
            self._step(session, self._book.lane(session), queue.QueueStopEvent())
        dropped = len(self._book.list_doomed(session)) - before
        if run is not None:
            self.abort(run, reason)
        await self.settle(session)
        return StopReport(run is not None and run.marked is not False, dropped)

    async def stop_item(self, ident: str, reason: str) -> bool:
        """See `services.inbox.InboxPort`."""
        for run in tuple(self._running.values()):
            if run.claim.id == ident or ident in run.absorbed:
                self.abort(run, reason)
                await self.settle(run.claim.session)
                return run.marked is not False
        session, row = self._book.find(ident) or ("", None)
        if row is None or row.state not in ("waiting", "handed"):
            return False
        self._step(session, self._book.lane(session), queue.QueueStopEvent((ident,)))
        await self.settle(session)
        return True

    def abort(self, run: ActiveRun, reason: str) -> None:
        """Stop a run. A person's stop is put on disk too: `settle` waits for that."""
        if run.abort.reason is None and reason not in UNMARKED:
            run.mark = Dismissal(run.claim.id, "aborted", MARK.format(reason), silent=reason == "stop")
            self.begin(run.claim.session)
        run.abort.set(reason)

    def begin(self, session: str) -> None:
        """Put the ends of a session's doomed messages on disk."""
        if session not in self._going:
            self._going[session] = self._tasks.start(self._sweep(session))

    async def tell_stopped(self) -> None:
        """At start, before anything else: whose run was stopped and did not live to say so is told now."""
        for row in await self._store.list_running():
            if row.outcome is not None and row.note not in QUIET:
                inbound = self._reader.reopen(row).inbound
                await self._store.post_replies(
                    to_outgoing_rows(make_notice(row.id, inbound, "the run was stopped"), row.id, self._now())
                )

    async def settle(self, session: str, *, quiet: bool = False) -> None:
        """Return when all that is to end is on disk. Raises StateError kinds, unless `quiet`."""
        task = self._going.get(session)
        if task is not None:
            await (asyncio.wait((task,)) if quiet else asyncio.shield(task))

    async def close(self, seconds: float) -> None:
        """At the end: what is on its way to the disk gets a moment."""
        if self._going:
            await asyncio.wait(tuple(self._going.values()), timeout=seconds)

    async def _sweep(self, session: str) -> None:
        tried: set[str] = set()
        try:
            while True:
                rows = [row for row in self._book.list_doomed(session) if row.id not in tried]
                run = self._running.get(session)
                mark = run.mark if run is not None and run.marked is None else None
                if not rows and mark is None:
                    return
                tried.update(row.id for row in rows)
                notices = await self._notices(session, rows)
                ends = [_make_dismissal(row, to_outgoing_rows(notices[row.id], row.id, self._now())) for row in rows]
                done = await self._store.dismiss([*ends, mark] if mark is not None else ends)
                if run is not None and mark is not None:
                    run.marked = mark.id in done.marked
                self._over(session, [row for row in rows if row.id in done.ended], notices)
        except StateError:
            asyncio.get_running_loop().call_later(AGAIN, self.begin, session)
            raise
        finally:
            del self._going[session]

    async def _notices(self, session: str, rows: list[QueueRow]) -> dict[str, tuple[Reply, ...]]:
        """What senders are told, by message. The messages themselves are read only for that."""
        told = {row.id: row.verdict.note for row in rows if row.verdict is not None and row.verdict.tell}
        stored = {r.id: r for r in await self._store.list_waiting(session)} if told else {}
        made: dict[str, tuple[Reply, ...]] = {row.id: () for row in rows}
        for ident in told.keys() & stored.keys():
            made[ident] = make_notice(ident, self._reader.reopen(stored[ident]).inbound, told[ident])
        return made

    def _over(self, session: str, rows: list[QueueRow], notices: dict[str, tuple[Reply, ...]]) -> None:
        for row in rows:
            end = _make_dismissal(row)
            self._feeds.report_ended(row.id, make_refused_end(end.outcome, end.note, self._now()))
            self._step(session, self._book.lane(session), queue.VerdictEvent(row.id))
        if told := tuple(reply for row in rows for reply in notices[row.id]):
            self._replied(told)


def _make_dismissal(row: QueueRow, replies: tuple[OutboxRow, ...] = ()) -> Dismissal:
    assert row.verdict is not None, row.id  # it is doomed
    return Dismissal(row.id, row.verdict.outcome, row.verdict.note, replies)
