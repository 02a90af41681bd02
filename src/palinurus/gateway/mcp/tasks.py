"""Calls that take long, as tasks (MCP's extension): the client is told a name instead of a result, asks how it stands,
answers what is asked meanwhile, or wants it no more. Only the caller who made a task knows it.

What is said to the agent is on disk under the task's name before the client hears of it: after a kill the run goes on,
and `agent.result` tells how it ended. Other tools only read; their tasks are gone then, and the client is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from palinurus.clock import Clock
from palinurus.core.types.caller import Caller
from palinurus.gateway.mcp.face import INVALID_PARAMS, McpFace, McpFault, Params

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
KEPT = 3_600_000  # milliseconds that a result waits for who asked
POLL = 1000  # milliseconds between two looks of a client
MOST = 100


class DeferredCall(Protocol):
    """What goes on behind a task."""

    outcome: Params | None  # `result` or `error`

    def list_questions(self) -> Params: ...

    def take_answers(self, given: Params) -> None: ...

    def cancel(self) -> None: ...


class McpTask:
    """One of them, for as long as this program runs."""

    def __init__(self, name: str, owner: tuple[str, str], call: DeferredCall, clock: Clock) -> None:
        self.name, self.owner, self.call, self._clock = name, owner, call, clock
        self.made = self.changed = clock.now()
        self.said = ""  # what it does now, for people
        self.stopped = False
        self.listeners: list[Callable[[Params], None]] = []

    @property
    def over(self) -> bool:
        return self.stopped or self.call.outcome is not None

    def touch(self) -> None:
        """It is not as it was."""
        self.changed = self._clock.now()
        for say in tuple(self.listeners):
            say(self.tell())

    def stop(self) -> None:
        """Nobody wants it any more; what is over stays as it is."""
        if not self.over:
            self.stopped = True
            self.call.cancel()
            self.touch()

    def tell(self) -> Params:
        """How it stands, as a notification."""
        return {"method": "notifications/tasks", "params": self.describe()}

    def describe(self, *, whole: bool = True) -> Params:
        """As the protocol says it; `whole`: with the result, or what is asked."""
        more: Params = {}
        if self.stopped:
            status = "cancelled"
        elif self.call.outcome is not None:
            more = self.call.outcome
            status = "completed" if "result" in more else "failed"
        elif asked := self.call.list_questions():
            status, more = "input_required", {"inputRequests": asked}
        else:
            status = "working"
        told = _describe(self.name, status, self.made, self.changed if self.over else self._clock.now())
        told["lastUpdatedAt"] = _write_time(self.changed)
        return {**told, **({"statusMessage": self.said} if self.said else {}), **(more if whole else {})}


class McpTasks:
    """All of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: dict[str, McpTask] = {}

    def add(self, name: str, owner: tuple[str, str], call: DeferredCall) -> McpTask | None:
        """None: there are too many."""
        now = self._clock.now()
        for old in [one.name for one in self._all.values() if one.over and one.changed + KEPT < now]:
            del self._all[old]
        if len(self._all) >= MOST:
            return None
        made = self._all[name] = McpTask(name, owner, call, self._clock)
        return made

    def find(self, name: Any, caller: Caller) -> McpTask | None:
        """This caller's."""
        found = self._all.get(name) if isinstance(name, str) else None
        return found if found is not None and found.owner == (caller.id, caller.device) else None

    @contextmanager
    def follow(self, names: Any, caller: Caller, say: Callable[[Params], None]) -> Iterator[list[str]]:
        """`say` is told how these stand, now and after each change. Yields the names of this caller's."""
        wanted = [self.find(name, caller) for name in names[:MOST]] if isinstance(names, list) else []
        found = [one for one in wanted if one is not None]
        for one in found:
            one.listeners.append(say)
            say(one.tell())
        try:
            yield [one.name for one in found]
        finally:
            for one in found:
                one.listeners.remove(say)

    async def answer(self, method: str, params: Params, caller: Caller, face: McpFace) -> Params:
        """One of METHODS. Raises McpFault."""
        name = params.get("taskId")
        task = self.find(name, caller)
        earlier = await face.recall(name) if task is None and isinstance(name, str) else None
        if task is None and earlier is None:
            raise McpFault(INVALID_PARAMS, "taskId: there is no such task (any more)")
        if method == "tasks/get":
            return task.describe() if task is not None else self._describe_earlier(str(name), earlier or {})
        given = params.get("inputResponses")
        if task is not None and method == "tasks/update" and isinstance(given, dict):
            task.call.take_answers(given)
            task.touch()
        if method == "tasks/cancel":
            if task is not None:
                task.stop()
            await face.stop(str(name))
        return {}

    def _describe_earlier(self, name: str, told: Params) -> Params:
        """One of before a restart: a message to the agent."""
        end = told["endedAt"]
        return {**_describe(name, told["status"], told["acceptedAt"], end or self._clock.now()), **told["more"]}


def _describe(name: str, status: str, made: int, now: int) -> Params:
    """A result waits from its end on, so what goes on has always as long to live."""
    return {
        "taskId": name,
        "status": status,
        "createdAt": _write_time(made),
        "lastUpdatedAt": _write_time(now),
        "ttlMs": max(now - made, 0) + KEPT,
        "pollIntervalMs": POLL,
    }


def _write_time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
