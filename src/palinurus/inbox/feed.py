"""Who is watching which message: live events while it runs, and its end. In memory; the truth is in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from palinurus.core.types.events import Event

Sink = Callable[[Event], None]


class Feeds:
    """Sinks are called inline, in the order of the events; they must be quick and must not raise."""

    def __init__(self) -> None:
        self._sinks: dict[str, list[Sink]] = {}
        self._ends: dict[str, list[asyncio.Future[None]]] = {}

    def watch(self, item: str, sink: Sink) -> Callable[[], None]:
        """Show the item's run events to `sink`. Returns the function that ends it."""
        self._sinks.setdefault(item, []).append(sink)
        return lambda: self._drop(item, sink)

    def _drop(self, item: str, sink: Sink) -> None:
        sinks = self._sinks.get(item, [])
        if sink in sinks:
            sinks.remove(sink)
        if not sinks:
            self._sinks.pop(item, None)

    def sinks(self, item: str) -> list[Sink]:
        """The live list: it changes as watchers come and go."""
        return self._sinks.setdefault(item, [])

    def merge(self, item: str, into: str) -> None:
        """`item` became part of the run of `into`: its watchers watch that run now."""
        moved = self._sinks.pop(item, [])
        if moved:
            self.sinks(into).extend(moved)
        waiting = self._ends.pop(item, [])
        if waiting:
            self._ends.setdefault(into, []).extend(waiting)

    def ended(self, item: str) -> None:
        """The item's outcome is on disk."""
        self._sinks.pop(item, None)
        for future in self._ends.pop(item, ()):
            if not future.done():
                future.set_result(None)

    def end(self, item: str) -> asyncio.Future[None]:
        """Done when `ended` is called for the item (or for the run it became part of)."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(item, []).append(future)
        return future
