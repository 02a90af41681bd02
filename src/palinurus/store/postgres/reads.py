"""The connections on which a node reads: a few, made when they are needed, given up at the first doubt.

asyncpg has a pool; it waits for a connection that died silently, and breaks when it is told not to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from palinurus.backoff import Backoff
from palinurus.clock import Clock
from palinurus.errors import StateError

T = TypeVar("T")

MOST = 4  # at the same time
AGAIN = 0.1  # seconds before a lost connection is tried again, at first


class ReadConnections:
    """`connect` makes one; an answer takes `patience` seconds at most. What raises one of `cut` is asked again, as long
    as the node is not `over`."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        patience: float,
        clock: Clock,
        *,
        cut: tuple[type[Exception], ...],
        over: Callable[[], bool],
    ) -> None:
        self._connect = connect
        self._patience = patience
        self._clock = clock
        self._cut: tuple[type[Exception], ...] = (TimeoutError, *cut)
        self._over = over
        self._free: list[Any] = []
        self._used: set[Any] = set()
        self._room = asyncio.Semaphore(MOST)

    async def ask(self, run: Callable[[Any], Awaitable[T]]) -> T:
        """What `run` reads with a connection; asked again while the database cannot be reached. Raises StateError once
        the node is over, and what `run` raises."""
        backoff = Backoff(AGAIN, 2.0)
        while True:
            try:
                return await self._try(run)
            except self._cut as error:
                if self._over():
                    raise StateError(
                        f"the fleet's database cannot be reached: {error!r}",
                        fix="look whether PostgreSQL runs and store.url is right: `pal fleet status`",
                    ) from None
            await self._clock.sleep(backoff.next_delay())

    async def _try(self, run: Callable[[Any], Awaitable[T]]) -> T:
        async with self._room:
            conn = self._take() or await self._connect()
            self._used.add(conn)
            try:
                async with asyncio.timeout(self._patience):
                    found = await run(conn)
            except BaseException:
                conn.terminate()  # it may be in the middle of an answer
                raise
            finally:
                self._used.discard(conn)
            self._free.append(conn)
            return found

    def _take(self) -> Any:
        while self._free:
            conn = self._free.pop()
            if not conn.is_closed():
                return conn
        return None

    def terminate(self) -> None:
        for conn in (*self._free, *self._used):
            conn.terminate()
        self._free.clear()
