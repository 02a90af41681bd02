"""From accepted rows to runs: one per session, a cap per lane, nothing lost between.

A run's task owns one claim from start to settlement. Whatever goes wrong in it, the claim ends in exactly one
of: settled, or handed back (drain), or left to the next start (the process died).
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from palinurus.abort import Abort
from palinurus.agent.steer import Mailbox
from palinurus.agent.turn import Turns
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.events import Event
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.errors import Draining, QueueFull
from palinurus.inbox.accept import item_for
from palinurus.inbox.feed import Feeds, Sink
from palinurus.inbox.lanes import Lanes
from palinurus.inbox.queue import mode
from palinurus.points import point
from palinurus.store.port import Accepted, Claim, ItemRow, Store

log = logging.getLogger(__name__)

_decoder = msgspec.json.Decoder(Inbound)


def _stored(claim: Claim) -> Inbound:
    """The message as it was accepted; without text if the row cannot be read (the turn explains that)."""
    try:
        return _decoder.decode(claim.body)
    except msgspec.DecodeError as exc:
        log.error("message %s: the stored row cannot be read: %s", claim.id, exc)
        return Inbound(Target("unknown"), Sender(""), "", "", claim.at, push=False)


class Running:
    """A session's run in flight."""

    __slots__ = ("abort", "claim", "inbound", "mailbox", "task")

    def __init__(self, claim: Claim, inbound: Inbound) -> None:
        self.claim = claim
        self.inbound = inbound
        self.abort = Abort()
        self.mailbox = Mailbox()
        self.task: asyncio.Task[None] | None = None


class Crowd:
    """The audience of one run: the sinks of its message, and of those that were steered into it."""

    def __init__(self, dispatcher: Dispatcher, claim: Claim) -> None:
        self._dispatcher = dispatcher
        self._claim = claim
        self._sinks = dispatcher.feeds.sinks(claim.id)

    def show(self, event: Event) -> None:
        for sink in self._sinks:
            sink(event)

    def absorbed(self, items: tuple[str, ...]) -> None:
        self._dispatcher.absorbed(self._claim, items)


class Dispatcher:
    """Accepts, starts, steers, stops."""

    def __init__(self, settings: Settings, store: Store, turns: Turns, clock: Clock) -> None:
        self._settings = settings
        self._store = store
        self._turns = turns
        self._clock = clock
        self._running: dict[str, Running] = {}
        self._waiting: dict[str, int] = {}  # messages queued by session
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        lanes = settings.lanes
        self.lanes = Lanes({"main": lanes.main, "subagent": lanes.subagent, "cron": lanes.cron})
        self.feeds = Feeds()
        self.draining = False

    async def submit(self, inbound: Inbound, sink: Sink | None = None) -> Accepted:
        """Durable when it returns. Raises Draining, QueueFull, BadRequest, DiskFull."""
        if self.draining:
            raise Draining("the gateway is stopping and takes no new messages", fix="try again in a moment")
        item, where = item_for(inbound, self._settings, self._clock)
        cap = self._settings.lanes.queue_cap
        if self._waiting.get(item.session, 0) >= cap:
            raise QueueFull(f"{cap} messages already wait in this session", fix="wait for answers, or stop the run")
        if sink is not None:
            self.feeds.watch(item.id, sink)
        slot = item.session not in self._running and self.lanes.take(where.lane)
        try:
            accepted = await self._store.accept(item, claim=slot)
        except BaseException:
            self._unslot(slot, where.lane)
            raise
        if accepted.claim is not None:
            self._start(accepted.claim)
        else:
            self._unslot(slot, where.lane)
            if not accepted.duplicate:
                self._queue(accepted.id, inbound, item.session, where.lane)
            elif sink is not None:
                self.feeds.merge(item.id, accepted.id)
        return accepted

    def _unslot(self, slot: bool, lane: str) -> None:
        if slot:
            self.lanes.give(lane)

    def _queue(self, ident: str, inbound: Inbound, session: str, lane: str) -> None:
        self.lanes.queued(lane)
        self._waiting[session] = self._waiting.get(session, 0) + 1
        run = self._running.get(session)
        if run is not None and mode(inbound, run.inbound) == "steer":
            run.mailbox.push(inbound.message(self._clock.now()), ident)
        elif run is None:
            self._pump(lane)

    async def resume(self) -> int:
        """At start: hand what a crash left behind back to the lanes. Returns how many messages wait."""
        rows = await self._store.recover()
        for row in rows:
            self.lanes.queued(row.lane)
            self._waiting[row.session] = self._waiting.get(row.session, 0) + 1
        for lane in {row.lane for row in rows}:
            self._pump(lane)
        return len(rows)

    def _pump(self, lane: str) -> None:
        """Start waiting messages while slots last. One task a lane; a second call only asks it to look again."""
        if self.draining or not self.lanes.backlog(lane):
            return
        self._again.add(lane)
        if lane not in self._pumps:
            self._pumps[lane] = asyncio.ensure_future(self._fill(lane))

    async def _fill(self, lane: str) -> None:
        try:
            while lane in self._again and not self.draining:
                self._again.discard(lane)
                while self.lanes.backlog(lane) and self.lanes.take(lane):
                    if not await self._next(lane):
                        break
        except Exception:  # task boundary: logged; the rest goes on
            log.exception("lane %s: cannot take the next message", lane)
        finally:
            del self._pumps[lane]

    async def _next(self, lane: str) -> bool:
        """Use the slot just taken for the oldest message that may start; give it back if there is none."""
        claim = None
        try:
            claim = await self._store.claim(lane)
        finally:
            if claim is None:
                self.lanes.give(lane)
        if claim is None:
            return False
        self.lanes.queued(lane, -1)
        self._unwait(claim.session)
        self._start(claim)
        return True

    def _unwait(self, session: str) -> None:
        left = self._waiting.get(session, 0) - 1
        if left > 0:
            self._waiting[session] = left
        else:
            self._waiting.pop(session, None)

    def _start(self, claim: Claim) -> None:
        point("claim.after")
        run = Running(claim, _stored(claim))
        self._running[claim.session] = run
        run.task = asyncio.ensure_future(self._run(run))

    async def _run(self, run: Running) -> None:
        claim = run.claim
        try:
            await self._turns.turn(claim, run.inbound, run.abort, run.mailbox, Crowd(self, claim))
        except Exception:  # task boundary: logged; the rest goes on
            log.exception("message %s: the turn could not be ended", claim.id)
        finally:
            run.mailbox.close()
            if self._running.get(claim.session) is run:  # the next run of the session may have begun
                del self._running[claim.session]
            self.lanes.give(claim.lane)
            self.feeds.ended(claim.id)
            self._pump(claim.lane)

    def absorbed(self, claim: Claim, items: tuple[str, ...]) -> None:
        """Steered messages are part of a run now: they wait no more, and their watchers watch it."""
        for item in items:
            self.lanes.queued(claim.lane, -1)
            self._unwait(claim.session)
            self.feeds.merge(item, claim.id)

    def abort(self, session: str, reason: str) -> bool:
        """Stop the run of a session. False if there is none."""
        run = self._running.get(session)
        if run is not None:
            run.abort.set(reason)
        return run is not None

    async def wait(self, ident: str) -> ItemRow | None:
        """The row once its outcome is on disk; follows a message that became part of another's run."""
        end = self.feeds.end(ident)
        row = await self._store.item(ident)
        while row is not None and row.state != "done":
            if row.state == "absorbed":
                self.feeds.merge(ident, row.absorbed_by)
                ident = row.absorbed_by
                row = await self._store.item(ident)
                continue
            await end
            end = self.feeds.end(ident)
            row = await self._store.item(ident)
        return row

    async def drain(self, seconds: float) -> None:
        """No new turns; running ones get `seconds`, then are checkpointed and handed back to the store."""
        self.draining = True
        tasks = [run.task for run in self._running.values() if run.task]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for run in tuple(self._running.values()):
            run.abort.set("drain")
        tasks = [run.task for run in self._running.values() if run.task]
        if tasks:
            await asyncio.wait(tasks, timeout=5)
