"""Slots: how many runs of each lane may go on at once, and which lanes have work waiting. In memory."""

from __future__ import annotations

from collections.abc import Mapping


class Lanes:
    """Counts only; which message is next is the store's to say."""

    def __init__(self, caps: Mapping[str, int]) -> None:
        self._caps = dict(caps)
        self._used: dict[str, int] = {}
        self._backlog: dict[str, int] = {}

    def take(self, lane: str) -> bool:
        """Reserve a slot. A lane that has no cap of its own gets one slot."""
        if not self.room(lane):
            return False
        self._used[lane] = self._used.get(lane, 0) + 1
        return True

    def room(self, lane: str) -> bool:
        """Is a slot free?"""
        return self._used.get(lane, 0) < self._caps.get(lane, 1)

    def give(self, lane: str) -> None:
        self._used[lane] -= 1

    def add_backlog(self, lane: str, by: int = 1) -> None:
        """Messages began (or, negative, ceased) to wait in this lane."""
        self._backlog[lane] = max(0, self._backlog.get(lane, 0) + by)

    def backlog(self, lane: str) -> int:
        return self._backlog.get(lane, 0)

    @property
    def busy(self) -> dict[str, int]:
        """Runs by lane."""
        return {lane: used for lane, used in self._used.items() if used}
