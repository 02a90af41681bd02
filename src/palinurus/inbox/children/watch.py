"""When runs of sub-agents begin and how long they may take. A follower of all runs; knows nothing of results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from palinurus.clock import Clock
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.inbox.children.registry import SubagentRegistry


class SubagentTimer:
    """Implements `inbox.feed.Follower`. `abort` ends the run of a message; the reason says why."""

    def __init__(self, registry: SubagentRegistry, clock: Clock, abort: Callable[[str, str], object]) -> None:
        self._registry = registry
        self._clock = clock
        self._abort = abort
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[object]] = set()

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        """Its clock starts."""
        child = self._registry.at(session)
        if child is None or not child.active:
            return
        if not child.started:
            self._later(child.id, started=self._clock.now())
        if child.timeout:
            loop = asyncio.get_running_loop()
            self._timers[item] = loop.call_later(child.timeout, self._abort, item, "timeout")

    def on_ended(self, item: str) -> None:
        """Its clock stops."""
        timer = self._timers.pop(item, None)
        if timer is not None:
            timer.cancel()

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """Whatever is said to one that is at work is part of its work: its end is now the end of that."""
        child = self._registry.at(session)
        if child is not None and child.active and child.item and child.item != item:
            self._later(child.id, item=item, runs=child.runs + 1)

    def _later(self, ident: str, **changes: Any) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(self._registry.change(ident, **changes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def on_event(self, item: str, event: RunEvent) -> None:
        """Of no interest."""

    def on_merged(self, item: str, into: str) -> None:
        """Of no interest."""

    def close(self) -> None:
        """Time stops."""
        for timer in self._timers.values():
            timer.cancel()
