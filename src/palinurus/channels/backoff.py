"""How long to wait before the next try. Twice as long each time, with jitter, so that not all come back at once."""

from __future__ import annotations

import random

FIRST_DELAY, LONGEST_DELAY = 0.25, 60.0  # seconds


class Backoff:
    """`wait` gives the seconds before the next try; `reset` when one went well."""

    def __init__(self, first: float = FIRST_DELAY, longest: float = LONGEST_DELAY) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next_delay(self) -> float:
        now, self._next = self._next, min(self._next * 2, self._longest)
        return now * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._next = self._first
