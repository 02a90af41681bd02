"""A clock that stands still until a test moves it. Knows nothing of real time: same script, same order, always."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Generator

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class LoopTick:
    """Awaiting it lets every other task that can run do so once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class FakeClock:
    """Implements `palinurus.clock.Clock`. `advance` wakes sleepers in the order in which they are due."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start = start_ms
        self._passed = 0.0
        self._jumped = 0
        self._suspended = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self.slept: list[float] = []  # every sleep ever asked for, in order

    def now(self) -> int:
        """Wall clock in milliseconds: start, plus what was advanced, plus jumps."""
        return self._start + self._jumped + round(self._passed * 1000)

    def monotonic(self) -> float:
        """Seconds advanced so far, as if the machine had run for a while before."""
        return 1000.0 + self._passed

    def boottime(self) -> float:
        """As `monotonic`, with the time that the machine slept."""
        return self.monotonic() + self._suspended

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: others see the time pass, nobody here does. Wakes nobody."""
        self._suspended += seconds
        self.jump(seconds)

    async def sleep(self, seconds: float) -> None:
        """Return once `advance` has moved the clock far enough; sleep(0) only lets others run."""
        self.slept.append(seconds)
        if seconds <= 0:
            await LoopTick()
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), future))
        await future

    @property
    def sleeper_count(self) -> int:
        """How many tasks wait on this clock."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def jump(self, seconds: float) -> None:
        """Move the wall clock only (NTP, a suspended laptop); may go back. Wakes nobody."""
        self._jumped += round(seconds * 1000)

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass. Each sleeper wakes at its own time and runs until it waits again."""
        goal = self._passed + seconds
        await run_ready_tasks()
        while self._sleepers and self._sleepers[0][0] <= goal:
            due, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._passed = max(self._passed, due)
            future.set_result(None)
            await run_ready_tasks()
        self._passed = goal
        await run_ready_tasks()

    async def until_sleeping(self, count: int = 1, turns: int = 1000) -> None:
        """Let others run until `count` tasks sleep here. Raises TimeoutError if that never happens."""
        for _ in range(turns):
            if self.sleeper_count >= count:
                return
            await LoopTick()
        raise TimeoutError(f"{self.sleeper_count} of {count} tasks went to sleep")


async def run_ready_tasks(turns: int = 20) -> None:
    """Let every task that can run do so. Work in other threads is not waited for."""
    for _ in range(turns):
        await LoopTick()
