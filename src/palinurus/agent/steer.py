"""Messages for a run in flight: pushed from the inbox, taken by the loop between its turns."""

from __future__ import annotations

from collections import deque

from palinurus.core.types.messages import User


class Mailbox:
    """In memory only: each message is also a queued row in the store until the run writes it down."""

    def __init__(self) -> None:
        self._items: deque[tuple[User, str]] = deque()
        self.open = True  # False once the loop has looked for the last time

    @property
    def waiting(self) -> bool:
        return bool(self._items)

    def push(self, message: User, item: str) -> bool:
        """False if the run no longer listens: the message stays queued and gets its own turn."""
        if self.open:
            self._items.append((message, item))
        return self.open

    def take(self) -> list[tuple[User, str]]:
        taken = list(self._items)
        self._items.clear()
        return taken

    def close(self) -> None:
        """Nothing is taken any more; what is left stays queued in the store."""
        self.open = False
        self._items.clear()
