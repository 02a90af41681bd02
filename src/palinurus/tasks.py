"""Work that goes on beside its caller: kept alive, logged when it breaks, ended together. The one task set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
PATIENCE = 8.0  # seconds that somebody who is cancelled waits for what cannot be interrupted


async def finish_in_thread(work: Callable[..., T], *args: Any) -> T:
    """Like `asyncio.to_thread`, for work that changes something. A thread cannot be cancelled, so who is cancelled
    waits for its end: nothing is written any more when they are through (but for a disk that hangs)."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=PATIENCE)
        raise


class TaskSet:
    """Tasks of one owner. asyncio keeps only weak references to tasks; this keeps them until they are done."""

    def __init__(self, what: str = "background work") -> None:
        self._what = what  # names it in the log
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work`; what it raises is logged, never lost. Returns its task."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s failed", self._what, exc_info=error)

    async def settle(self) -> None:
        """Wait until all of it is done, also what it starts meanwhile. Raises nothing."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def cancel(self) -> None:
        """Have what is left end soon."""
        for task in tuple(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Cancel what is left and wait for its end. Raises nothing."""
        self.cancel()
        await self.settle()
