"""Messages for a run in flight: pushed from the inbox, taken by the loop between its turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from palinurus.core.types.messages import UserMessage


class Mailbox:
    """In memory only: each message is also a queued row in the store until the run writes it down.

    `told` hears which messages the loop has taken, in the same breath: from then on nobody can have them back.
    """

    def __init__(self, told: Callable[[tuple[str, ...]], object] | None = None) -> None:
        self._items: deque[tuple[UserMessage, str]] = deque()
        self._told = told
        self.open = True  # False once the loop has looked for the last time

    @property
    def waiting(self) -> bool:
        return bool(self._items)

    def push(self, message: UserMessage, item: str) -> bool:
        """False if the run no longer listens: the message stays queued and gets its own turn."""
        if self.open:
            self._items.append((message, item))
        return self.open

    def begin(self, messages: list[tuple[UserMessage, str]]) -> None:
        """Messages that came before all that were pushed."""
        if self.open:
            self._items.extendleft(reversed(messages))

    def drop(self, item: str) -> bool:
        """Take a message back. False if it is not here any more."""
        kept = deque(pair for pair in self._items if pair[1] != item)
        found = len(kept) < len(self._items)
        self._items = kept
        return found

    def take(self) -> list[tuple[UserMessage, str]]:
        """All that wait, in order; they are the run's now."""
        taken = list(self._items)
        self._items.clear()
        if taken and self._told is not None:
            self._told(tuple(item for _, item in taken))
        return taken

    def close(self) -> None:
        """Nothing is taken any more; what is left stays queued in the store."""
        self.open = False
        self._items.clear()
