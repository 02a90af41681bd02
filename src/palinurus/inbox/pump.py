"""From waiting rows to claims: takes the oldest that may start while slots last. The store says which one that is.

Knows slots, and sessions that are held for a moment; knows nothing of what a claim is for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from palinurus.inbox.lanes import Lanes
from palinurus.store.port import RunClaim, Store

log = logging.getLogger(__name__)

AGAIN = 1.0  # seconds after the store failed


class LanePump:
    """`start` gets every claim, with the slot that was taken for it."""

    def __init__(self, store: Store, lanes: Lanes, start: Callable[[RunClaim], None]) -> None:
        self._store = store
        self._lanes = lanes
        self._start = start
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._held: dict[str, asyncio.TimerHandle] = {}
        self._stopped = False

    def kick(self, lane: str) -> None:
        """Start waiting messages while slots last. One task a lane; a second call only asks it to look again."""
        if self._stopped or not self._lanes.backlog(lane):
            return
        if lane in self._tasks:
            self._again.add(lane)
        elif self._lanes.room(lane):  # if not, whoever gives a slot back kicks
            self._again.add(lane)
            self._tasks[lane] = asyncio.ensure_future(self._fill(lane))

    def hold(self, session: str, lane: str, until: float) -> None:
        """Start nothing of the session before `until` (the loop's time)."""
        self.free(session)
        loop = asyncio.get_running_loop()
        if self._stopped:
            return
        if until <= loop.time():
            self.kick(lane)
        else:
            self._held[session] = loop.call_at(until, self._due, session, lane)

    def free(self, session: str) -> None:
        """No hold (any more)."""
        timer = self._held.pop(session, None)
        if timer is not None:
            timer.cancel()

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopped = True
        for session in tuple(self._held):
            self.free(session)

    def _due(self, session: str, lane: str) -> None:
        self.free(session)
        self.kick(lane)

    async def _fill(self, lane: str) -> None:
        try:
            while lane in self._again and not self._stopped:
                self._again.discard(lane)
                while self._lanes.backlog(lane) and self._lanes.take(lane):
                    if not await self._next(lane):
                        break
        except Exception:  # task boundary: logged; the rest goes on
            log.exception("lane %s: cannot take the next message; again in %g s", lane, AGAIN)
            asyncio.get_running_loop().call_later(AGAIN, self.kick, lane)
        finally:
            del self._tasks[lane]

    async def _next(self, lane: str) -> bool:
        """Use the slot just taken for the oldest message that may start; give it back if there is none."""
        claim = None
        try:
            claim = await self._store.claim(lane, tuple(self._held))
        finally:
            if claim is None:
                self._lanes.give(lane)
        if claim is None:
            return False
        self._start(claim)
        return True
