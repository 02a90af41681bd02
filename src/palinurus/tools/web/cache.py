"""What was fetched a moment ago, for a while. In memory only: a restart forgets it. Bounded by count and characters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

COUNT = 100
SIZE = 4_000_000  # characters of all entries together

T = TypeVar("T")


class FetchCache(Generic[T]):
    """`seconds` is how long an entry lives; 0 keeps nothing."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, int, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """The entry while it is fresh."""
        found = self._kept.get(key)
        if found is None or found[0] <= self._clock():
            self._kept.pop(key, None)
            return None
        self._kept.move_to_end(key)
        return found[2]

    def put(self, key: Hashable, value: T, size: int) -> None:
        if self._seconds <= 0 or size > SIZE // 4:
            return
        self._kept.pop(key, None)
        self._kept[key] = (self._clock() + self._seconds, size, value)
        while len(self._kept) > COUNT or sum(one[1] for one in self._kept.values()) > SIZE:
            self._kept.popitem(last=False)
