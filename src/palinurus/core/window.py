"""How often something happened lately: one sliding window per key, bounded in keys. Pure; time is handed in."""

from __future__ import annotations

from collections import OrderedDict, deque


class SlidingWindow:
    """At most `most` per `seconds` for each key. Knows the `keys` that came last; older ones are forgotten."""

    def __init__(self, most: int, seconds: float, keys: int = 10_000) -> None:
        self._most = most
        self._seconds = seconds
        self._keys = keys
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, key: str, now: float, most: int | None = None) -> float:
        """Seconds until the next one is within the limit; 0 if it is now. Counts nothing. `most`: this key's own."""
        times = self._times.get(key)
        if times is None:
            return 0.0
        while times and times[0] <= now - self._seconds:
            times.popleft()
        return 0.0 if len(times) < (self._most if most is None else most) else times[0] + self._seconds - now

    def count(self, key: str, now: float, most: int | None = None) -> float:
        """Count one that happened now. Returns what `wait` said before: above 0 it was one too many."""
        late = self.wait(key, now, most)
        times = self._times.setdefault(key, deque())
        self._times.move_to_end(key)
        if not late:
            times.append(now)
        if len(self._times) > self._keys:
            self._times.popitem(last=False)
        return late

    def forget(self, key: str) -> None:
        """As if nothing of the key had happened."""
        self._times.pop(key, None)
