"""What a client that lost its connection has missed: the latest events with their positions, bounded in count and
bytes. No I/O. A position means something only within one life of the gateway, which is what `epoch` names.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

RING_EVENTS = 4096
RING_BYTES = 32 * 1024 * 1024
RECONNECT_MOST = 1000  # connections remembered after their end
RECONNECT_SECONDS = 300.0


class ResumePoint(msgspec.Struct, frozen=True, rename="camel"):
    """Where a client was: hello-ok's `resume.epoch`, the `pos` of the last event it saw, and its old connection."""

    epoch: str
    pos: int
    conn_id: str = ""


class PastEvent(NamedTuple):
    """An event that was sent. `topics` None and `conn` "": to everybody (numbered)."""

    pos: int
    event: str
    payload: bytes
    topics: frozenset[str] | None = None
    conn: str = ""


class Ring:
    """The latest events. Positions start at 1 and have no holes."""

    def __init__(self, events: int = RING_EVENTS, size: int = RING_BYTES) -> None:
        self._past: deque[PastEvent] = deque()
        self._events = events
        self._limit = size
        self._size = 0
        self.pos = 0

    def add(self, event: str, payload: bytes, topics: frozenset[str] | None = None, conn: str = "") -> int:
        """Keep an event; returns its position."""
        self.pos += 1
        self._past.append(PastEvent(self.pos, event, payload, topics, conn))
        self._size += len(payload)
        while self._past and (len(self._past) > self._events or self._size > self._limit):
            self._size -= len(self._past.popleft().payload)
        return self.pos

    def since(self, pos: int) -> list[PastEvent] | None:
        """Everything after `pos`, oldest first; None when some of it is no longer here or was never."""
        if pos > self.pos or pos < 0:
            return None
        missing = self.pos - pos
        if missing > len(self._past):
            return None
        return [self._past[index] for index in range(len(self._past) - missing, len(self._past))]


class ClosedConnection(NamedTuple):
    """A connection that ended: whose it was and what it followed."""

    owner: tuple[str, str]  # principal, device
    topics: frozenset[str]
    names: frozenset[str]  # its id, and those it had taken over
    at: float


class ReconnectWindow:
    """Connections of the last minutes, so that their owner can take them up again."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._left: OrderedDict[str, ClosedConnection] = OrderedDict()

    def add(self, conn: str, owner: tuple[str, str], topics: frozenset[str], names: frozenset[str]) -> None:
        """Remember one that ended."""
        self._left[conn] = ClosedConnection(owner, topics, names, self._now())
        while self._left:
            first = next(iter(self._left.values()))
            if len(self._left) <= RECONNECT_MOST and first.at > self._now() - RECONNECT_SECONDS:
                return
            self._left.popitem(last=False)

    def following(self, topics: frozenset[str]) -> frozenset[str]:
        """Those that followed one of `topics` and may still come back."""
        since = self._now() - RECONNECT_SECONDS
        return frozenset(
            conn for conn, left in self._left.items() if left.at > since and not topics.isdisjoint(left.topics)
        )

    def take(self, conn: str, owner: tuple[str, str]) -> ClosedConnection | None:
        """What it was, if it is this owner's and not too long ago. Given once."""
        left = self._left.get(conn)
        if left is None or left.owner != owner or left.at <= self._now() - RECONNECT_SECONDS:
            return None
        return self._left.pop(conn)
