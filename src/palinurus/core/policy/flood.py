"""Too much of one sender: counts in a sliding window, with a rest after it overflowed. Pure: the time is handed in.

Senders are strangers and choose their ids, so only so many are remembered; the longest silent goes first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Literal, TypeAlias

FloodStep: TypeAlias = Literal["fine", "first", "more"]  # first: the one that was too much
MAX_SENDERS = 4096


class _Count:
    def __init__(self) -> None:
        self.times: deque[float] = deque()
        self.until = 0.0


class FloodGuard:
    """`most` in `window` seconds, by key; then nothing for `rest` seconds."""

    def __init__(self, known: int = MAX_SENDERS) -> None:
        self._known = known
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    def step(self, key: str, now: float, most: int, window: float = 60.0, rest: float = 60.0) -> FloodStep:
        """Count one. `first` once for each overflow, so that somebody can be told."""
        count = self._counts.setdefault(key, _Count())
        self._counts.move_to_end(key)
        if len(self._counts) > self._known:
            self._counts.popitem(last=False)
        if now < count.until:
            return "more"
        while count.times and count.times[0] <= now - window:
            count.times.popleft()
        if len(count.times) >= most:
            count.times.clear()
            count.until = now + rest
            return "first"
        count.times.append(now)
        return "fine"

    def full(self, key: str, now: float, most: int, window: float = 60.0) -> bool:
        """Would one more be too much? Counts nothing."""
        count = self._counts.get(key)
        if count is None:
            return most <= 0
        return now < count.until or sum(one > now - window for one in count.times) >= most

    def forget(self, prefix: str) -> None:
        """Begin anew for every key that starts like this."""
        for key in [key for key in self._counts if key.startswith(prefix)]:
            del self._counts[key]
