"""Messages that shall not be answered: stopped, interrupted, one too many. It is on disk before anybody is told.

What waits is done at once; a run is marked, and ends so whatever it still says (`Store.dismiss`). Knows neither lanes
nor turns; which messages are doomed is decided in `queue.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Protocol

from palinurus.agent.settle import to_outgoing_rows
from palinurus.core.types.inbound import Route
from palinurus.core.types.outbound import Reply
from palinurus.errors import StateError
from palinurus.inbox import queue
from palinurus.inbox.feed import RunFeeds
from palinurus.inbox.lanes import SessionQueues
from palinurus.inbox.message import MessageReader
from palinurus.inbox.queue import QueueEvent, QueueRow, QueueStopEvent
from palinurus.inbox.running import ActiveRun, ClaimFinisher, make_notice, make_refused_end
from palinurus.services.inbox import StopReport
from palinurus.store.news import StoreNews
from palinurus.store.port import Dismissal, DismissedMessages, InboxRow, OutboxRow
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)


class CallCloser(Protocol):
    async def __call__(self, route: Route, item: str, *, idle: bool = False) -> None:
        """See `agent.turn.TurnRunner.close_calls`."""
        ...


EARLY = 256  # messages that were stopped and never came
AGAIN = 1.0  # seconds after the store failed
CLEARS = frozenset(("user", "stop", "stop-command"))  # reasons of a stop that also drop what waits
MARK = "stopped ({})"
_MARKED = MARK.split("{}")
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
        reserve: Callable[[str], AbstractAsyncContextManager[bool]],
    ) -> None:
        self._store = finisher.store
        self._book = book
        self._running = running
        self._step = step
        self._feeds = feeds
        self._reader = reader
        self._now = finisher.clock.now
        self._replied = finisher.replied
        self._reserve = reserve
        self._going: dict[str, asyncio.Task[None]] = {}
        self._early: dict[str, str] = {}  # messages that were stopped before they were known here: why
        self.close_calls: CallCloser | None = None  # who answers tool calls that a message left open
        self._tasks = TaskSet("dismissing messages")

    async def stop_session(self, session: str, reason: str, item: str = "", before: str = "") -> StopReport:
        """Its run, whichever node has it, and what waits behind that if the reason is a person's; or `item`; or what
        came `before` one. Raises StateError kinds."""
        if item:
            return StopReport(await self.stop_item(item, reason))
        if before:
            both = [*await self._store.list_running(), *await self._store.list_waiting(session)]
            known = [one for one in both if one.session == session]
            if any(one.id > before for one in known):  # else all of it, also what another node runs
                ended = [one.state for one in known if one.id < before and await self.stop_item(one.id, reason)]
                return StopReport("running" in ended, ended.count("queued"))
        run, clears = self._running.get(session), reason in CLEARS
        if run is not None:
            self._stop_run(run, reason)
        if reason in UNMARKED:
            return StopReport(run is not None)
        if clears:
            self._step(session, self._book.lane(session), QueueStopEvent())
        rows = self._book.state(session).rows
        only = None
        if any(row.state == "taken" for row in rows):  # its run has read it: it ends with that
            only = [*([run.claim.id] if run is not None else ()), *(r.id for r in rows if r.state != "taken")]
        done = await self._stop(session, reason, only, waiting=queue.STOPPED if clears else None)
        return StopReport(bool(done.marked), len(done.ended))

    async def stop_item(self, ident: str, reason: str = "user") -> bool:
        """See `services.inbox.InboxPort`."""
        run = next((r for r in self._running.values() if r.claim.id == ident or ident in r.absorbed), None)
        if run is not None:
            self._stop_run(run, reason)
            session, ident = run.claim.session, run.claim.id
            if reason in UNMARKED:
                return True
        elif (found := self._book.find(ident)) is not None:
            session, known = found
            if known.state not in ("waiting", "handed"):
                return False
            self._step(session, self._book.lane(session), QueueStopEvent((ident,)))
        else:  # perhaps another node has it
            row = await self._store.item(ident)
            while row is not None and row.absorbed_by:
                row = await self._store.item(row.absorbed_by)
            if row is None:
                return False
            session, ident = row.session, row.id
        done = await self._stop(session, reason, (ident,))
        return bool(done.ended or done.marked)

    def _stop_run(self, run: ActiveRun, reason: str) -> None:
        if run.abort.reason is None and reason not in UNMARKED:
            run.mark = Dismissal(run.claim.id, "aborted", MARK.format(reason), silent=reason == "stop")
        run.abort.set(reason)

    async def _stop(
        self, session: str, reason: str, only: Sequence[str] | None, waiting: str | None = queue.STOPPED
    ) -> DismissedMessages:
        """Put it on disk. If that fails, what was stopped here is tried again."""
        try:
            note, silent = MARK.format(reason), reason == "stop"
            done = await self._store.stop(session, note, waiting=waiting, only=only, silent=silent)
        except StateError:
            asyncio.get_running_loop().call_later(AGAIN, self.begin, session)
            raise
        run = self._running.get(session)
        if run is not None and run.claim.id in done.marked:
            self._stop_run(run, reason)  # it may have begun since
            run.marked = True
        came = tuple(ident for ident in done.ended if self._book.row(session, ident) is not None)
        self._step(session, self._book.lane(session), QueueStopEvent(came))  # those that came to be known since
        rows = self._book.list_doomed(session)
        asked = () if waiting is None else only  # about which of those that wait; None: all
        doomed = [row for row in rows if row.id in came or asked is None or row.id in asked]
        known = {row.id for row in doomed} | ({run.claim.id} if run is not None else set())
        for ident in {*done.ended, *done.marked} - known:
            self._remember(ident, reason)
        self._over(session, doomed, done)
        return done

    def _remember(self, ident: str, reason: str) -> None:
        self._early[ident] = reason
        while len(self._early) > EARLY:
            del self._early[next(iter(self._early))]

    def take_early(self, ident: str) -> str | None:
        """The reason if a message was stopped between its commit and the moment its dispatcher heard of that."""
        return self._early.pop(ident, None)

    def hear(self, news: StoreNews) -> None:
        """Another node has stopped a run of this one, or was stopped itself and is gone; that is on disk."""
        if news.what == "unsaid":
            self._tasks.start(self._tell_unsaid(news.key))
            return
        run, reason = self._running.get(news.session), news.detail.removeprefix(_MARKED[0]).removesuffix(_MARKED[1])
        if run is not None and run.claim.id == news.key:
            run.abort.set(reason)
        else:
            self._remember(news.key, reason)

    def abort(self, run: ActiveRun, reason: str) -> None:
        """Stop a run, and put that on disk: `settle` waits for it."""
        self._stop_run(run, reason)
        self.begin(run.claim.session)

    def begin(self, session: str) -> None:
        """Put the ends of a session's doomed messages on disk."""
        if session not in self._going:
            self._going[session] = self._tasks.start(self._sweep(session))

    async def _answer_calls(self, ids: Sequence[str]) -> None:
        """Messages that had begun before a crash or a restart, and were stopped while they waited to go on."""
        if (closer := self.close_calls) is None:
            return
        for ident in ids:
            row = await self._store.item(ident)
            if row is not None and any(step.what == "claimed" for step in await self._store.trace(ident)):
                async with self._reserve(row.session) as free:
                    if free:  # else the run that comes answers them
                        await closer(self._reader.reopen(row).route, ident, idle=True)

    async def tell_stopped(self) -> None:
        """At start, before anything else: whose run was stopped and did not live to say so is told now, and the tool
        calls it left open are answered."""
        for row in await self._store.list_running():
            if row.outcome is not None:
                await self._tell_stopped(row, idle=False)

    async def _tell_unsaid(self, item: str) -> None:
        """The same of a run whose node is gone."""
        row = await self._store.item(item)
        if row is not None:
            await self._tell_stopped(row, idle=True)

    async def _tell_stopped(self, row: InboxRow, *, idle: bool) -> None:
        message = self._reader.reopen(row)
        if self.close_calls is not None:
            await self.close_calls(message.route, row.id, idle=idle)
        if row.note not in QUIET:
            notices = make_notice(row.id, message.inbound, "the run was stopped")
            await self._store.post_replies(to_outgoing_rows(notices, row.id, self._now()))
            self._replied(notices)

    async def settle(self, session: str, *, quiet: bool = False) -> None:
        """Return when all that is to end is on disk. Raises StateError kinds, unless `quiet`."""
        task = self._going.get(session)
        if task is not None:
            await (asyncio.wait((task,)) if quiet else asyncio.shield(task))

    async def close(self, seconds: float) -> None:
        """At the end: what is on its way to the disk gets a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._tasks.settle()

    async def _sweep(self, session: str) -> None:
        tried: set[str] = set()
        try:
            while True:
                rows = [row for row in self._book.list_doomed(session) if row.id not in tried]
                run = self._running.get(session)
                mark = run.mark if run is not None and not run.marked else None
                if not rows and mark is None:
                    return
                tried.update(row.id for row in rows)
                notices = await self._notices(session, rows)
                ends = [_make_dismissal(row, to_outgoing_rows(notices[row.id], row.id, self._now())) for row in rows]
                done = await self._store.dismiss([*ends, mark] if mark is not None else ends)
                if run is not None and mark is not None:
                    run.marked = True
                self._over(session, rows, done, notices)
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

    def _over(
        self,
        session: str,
        rows: list[QueueRow],
        done: DismissedMessages,
        notices: Mapping[str, tuple[Reply, ...]] = MappingProxyType({}),
    ) -> None:
        """These were to end. Those that have not were claimed meanwhile, and are marked, or had ended before: perhaps
        by another stop that has not heard of it yet, and will find nobody to tell."""
        for row in [row for row in rows if row.id not in done.marked]:
            if row.id in done.ended or self._feeds.is_awaited(row.id):
                end = _make_dismissal(row)
                self._feeds.report_ended(row.id, make_refused_end(end.outcome, end.note, self._now()))
            self._step(session, self._book.lane(session), queue.VerdictEvent(row.id))
        if told := tuple(reply for row in rows if row.id in done.ended for reply in notices.get(row.id, ())):
            self._replied(told)
        self._tasks.start(self._answer_calls(done.ended))


def _make_dismissal(row: QueueRow, replies: tuple[OutboxRow, ...] = ()) -> Dismissal:
    assert row.verdict is not None, row.id  # it is doomed
    return Dismissal(row.id, row.verdict.outcome, row.verdict.note, replies)
