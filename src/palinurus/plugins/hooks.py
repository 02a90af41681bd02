"""Calling hooks: two verbs. `modify` awaits handlers in order and merges; `observe` starts them and goes on."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from palinurus.plugins.points import POINTS

TRACED = 256  # sessions whose trace lines are kept
LINES = 20  # of each

log = logging.getLogger(__name__)


class Handler(NamedTuple):
    call: Callable[[dict[str, Any]], Any]
    priority: int
    owner: str


class Hooks:
    """The registry. Handlers get the payload as a dict and return a dict of changes, or None."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._traces: dict[str, deque[str]] = {}

    def on(self, point: str, call: Callable[[dict[str, Any]], Any], *, priority: int = 0, owner: str = "") -> None:
        """Register. Raises KeyError for a point that does not exist."""
        POINTS[point]
        handlers = self._handlers.setdefault(point, [])
        handlers.append(Handler(call, priority, owner))
        handlers.sort(key=lambda h: -h.priority)  # stable: ties keep registration order

    def has(self, point: str) -> bool:
        return point in self._handlers

    async def modify(self, point: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The merged changes: last wins per key, later handlers see earlier changes; `block` or `cancel` is final.

        A handler of a guard point that raises or is late blocks; of other points it is skipped with a log line.
        """
        changes: dict[str, Any] = {}
        for handler in self._handlers.get(point, ()):
            try:
                result = handler.call({**payload, **changes})
                if inspect.isawaitable(result):
                    result = await asyncio.wait_for(result, POINTS[point].deadline)
            except Exception as exc:  # noqa: BLE001 - border: a hook's failure is a value
                log.warning("hook %s of %s failed: %s", point, handler.owner or "?", exc)
                if POINTS[point].kind == "guard":
                    return {**changes, "block": True, "blockReason": f"hook {point} failed: {exc}"}
                continue
            if result:
                changes.update({k: v for k, v in result.items() if v is not None})
            if changes.get("block") or changes.get("cancel"):
                break
        return changes

    def observe(self, point: str, payload: dict[str, Any]) -> None:
        """Start all handlers, wait for none."""
        for handler in self._handlers.get(point, ()):
            task = asyncio.ensure_future(self._one(point, handler, payload))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _one(self, point: str, handler: Handler, payload: dict[str, Any]) -> None:
        try:
            result = handler.call(dict(payload))
            if inspect.isawaitable(result):
                await asyncio.wait_for(result, POINTS[point].deadline)
        except Exception as exc:  # noqa: BLE001 - border
            log.warning("hook %s of %s failed: %s", point, handler.owner or "?", exc)

    def trace(self, session: str, owner: str, line: str) -> None:
        """A plugin's word on what it did, for people who switched /trace on. The newest few are kept, in memory."""
        if session not in self._traces and len(self._traces) >= TRACED:
            self._traces.pop(next(iter(self._traces)))
        self._traces.setdefault(session, deque(maxlen=LINES)).append(f"{owner}: {line}")

    def traced(self, session: str) -> tuple[str, ...]:
        """The lines of plugins for this session, oldest first."""
        return tuple(self._traces.get(session, ()))

    async def drain(self) -> None:
        """Wait for observers that are still running (each has its deadline)."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
