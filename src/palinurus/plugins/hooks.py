"""Calling hooks: `modify` awaits handlers in order and merges; `observe` starts them and goes on.

`at_once` is `modify` for the one place that cannot wait. How answers are merged stands in `points.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from palinurus.plugins.points import HOOK_POINTS, MAX_DEADLINE, MergeRule

TRACED = 256  # sessions whose trace lines are kept
LINES = 20  # of each

log = logging.getLogger(__name__)


class HookHandler(NamedTuple):
    call: Callable[[dict[str, Any]], Any]
    priority: int
    owner: str
    deadline: float


class Hooks:
    """The registry. Handlers get the payload as a dict and return a dict of changes, or None."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[HookHandler]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._traces: dict[str, deque[str]] = {}

    def on(
        self,
        point: str,
        call: Callable[[dict[str, Any]], Any],
        *,
        priority: int = 0,
        owner: str = "",
        deadline: float | None = None,
    ) -> None:
        """Register. Raises KeyError for a point that does not exist."""
        longest = min(deadline or HOOK_POINTS[point].deadline, MAX_DEADLINE)
        handlers = self._handlers.setdefault(point, [])
        handlers.append(HookHandler(call, priority, owner, longest))
        handlers.sort(key=lambda h: -h.priority)  # stable: ties keep registration order

    def has(self, point: str) -> bool:
        return point in self._handlers

    async def modify(self, point: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The merged changes; later handlers see earlier ones. Nobody is asked after `block`, `cancel`, `handled`.

        A handler of a guard point that raises or is late blocks; of other points it is skipped with a log line.
        """
        changes: dict[str, Any] = {}
        for handler in self._handlers.get(point, ()):
            try:
                result = handler.call({**payload, **changes})
                if inspect.isawaitable(result):
                    result = await asyncio.wait_for(result, handler.deadline)
                final = merge_answer(point, changes, result)
            except Exception as exc:  # noqa: BLE001 - border: a hook's failure is a value
                why = _failure(point, handler, exc)
                if HOOK_POINTS[point].kind == "guard":
                    return {**changes, "block": True, "blockReason": f"hook {point} failed: {why}"}
                continue
            if final:
                break
        return changes

    def modify_sync(self, point: str, payload: dict[str, Any]) -> dict[str, Any]:
        """As `modify`, for a point that is called where nothing may wait. A handler that is async is skipped."""
        changes: dict[str, Any] = {}
        for handler in self._handlers.get(point, ()):
            try:
                result = handler.call({**payload, **changes})
                if inspect.isawaitable(result):
                    if inspect.iscoroutine(result):
                        result.close()
                    raise TypeError("this point is synchronous; an async handler cannot change anything")
                if merge_answer(point, changes, result):
                    break
            except Exception as exc:  # noqa: BLE001 - border: a hook's failure is a value
                _failure(point, handler, exc)
        return changes

    def observe(self, point: str, payload: dict[str, Any]) -> None:
        """Start all handlers, wait for none."""
        for handler in self._handlers.get(point, ()):
            task = asyncio.ensure_future(self._one(point, handler, payload))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _one(self, point: str, handler: HookHandler, payload: dict[str, Any]) -> None:
        try:
            result = handler.call(dict(payload))
            if inspect.isawaitable(result):
                await asyncio.wait_for(result, handler.deadline)
        except Exception as exc:  # noqa: BLE001 - border: an observer's failure is its own
            _failure(point, handler, exc)

    def trace(self, session: str, owner: str, line: str) -> None:
        """A plugin's word on what it did, for people who switched /trace on. The newest few are kept, in memory."""
        if session not in self._traces and len(self._traces) >= TRACED:
            self._traces.pop(next(iter(self._traces)))
        self._traces.setdefault(session, deque(maxlen=LINES)).append(f"{owner}: {line}")

    def list_trace(self, session: str) -> tuple[str, ...]:
        """The lines of plugins for this session, oldest first."""
        return tuple(self._traces.get(session, ()))

    async def drain(self) -> None:
        """Wait for observers that are still running (each has its deadline)."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)


def merge_answer(point: str, changes: dict[str, Any], result: Any) -> bool:
    """Put one handler's answer into `changes` by the point's rules. True: nobody else is asked.

    Raises TypeError for an answer that is neither None nor a mapping.
    """
    if result is None:
        return False
    if not isinstance(result, Mapping):
        raise TypeError(f"a handler returns a dict or None, not {type(result).__name__}")
    if HOOK_POINTS[point].kind == "claim" and not result.get("handled"):
        return False
    rules, final = HOOK_POINTS[point].results, False
    if result.get("outcome") == "block" and "outcome" in rules:  # the other way to say it
        result = {"blockReason": result.get("reason"), **result, "block": True}
    frozen = "requireApproval" in changes  # what a person will be asked about does not change any more
    for name, value in result.items():
        rule: MergeRule | None = rules.get(name)
        if rule is None:
            log.warning("hook %s: %r means nothing there and is ignored", point, name)
        elif value is None or (rule == "final" and not value) or (frozen and name == "params"):
            continue
        elif rule == "join":
            changes[name] = "\n\n".join(text for text in (changes.get(name, ""), str(value)) if text)
        elif rule != "first" or name not in changes:
            changes[name] = value
            final = final or rule == "final"
    return final


def _failure(point: str, handler: HookHandler, exc: Exception) -> str:
    late = isinstance(exc, TimeoutError)
    why = f"no answer within {handler.deadline:g} s" if late and not str(exc) else str(exc) or type(exc).__name__
    log.warning("hook %s of %s failed: %s", point, handler.owner or "?", why)
    return why
