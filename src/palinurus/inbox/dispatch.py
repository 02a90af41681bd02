"""From accepted rows to runs: one per session, a cap per lane, nothing lost between.

What happens to a message that finds its session busy is decided in `queue.py`; this does what is decided. A
run's task owns one claim from start to settlement. Whatever goes wrong in it, the claim ends in exactly one of:
settled, or handed back (drain), or left to the next start (the process died).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from palinurus.agent.mailbox import Mailbox
from palinurus.agent.turn import TurnRunner
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import Draining, NotFound, QueueFull, StateError
from palinurus.inbox import control, queue, running
from palinurus.inbox.dismiss import MessageDismisser
from palinurus.inbox.feed import RunFeeds
from palinurus.inbox.lanes import LanePump, Lanes, SessionQueues, WaitingMessages
from palinurus.inbox.message import CONTROL_LANE, InboxMessage, MessageReader, QueueRules, check_room
from palinurus.inbox.peers import PeerNews
from palinurus.inbox.policy import NO_OVERRIDES, QueuePolicy, find_burst_policy, resolve_policy
from palinurus.inbox.queue import Effect, QueueEvent
from palinurus.inbox.route import build_item
from palinurus.inbox.running import ActiveRun, ClaimFinisher, ReplyListener, RunAudience, StrayRuns
from palinurus.services.inbox import Sink, StopReport
from palinurus.store.news import StoreNews
from palinurus.store.port import Acceptance, InboxItem, InboxRow, RunClaim, SessionFull, Store, TurnOutcome
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

BOUND = 200  # messages of one session that wait, dropped ones included
DEADLINE = 900.0  # seconds for a run of an agent that is no more
ACCEPTING = 5.0  # seconds that messages on their way to the disk get at the end
LOOK = 30.0  # seconds between two looks for running rows that nobody runs
ANSWERING = 4  # rounds of the event loop: from the store to who waits for it, to the connection, to who writes there


class Dispatcher:
    """Implements `services.inbox.InboxPort`: accepts, starts, steers, stops. Made first, so that all who put messages
    in can have it; `attach` then says who does the runs, before the first message comes."""

    _turns: TurnRunner
    _controls: control.ControlLane
    _stop_children: Callable[[str], Awaitable[int]] | None

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        reader: MessageReader,
        replied: ReplyListener = lambda replies: None,
        grace: float = 30.0,  # seconds a run gets to end after its deadline, and again after it was cancelled
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._reader = reader
        self._rules = QueueRules(settings, store, reader)
        self.grace = grace
        self._bound = max(BOUND, settings.lanes.queue_cap)
        self._running: dict[str, ActiveRun] = {}
        self._coming: Counter[str] = Counter()  # messages on their way to disk, by session
        self._tickets: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by session: whose turn it is
        self._tasks = TaskSet("a message that gets no run")
        self._taking: set[asyncio.Task[Acceptance]] = set()
        self._strays = StrayRuns(store, lambda: {run.claim.id for run in self._running.values()})
        width = settings.lanes
        pools = {"main": width.main, "subagent": width.subagent, "cron": width.cron, CONTROL_LANE: control.AT_ONCE}
        self.lanes = Lanes(pools)
        self._book = SessionQueues(self.lanes)
        self._pump = LanePump(store, self.lanes, self._start, settings.store.list_served())
        self.serves = self._pump.serves_session
        self._finisher = ClaimFinisher(store, clock, replied)
        self.feeds = RunFeeds()
        taken = (self._tickets, self._coming)
        self.waiting = WaitingMessages(store, self._book, reader, self._step, *taken)
        made = (self.feeds, reader, self._finisher)
        self._dismisser = MessageDismisser(self._book, self._running, self._step, *made, self.waiting.reserve)
        self.stop_item = self._dismisser.stop_item
        known = (store, self._book, self._running, self.feeds)
        self.peers = PeerNews(*known, tickets=self._tickets, reread=self._rules.reread, step=self._step)
        self.draining = False

    def attach(
        self,
        turns: TurnRunner,
        controller: control.ControllerPort,
        stop_children: Callable[[str], Awaitable[int]] | None = None,
    ) -> None:
        """Who does runs, who does commands, and who ends the sub-agents of a session that is stopped."""
        self._turns = turns
        self._dismisser.close_calls = turns.close_calls
        self._controls = control.ControlLane(controller)
        self._stop_children = stop_children

    # in

    async def submit(
        self, inbound: Inbound, sink: Sink | None = None, message: InboxMessage | None = None
    ) -> Acceptance:
        """See the port. `message`: what is decided about it already."""
        if self.draining:
            raise Draining("the gateway is stopping and takes no new messages", fix="try again in a moment")
        message = message or self._reader.read(inbound, self._reader.route(inbound))
        if not message.control:
            await self._controls.wait_stopped(str(message.route.key), inbound)
        item = build_item(inbound, message.route, self._clock)
        rules: QueuePolicy | None = None
        if message.control:
            busy = f"{CONTROL_LANE}:{item.session}" in self._book
            rules, item = control.RULES, control.to_control_item(item, message, busy)
        session, lane = item.session, item.lane
        async with self._tickets.setdefault(session, asyncio.Lock()):  # in the order of the calls: locks are fair
            alone = rules is None and session not in self._running
            held = find_burst_policy(inbound, self._settings.queue) if alone else None
            free = session not in self._book and session not in self._coming and self._pump.serves_session(session)
            slot = free and not held and self.lanes.take(lane)
            if not slot:
                rules = rules or held or await self._rules.find(message, session)
                check_room(self._book.state(session), self._coming[session], rules, self._bound)
            self._coming[session] += 1
            # A task of our own: whoever waits for it may be stopped, but what is claimed is run.
            task = asyncio.ensure_future(self._take(item, message, rules, sink, slot=slot))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)
        return await asyncio.shield(task)

    async def _take(
        self, item: InboxItem, message: InboxMessage, rules: QueuePolicy | None, sink: Sink | None, *, slot: bool
    ) -> Acceptance:
        session, lane, inbound = item.session, item.lane, message.inbound
        unwatch = self.feeds.watch(item.id, sink) if sink is not None else None
        accepted = None
        try:
            hold = rules.hold if rules is not None else 0.0
            if hold:
                self._pump.note_held(session)
            accepted = await self._store.accept(item, claim=slot, limit=self._bound, hold=hold)
        except SessionFull as exc:  # counted here and there: others may put messages in, too
            raise QueueFull(exc.message, fix="wait for answers, or stop the run") from None
        finally:
            self._coming -= Counter((session,))
            if slot and (accepted is None or accepted.claim is None):
                self.lanes.give(lane)
                self._pump.kick(lane)
            if unwatch is not None and (accepted is None or accepted.duplicate):
                unwatch()
        if not accepted.duplicate:
            self.feeds.report_accepted(item.id, session, inbound)
        self._accepted(accepted, item, message, rules, sink=sink)
        await self._dismisser.settle(session, quiet=True)  # what it drops or interrupts is so on disk, too
        return accepted

    def _accepted(
        self, accepted: Acceptance, item: InboxItem, message: InboxMessage, rules: QueuePolicy | None, sink: Sink | None
    ) -> None:
        if accepted.claim is not None:
            self._start(accepted.claim, message)
        elif accepted.duplicate:
            if sink is not None and accepted.state in ("queued", "running"):
                self.feeds.watch(accepted.id, sink)
        elif self._dismisser.take_early(item.id) is not None:
            end = running.make_refused_end("aborted", queue.STOPPED, self._clock.now())
            self.feeds.report_ended(item.id, end)
        else:
            inbound, settings = message.inbound, self._settings.queue
            rules = rules or resolve_policy(inbound, NO_OVERRIDES, settings, message.inline.queue)
            arrived = queue.ArrivalEvent(
                running.make_row(item.id, inbound, rules, asyncio.get_running_loop().time()), rules
            )
            self._step(item.session, item.lane, arrived, message)

    async def resume(self) -> int:
        """At start: hand what a crash left behind back to the lanes. Returns how many messages wait."""
        await self._dismisser.tell_stopped()
        rows = await self._store.recover()
        asyncio.get_running_loop().call_later(LOOK, self._look)
        return await self._restore(rows)

    async def _restore(self, rows: list[InboxRow], *, first: bool = False) -> int:
        read = [(row, *await self._rules.reread(row)) for row in rows]  # all of them before the first one may begin
        for row, message, rules in read:
            made = running.make_row(row.id, message.inbound, rules, asyncio.get_running_loop().time())
            self._step(row.session, row.lane, queue.RestoreEvent(made, first))
        return len(rows)

    def _look(self) -> None:
        if not self.draining:
            self._tasks.start(self.look_after())
            asyncio.get_running_loop().call_later(LOOK, self._look)

    async def look_after(self) -> int:
        """Give back rows that count as running though nobody runs them, at two looks in a row. Returns how many."""
        return await self._restore(await self._strays.give_back(), first=True)

    def hear(self, news: StoreNews) -> None:
        """Another node has changed something in the state we share."""
        if news.what in ("stopped", "unsaid"):
            self._dismisser.hear(news)
        elif news.what == "waiting":
            self._pump.kick(news.key, blind=True)
        else:
            self.peers.hear(news)
            self._pump.kick(CONTROL_LANE)  # a command for the node whose run it is may be anybody's now

    # the queue: one step of the pure part, and what it asks for

    def _step(
        self, session: str, lane: str, event: QueueEvent, message: InboxMessage | None = None
    ) -> tuple[Effect, ...]:
        effects = self._book.step(session, lane, event)
        for effect in effects:
            self._do(session, lane, effect, message)
        return effects

    def _do(self, session: str, lane: str, effect: Effect, message: InboxMessage | None) -> None:
        """Begin and Settle are done by `_start`, whose claim they are about."""
        run = self._running.get(session)
        match effect:
            case queue.HoldEffect(until):
                self._pump.hold(session, lane, until)
            case queue.SweepEffect():
                self._dismisser.begin(session)
            case queue.SteerEffect(ident, dropped, lines) if run is not None and message is not None:
                said = running.prepend_note(message.said, running.tell_overflow(dropped, lines))
                if not run.mailbox.push(said.message(self._clock.now()), ident):
                    self._step(session, lane, queue.MailboxCloseEvent())
            case queue.UnsteerEffect(ident) if run is not None:
                run.mailbox.drop(ident)
            case queue.AbortEffect(reason) if run is not None:
                self._dismisser.abort(run, reason)
            case _:
                pass

    # runs

    def _start(self, claim: RunClaim, message: InboxMessage | None = None) -> None:
        pass_crashpoint("claim.after")
        session, lane, message = claim.session, claim.lane, message or self._reader.reopen(claim)
        inbound = message.inbound
        self._pump.free(session)
        started = queue.ClaimEvent(claim.id, running.get_place(inbound), alone=claim.attempts > 1)
        (effect,) = self._step(session, lane, started)
        if isinstance(effect, queue.SettleEffect):
            self._tasks.start(self._unrun(claim, message, effect.verdict))
            return
        assert isinstance(effect, queue.BeginEffect)
        self.feeds.report_started(claim.id, session, inbound)
        mailbox = Mailbox(lambda ids: self._step(session, lane, queue.TakeEvent(ids)))
        run = ActiveRun(claim, message, effect, mailbox)
        self._running[session] = run
        if lane == CONTROL_LANE:
            self._controls.begin(claim, message)
        run.abort.on(lambda: self._closed(run))  # a run that is being stopped takes nothing more in
        agent = self._settings.agents.get(message.route.agent)
        if (stopped := self._dismisser.take_early(claim.id)) is not None:
            run.abort.set(stopped)
        run.task = asyncio.ensure_future(self._run(run))
        running.keep_deadline(run, agent.timeout if agent else DEADLINE, self.grace, self._abandon)

    async def _unrun(self, claim: RunClaim, message: InboxMessage, verdict: queue.QueueVerdict) -> None:
        """It was doomed while it was being claimed. Before a crash it may have begun, and left tool calls open."""
        try:
            end = await self._finisher.end(claim, message.inbound, verdict.outcome, verdict.note, tell=verdict.tell)
            self.feeds.report_ended(claim.id, end)
            self._step(claim.session, claim.lane, queue.VerdictEvent(claim.id))
            await self._turns.close_calls(message.route, claim.id, idle=True)
        finally:
            self.lanes.give(claim.lane)
            self._pump.kick(claim.lane)

    async def _run(self, run: ActiveRun) -> None:
        try:
            await self._turn(run)
        except asyncio.CancelledError:
            if not run.late:
                raise
            await self._broken(run, "the run did not end in time and was stopped")
        except Exception as exc:  # task boundary: the message ends with an explanation
            log.exception("message %s: the turn broke", run.claim.id)
            why = exc.message if isinstance(exc, StateError) else f"{type(exc).__name__}: {exc}"
            await self._broken(run, f"the turn broke: {why}")
        finally:
            self._finish(run)

    async def _turn(self, run: ActiveRun) -> None:
        claim, inbound, audience = run.claim, run.message.inbound, RunAudience(self.feeds, run, self._absorbed)
        for _ in range(ANSWERING):  # whoever handed it in is answered before the turn takes the loop
            await self._clock.sleep(0)
        if claim.lane == CONTROL_LANE:
            await self._controls.turn(claim, run.message, audience, run.abort)
        else:
            await self._controls.wait_done(claim.session, inbound, run.abort)
            rows = await self._store.list_waiting(claim.session) if run.begin.extra else []
            joined = running.join_waiting(run, rows, self._book, self._reader, now=self._clock.now())
            await self._turns.turn(joined, run.abort, run.mailbox, audience)

    async def _broken(self, run: ActiveRun, note: str) -> None:
        """A turn that could not end its claim: end it here, and count what really waits."""
        run.ending = True
        outcome: TurnOutcome = "failed" if run.mark is None else "aborted"  # by somebody, before it broke
        end = await self._finisher.end(run.claim, run.message.inbound, outcome, note, tell=run.mark is None)
        if end is not None:
            self.feeds.show(run.claim.id, end)
        try:
            waiting = await self._store.list_waiting(run.claim.session)
        except StateError:
            return
        self._step(run.claim.session, run.claim.lane, queue.RecountEvent(frozenset(row.id for row in waiting)))
        if run.late < 2:  # else it could not even be cancelled, and may still write
            await self._turns.close_calls(run.message.route, run.claim.id, idle=True)

    def _abandon(self, run: ActiveRun) -> None:
        ended = self._tasks.start(self._broken(run, "the run did not end in time and could not be stopped"))
        ended.add_done_callback(lambda _: self._finish(run))

    def _finish(self, run: ActiveRun) -> None:
        """The claim has ended: the lane is free."""
        if run.over:
            return
        run.over = True
        if run.timer is not None:
            run.timer.cancel()
        run.mailbox.close()
        session, lane = run.claim.session, run.claim.lane
        if self._running.get(session) is run:  # the next run of the session may have begun
            del self._running[session]
        self.lanes.give(lane)
        self.feeds.report_ended(run.claim.id)
        self._step(session, lane, queue.RunEndEvent(run.claim.id))
        self._pump.kick(lane)

    def _absorbed(self, run: ActiveRun, ids: tuple[str, ...]) -> None:
        """Steered messages are part of a run now: they wait no more, and their watchers watch it."""
        run.absorbed.update(ids)
        self._step(run.claim.session, run.claim.lane, queue.AbsorbEvent(ids))
        for ident in ids:
            self.feeds.merge(ident, run.claim.id)

    def _closed(self, run: ActiveRun) -> None:
        run.mailbox.close()
        if self._running.get(run.claim.session) is run:
            self._step(run.claim.session, run.claim.lane, queue.MailboxCloseEvent())

    # control

    @property
    def busy(self) -> tuple[str, ...]:
        """The sessions that have a run going."""
        return tuple(self._running)

    def running(self, session: str) -> bool:
        return session in self._running

    async def stop(
        self, session: str, reason: str, *, item: str = "", before: str = "", children: bool = True
    ) -> StopReport:
        """See the port."""
        report = await self._dismisser.stop_session(session, reason, item, before)
        if reason == "stop":  # a control's
            self._controls.note_stopped(session)
        if children and (report.ran or not item) and self._stop_children is not None:
            report = report._replace(children=await self._stop_children(session))
        return report

    async def wait(self, ident: str, timeout: float | None = None) -> InboxRow:
        """The row once its outcome is on disk, or as it stands after `timeout` seconds. Raises NotFound."""
        if (row := await self.feeds.outcome(ident, self._store, timeout)) is None:
            raise NotFound(f"no message {ident}")
        return row

    async def drain(self, seconds: float) -> None:
        """No new turns; running ones get `seconds`, then are checkpointed and handed back to the store."""
        self.draining = True
        self._pump.stop()
        if self._taking:  # what is claimed by then is a run, too
            await asyncio.wait(set(self._taking), timeout=ACCEPTING)
        await self._until_idle(seconds)
        self._finisher.stopped = True
        for run in tuple(self._running.values()):
            run.abort.set("drain")
        await self._until_idle(5)
        await self._dismisser.close(5)
        await self.peers.close()
        self._tasks.cancel()

    async def _until_idle(self, seconds: float) -> None:
        if tasks := [run.task for run in self._running.values() if run.task]:
            await asyncio.wait(tasks, timeout=seconds)
