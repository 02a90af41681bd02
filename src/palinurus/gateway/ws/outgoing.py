"""What waits to be written to one client, in pieces, so that clients share a payload's bytes. No I/O.

A client that does not read loses droppable events first; when even the others no longer fit, it is told to be closed.
"""

from __future__ import annotations

import asyncio
from collections import deque

from palinurus.gateway.ws import frames

DROP_ABOVE = 1024 * 1024  # bytes waiting above which droppable events are left out


class OutgoingFrames:
    """A queue of frames. `wake` is set when there is something to do."""

    def __init__(self, limit: int = frames.BUFFERED, drop: int = DROP_ABOVE) -> None:
        self.wake = asyncio.Event()
        self.size = 0
        self.dropped = 0
        self._limit = limit
        self._drop = drop
        self._waiting: deque[tuple[bytes, ...]] = deque()

    def add(self, pieces: tuple[bytes, ...], behind: int, droppable: bool = False) -> bool:
        """Queue a frame; `behind` is what the transport still holds. False when the client is too slow."""
        waiting = self.size + behind
        if droppable and waiting > self._drop:
            self.dropped += 1
            return True
        size = sum(map(len, pieces))
        if waiting + size > self._limit and waiting:
            return False
        self._waiting.append(pieces)
        self.size += size
        self.wake.set()
        return True

    def take(self) -> bytes | None:
        """The next frame as one piece; None when nothing waits."""
        if not self._waiting:
            self.wake.clear()
            return None
        frame = b"".join(self._waiting.popleft())
        self.size -= len(frame)
        return frame

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self.size = 0
