"""How long a node may believe that what it runs is its own.

The database gives a lease by its own clock. The node counts it from before it asked, by a clock that goes on while the
machine sleeps, and trusts only the first part of it: whoever starts something (a tool, a call, a message to a chat)
asks `confirm` first. What the node cannot do itself, because it is stopped, its guard does (guard.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys

from palinurus.clock import Clock
from palinurus.errors import StateBroken
from palinurus.store.postgres import guard

log = logging.getLogger(__name__)

RENEW = 0.25  # of a lease: when it is asked for again
TRY = 0.33  # … how long the database may take to answer that
TRUST = 0.8  # … how long the node starts anything without a new word
KILL = 0.9  # … when its guard ends it, so that nothing of it goes on when others take over
LATER = 0.05  # seconds after another node's lease
START = 60.0  # seconds that the lease of a start is at least: it has run nothing yet, and a busy machine is slow


class NodeLease:
    """`extend` is told of each renewal, `end` that there will be none."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds = seconds
        self._clock = clock
        self._began = clock.boottime()
        self._span = seconds  # how long it is now
        self._pause = seconds * RENEW
        self._lost: StateBroken | None = None
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def left(self) -> float:
        """Seconds for which it is trusted."""
        return self._began + TRUST * self._span - self._clock.boottime()

    @property
    def patience(self) -> float:
        """Seconds that a try to renew it may take."""
        return max(0.2, TRY * self.seconds)

    def begin(self, began: float, seconds: float) -> None:
        """The node has joined for so long; asked for at `began`."""
        self._began, self._span = began, seconds

    async def settle(self) -> None:
        """Before the node runs anything: return when its lease is no longer that of a start. Raises StateBroken."""
        while self._lost is None and self._span != self.seconds:
            self._hurry.set()
            await self._changed.wait()
        await self.confirm()

    def extend(self, began: float, soon: float | None = None) -> None:
        """It was renewed; asked for at `began`. `soon`: seconds after which another node's may be over."""
        self._began, self._span = began, self.seconds
        usual = self.seconds * RENEW
        self._pause = usual if soon is None else min(usual, max(soon, 0.0) + LATER)
        self._beat()
        self._tell()

    def end(self, why: StateBroken) -> None:
        """It is over, and others know."""
        self._lost = why
        self._tell()

    async def confirm(self) -> None:
        """Return when it is certain that what runs here is ours: mostly at once. Raises StateBroken."""
        while self._lost is None and self.left <= 0:
            self._hurry.set()
            await self._changed.wait()
        if self._lost is not None:
            raise StateBroken(self._lost.message, fix=self._lost.fix)

    async def wait_due(self) -> None:
        """Return when it should be renewed: in a while, or now if somebody waits for that."""
        pause = asyncio.ensure_future(self._clock.sleep(self._pause))
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait((pause, hurry), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            hurry.cancel()
            self._hurry.clear()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # --- the guard

    def start_guard(self) -> None:
        """Have a process see to it that this one ends with its lease, however it is stopped."""
        line = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid())]
        try:  # without our environment: it needs nothing of it
            self._guard = subprocess.Popen(line, stdin=subprocess.PIPE, start_new_session=True, cwd="/", env={})
        except OSError as error:
            log.warning("no guard for this node's lease: %s", error)
            return
        assert self._guard.stdin is not None
        os.set_blocking(self._guard.stdin.fileno(), False)
        self._beat()

    def _beat(self) -> None:
        if self._guard is None or self._guard.stdin is None:
            return
        try:
            os.write(self._guard.stdin.fileno(), b"%.3f\n" % (self._began + KILL * self._span))
        except BlockingIOError:
            log.warning("the guard of this node's lease does not listen")
        except OSError:  # somebody ended it
            self._guard.wait()
            self.start_guard()

    async def close(self) -> None:
        """The node leaves by itself: it needs no guard any more."""
        held, self._guard = self._guard, None
        if held is not None and held.stdin is not None:
            held.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(held.wait, 5.0)
