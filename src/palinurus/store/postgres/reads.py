"""The connections on which a node reads: a few, made when they are needed, given up at the first doubt.

asyncpg has a pool; it waits for a connection that died silently, and breaks when it is told not to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 4  # at the same time


class ReadConnections:
    """`connect` makes one; an answer takes `patience` seconds at most."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], patience: float) -> None:
        self._connect = connect
        self._patience = patience
        self._free: list[Any] = []
        self._used: set[Any] = set()
        self._room = asyncio.Semaphore(MOST)

    async def ask(self, run: Callable[[Any], Awaitable[T]]) -> T:
        """What `run` reads with a connection. Raises TimeoutError, and what it raises."""
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
