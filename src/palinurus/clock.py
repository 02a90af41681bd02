"""Time, in one place, so that tests can own it. Nothing else calls time.* or asyncio.sleep."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # elsewhere than on Linux that one counts sleep


class Clock(Protocol):
    """What the program may know about time."""

    def now(self) -> int:
        """Wall clock, milliseconds since the epoch. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back. For intervals and time-outs."""
        ...

    def boottime(self) -> float:
        """The same with the time in which the machine slept. For what others measure meanwhile: leases."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; cancellable."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
