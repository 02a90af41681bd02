"""An event loop in a second thread, so that the first one can wait at a prompt and hear Ctrl-C."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines elsewhere; the caller waits and stays interruptible."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="palinurus", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; raises what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Begin `work` and do not wait; safe in a signal handler."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def each(self, items: AsyncIterator[T]) -> LoopItems[T]:
        """The items as they come. An interrupted wait loses none: go on with `next`."""
        return LoopItems(self._loop, items)

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


class LoopItems(Iterator[T]):
    """Filled by the loop's thread, emptied by ours."""

    def __init__(self, loop: asyncio.AbstractEventLoop, items: AsyncIterator[T]) -> None:
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._first: list[tuple[str, Any]] = []  # looked at by `wait`, not taken yet
        asyncio.run_coroutine_threadsafe(self._fill(items), loop)

    async def _fill(self, items: AsyncIterator[T]) -> None:
        try:
            async for item in items:
                self._queue.put(("item", item))
            self._queue.put(("end", None))
        except Exception as exc:  # noqa: BLE001 - task boundary: raised again in the thread that waits
            self._queue.put(("error", exc))

    def put(self, item: Any) -> None:
        """An item from elsewhere; from any thread."""
        self._queue.put(("item", item))

    def wait(self, seconds: float) -> bool:
        """Is there something to take? Waits at most so long."""
        try:
            first = self._queue.get(timeout=seconds)
        except queue.Empty:
            return False
        self._first.append(first)
        return True

    def __next__(self) -> T:
        kind, value = self._first.pop() if self._first else self._queue.get()
        if kind == "item":
            found: T = value
            return found
        self._queue.put((kind, value))
        if kind == "error":
            raise value
        raise StopIteration
