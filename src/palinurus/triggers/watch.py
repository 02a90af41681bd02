"""The command a heartbeat watches. It runs beside the timer, as the agent's own commands do, and only a hash of what it
printed is kept: while that stays the same, nobody is asked anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import blake2s

log = logging.getLogger(__name__)

WATCH_LIMIT = 60.0  # seconds it may take


class CommandWatch:
    """`look` starts it; `digest` is of the last output, "" before there was one; `done` is called after each."""

    def __init__(self, command: str, run: Callable[[], Awaitable[str | None]], done: Callable[[], None]) -> None:
        self._command = _hash(command)
        self._run = run
        self._done = done
        self._task: asyncio.Task[None] | None = None
        self.digest = ""
        self.looked = 0  # ms: when it was last started

    def look(self, now: int) -> None:
        """Run it, unless it runs."""
        if self._task is None:
            self.looked = now
            self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        try:
            text = await self._run()
            if text is not None:  # one that failed has seen nothing: that is no change
                self.digest = f"{self._command}:{_hash(text)}"
        except Exception:  # task boundary: a command that cannot be run must not end heartbeats
            log.exception("the watched command could not be run")
        finally:
            self._task = None
            self._done()

    def is_first_output(self, before: str) -> bool:
        """Is this the first output of this command? `before`: the digest that is remembered, maybe of another one."""
        return bool(self.digest) and before.partition(":")[0] != self._command

    async def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _hash(text: str) -> str:
    return blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
