"""How often something may happen in a minute. Pure: the time is handed in."""

from __future__ import annotations

from collections import deque

MINUTE = 60.0


class MinuteRate:
    """Counts what was let through, by key. The keys are ours (names of hooks), so they are few."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def step(self, key: str, allowed: int, now: float) -> float:
        """0 and counted when it may go ahead; else the seconds it has to wait."""
        times = self._times.setdefault(key, deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= allowed:
            return times[0] + MINUTE - now
        times.append(now)
        return 0.0
