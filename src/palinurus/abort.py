"""Stopping a run: one object per run, cheap enough to arm around every read of a stream.

`set()` interrupts only what is inside `wait()` or has registered with `on()`; a durable step
(store commit, outbox row) is never torn by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Aborted(Exception):
    """Raised by `Abort.wait` when the run was stopped. `reason` says by what: user, timeout, drain, loop."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Abort:
    """Set once, by anyone; seen by the run."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._task: asyncio.Task[object] | None = None
        self._stops: list[Callable[[], object]] = []

    def set(self, reason: str) -> None:
        """Stop the run. The first reason wins. Call from the event loop's thread."""
        if self.reason is not None:
            return
        self.reason = reason
        if self._task is not None:
            self._task.cancel()
        for stop in tuple(self._stops):
            stop()

    async def wait(self, thing: Awaitable[T]) -> T:
        """Await `thing`, interruptible by `set`. Raises Aborted; a cancel from elsewhere passes through."""
        if self.reason is not None:
            if asyncio.iscoroutine(thing):
                thing.close()
            raise Aborted(self.reason)
        task = asyncio.current_task()
        self._task = task
        try:
            return await thing
        except asyncio.CancelledError:
            if self.reason is None or task is None:
                raise
            task.uncancel()
            raise Aborted(self.reason) from None
        finally:
            self._task = None

    def on(self, stop: Callable[[], object]) -> Callable[[], None]:
        """Call `stop` when the run is stopped (at once if it already is). Returns the function that forgets it."""
        if self.reason is not None:
            stop()
            return lambda: None
        self._stops.append(stop)
        return lambda: self._stops.remove(stop) if stop in self._stops else None
