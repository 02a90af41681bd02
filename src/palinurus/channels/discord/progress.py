"""How far we have read: the id up to which every message was handed in, so that a new session can ask for the rest.

Discord's ids grow with time over all its chats, so one number is enough. Also the order of work in each chat.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from palinurus.channels.intake import ChatOrder
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], Awaitable[None]]

MOST = 500  # pieces of work under way; then no event is taken until some are done


class DiscordReadMark:
    """Pure. Everything below `value` is done."""

    def __init__(self, value: int = 0) -> None:
        self._highest = value
        self._open: Counter[int] = Counter()

    @property
    def value(self) -> int:
        return min(min(self._open) - 1, self._highest) if self._open else self._highest

    def begin(self, ident: int) -> None:
        self._open[ident] += 1

    def end(self, ident: int) -> None:
        self._open[ident] -= 1
        if self._open[ident] <= 0:
            del self._open[ident]
        self._highest = max(self._highest, ident)


class DiscordLanes:
    """Work of one chat happens in the order it came; chats do not wait for each other."""

    def __init__(self) -> None:
        self._order = ChatOrder()
        self._tasks = TaskSet("discord: an event")
        self._room = asyncio.Event()
        self._room.set()

    def put(self, chat: str, work: Work, then: Work | None = None) -> None:
        """Do it after what this chat still has to do; `then` is done also when the work failed."""
        self._tasks.start(self._do(chat, work, then))
        if len(self._tasks) >= MOST:
            self._room.clear()

    async def wait_for_room(self) -> None:
        """Wait until there is not too much to do."""
        await self._room.wait()

    async def stop(self) -> None:
        """What is not done was not acknowledged: it is read again."""
        await self._tasks.close()

    async def _do(self, chat: str, work: Work, then: Work | None) -> None:
        try:
            async with self._order.turn(chat):
                try:
                    await work()
                except Exception:  # task boundary: one event that cannot be handled stops no other
                    log.exception("discord: an event could not be handled")
                if then is not None:
                    await then()
        finally:
            if len(self._tasks) <= MOST:  # we are still among them
                self._room.set()
