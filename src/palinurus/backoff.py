"""How long to wait before the next try: twice as long each time, with jitter, so that not all come back at once."""

from __future__ import annotations

import random

FIRST_DELAY, LONGEST_DELAY = 0.25, 60.0  # seconds


class Backoff:
    """`next_delay` gives the seconds before the next try; `reset` when one went well."""

    def __init__(self, first: float = FIRST_DELAY, longest: float = LONGEST_DELAY) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next_delay(self) -> float:
        """Seconds; between half of the step and the whole of it."""
        now, self._next = self._next, min(self._next * 2, self._longest)
        return now * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """The next try waits as briefly as the first."""
        self._next = self._first
