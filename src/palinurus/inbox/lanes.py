"""Slots: how many runs of each lane may go on at once, and which lanes have work waiting. In memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from palinurus.inbox.message import CONTROL_LANE, InboxMessage, MessageReader
from palinurus.inbox.queue import IDLE, Effect, HurryEvent, MoveEvent, QueueEvent, QueueRow, SessionQueue, step_queue
from palinurus.store.port import RunClaim, Store
from palinurus.tasks import TaskSet

# From waiting rows to claims: takes the oldest that may start while slots last. The store says which one that is.
#
# Knows slots, and sessions that are held for a moment; knows nothing of what a claim is for.

log = logging.getLogger(__name__)

AGAIN = 1.0  # seconds after the store failed


class LanePump:
    """`start` gets every claim, with the slot that was taken for it. `serves`: see `Store.claim`."""

    def __init__(
        self, store: Store, lanes: Lanes, start: Callable[[RunClaim], None], serves: Sequence[str] | None = None
    ) -> None:
        self._store = store
        self._lanes = lanes
        self._start = start
        self.serves = serves
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._blind: set[str] = set()  # lanes that are looked into although nothing is known to wait there
        self._held: set[str] = set()  # sessions that the store may hold for us
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._changes = TaskSet("holding a session")
        self._stopped = False

    def serves_session(self, session: str) -> bool:
        """May it run on this node? A command is done where its conversation is."""
        key = session.partition(":")[2] if session.startswith(CONTROL_LANE) else session
        return self.serves is None or key.startswith(tuple(self.serves))

    def kick(self, lane: str, *, blind: bool = False) -> None:
        """Start waiting messages while slots last. One task a lane; a second call only asks it to look again. `blind`:
        also where we know of none."""
        if self._stopped or not (blind or self._lanes.backlog(lane)):
            return
        if blind:
            self._blind.add(lane)
        if lane in self._tasks:
            self._again.add(lane)
        elif self._lanes.room(lane):  # if not, whoever gives a slot back kicks
            self._again.add(lane)
            self._tasks[lane] = asyncio.ensure_future(self._fill(lane))

    def note_held(self, session: str) -> None:
        """The store holds it since a message of it was accepted; `hold` says how long that is right."""
        self._held.add(session)

    def hold(self, session: str, lane: str, until: float) -> None:
        """Start nothing of the session before `until` (the loop's time)."""
        loop = asyncio.get_running_loop()
        left = until - loop.time()
        self.free(session)
        if self._stopped:
            return
        if left > 0:
            self._held.add(session)
            self._timers[session] = loop.call_at(until, self._due, session, lane)
            self._changes.start(self._store.hold(session, left))
        elif session in self._held:
            self._due(session, lane)
        else:
            self.kick(lane)

    def free(self, session: str) -> None:
        """Nothing is waited for (any more). The store may hold it all the same: another message came meanwhile."""
        timer = self._timers.pop(session, None)
        if timer is not None:
            timer.cancel()

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopped = True
        self._held.clear()
        for session in tuple(self._timers):
            self.free(session)

    def _due(self, session: str, lane: str) -> None:
        self.free(session)
        self._held.discard(session)
        self._changes.start(self._release(session, lane))

    async def _release(self, session: str, lane: str) -> None:
        try:
            await self._store.hold(session, 0)
        finally:
            self.kick(lane)

    async def _fill(self, lane: str) -> None:
        try:
            while lane in self._again and not self._stopped:
                self._again.discard(lane)
                while (slots := self._take_slots(lane)) and await self._start_some(lane, slots):
                    pass
                self._blind.discard(lane)
        except Exception:  # task boundary: logged; the rest goes on
            log.exception("lane %s: cannot take the next message; again in %g s", lane, AGAIN)
            asyncio.get_running_loop().call_later(AGAIN, self.kick, lane)
        finally:
            del self._tasks[lane]

    def _take_slots(self, lane: str) -> int:
        return self._lanes.take_all(lane) or int(lane in self._blind and self._lanes.take(lane))

    async def _start_some(self, lane: str, slots: int) -> bool:
        """Use the slots just taken for the oldest messages that may start; those too many are given back. True if all
        were used: there may be more."""
        claims: list[RunClaim] = []
        try:
            await self._changes.settle()  # a hold that is on its way comes first
            claims = await self._store.claim(lane, slots, serves=self.serves)
        finally:
            for _ in range(slots - len(claims)):
                self._lanes.give(lane)
        for claim in claims:
            self._start(claim)
        return len(claims) == slots


# The queues of all sessions, as they are now. In memory; what waits is on disk too.
#
# Every change is one step of the pure part (`queue.py`); the counts of the lanes follow from it.


class SessionQueues:
    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._queues: dict[str, SessionQueue] = {}
        self._lane: dict[str, str] = {}

    def __contains__(self, session: str) -> bool:
        """Is something running or waiting?"""
        return session in self._queues

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def state(self, session: str) -> SessionQueue:
        return self._queues.get(session, IDLE)

    def lane(self, session: str) -> str:
        """Of a session in the book (of another: any)."""
        return self._lane.get(session, "main")

    def step(self, session: str, lane: str, event: QueueEvent) -> tuple[Effect, ...]:
        """Let it happen. Returns what is to be done."""
        before = self._queues.get(session, IDLE)
        after, effects = step_queue(before, event)
        if after is before:
            return effects
        self._lanes.add_backlog(lane, len(after.rows) - len(before.rows))
        if after.run or after.rows or after.dropped:
            self._queues[session], self._lane[session] = after, lane
        else:
            self._queues.pop(session, None)
            self._lane.pop(session, None)
        return effects

    def row(self, session: str, ident: str) -> QueueRow | None:
        return next((r for r in self.state(session).rows if r.id == ident), None)

    def find(self, ident: str) -> tuple[str, QueueRow] | None:
        """The session in which a message waits."""
        found = ((session, self.row(session, ident)) for session in self._queues)
        return next(((session, row) for session, row in found if row is not None), None)

    def list_doomed(self, session: str) -> list[QueueRow]:
        """Messages that shall not run, and whose end is not known to be on disk."""
        return [row for row in self.state(session).rows if row.state == "doomed"]


# What waits, as whoever wrote it may still change it. An order is on disk before it is told. Being read by the run at
# once is a wish: killed before the run has read it, the message waits again, as it was sent.


class WaitingMessages:
    """Implements `services.inbox.WaitingPort`. `step` is the dispatcher's."""

    def __init__(
        self,
        store: Store,
        book: SessionQueues,
        reader: MessageReader,
        step: Callable[[str, str, QueueEvent, InboxMessage | None], object],
        tickets: MutableMapping[str, asyncio.Lock],
        coming: Container[str],
    ) -> None:
        self._store = store
        self._book = book
        self._reader = reader
        self._step = step
        self._tickets = tickets
        self._coming = coming

    @asynccontextmanager
    async def reserve(self, session: str) -> AsyncIterator[bool]:
        """See the port."""
        async with self._tickets.setdefault(session, asyncio.Lock()):
            yield session not in self._book and session not in self._coming

    async def move(self, session: str, ids: Sequence[str]) -> list[str]:
        """See the port."""
        order = await self._store.rearrange(session, ids)
        self._step(session, self._book.lane(session), MoveEvent(tuple(order)), None)
        return order

    async def hurry(self, item: str) -> bool:
        """See the port."""
        row = await self._store.item(item)
        message = self._reader.reopen(row) if row is not None and row.state == "queued" else None
        if row is None or message is None or message.control or message.inbound.files:
            return False  # files are looked at before a turn begins
        self._step(row.session, row.lane, HurryEvent(row.id), message)
        return self.get_place(row.session, row.id) == "run"

    def get_place(self, session: str, item: str) -> Literal["", "run", "line"]:
        """See the port."""
        known = self._book.row(session, item)
        return "" if known is None else "run" if known.state in ("handed", "taken") else "line"


class Lanes:
    """Counts only; which message is next is the store's to say."""

    def __init__(self, caps: Mapping[str, int]) -> None:
        self._caps = dict(caps)
        self._used: dict[str, int] = {}
        self._backlog: dict[str, int] = {}

    def take(self, lane: str) -> bool:
        """Reserve a slot. A lane that has no cap of its own gets one slot."""
        if not self.room(lane):
            return False
        self._used[lane] = self._used.get(lane, 0) + 1
        return True

    def take_all(self, lane: str) -> int:
        """Reserve as many slots as are free and can be used. Returns how many."""
        found = min(self._caps.get(lane, 1) - self._used.get(lane, 0), self.backlog(lane))
        if found > 0:
            self._used[lane] = self._used.get(lane, 0) + found
        return max(0, found)

    def room(self, lane: str) -> bool:
        """Is a slot free?"""
        return self._used.get(lane, 0) < self._caps.get(lane, 1)

    def give(self, lane: str) -> None:
        self._used[lane] -= 1

    def add_backlog(self, lane: str, by: int = 1) -> None:
        """Messages began (or, negative, ceased) to wait in this lane."""
        self._backlog[lane] = max(0, self._backlog.get(lane, 0) + by)

    def backlog(self, lane: str) -> int:
        return self._backlog.get(lane, 0)

    @property
    def busy(self) -> dict[str, int]:
        """Runs by lane."""
        return {lane: used for lane, used in self._used.items() if used}
