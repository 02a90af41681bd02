"""The tools of one answer: in parallel unless one forbids it, results in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from palinurus.agent.context import NO_PROVENANCE, CallProvenance, RunToolContext
from palinurus.agent.plan import RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.agent.repeat import RepeatDetector
from palinurus.core.history.truncate import share_result_chars
from palinurus.core.types.events import RunEvent, ToolEnd, ToolStart, ToolUpdate
from palinurus.core.types.messages import TextBlock, ToolCall, ToolResult
from palinurus.tools.call import call_tool

STOPPED = "stopped before it finished ({reason}); it may have been done in part"


class ToolBatch:
    """`act` streams the events; afterwards `results` has one result per call, in their order."""

    def __init__(
        self, plan: RunPlan, ports: RunPorts, repeats: RepeatDetector, seen: CallProvenance = NO_PROVENANCE
    ) -> None:
        self._seen = seen
        self._plan = plan
        self._ports = ports
        self._repeats = repeats
        self._events: asyncio.Queue[RunEvent | int] = asyncio.Queue()
        self.results: list[ToolResult] = []

    async def act(self, calls: Sequence[ToolCall]) -> AsyncIterator[RunEvent]:
        """ToolStart as each starts, ToolUpdate as it goes, ToolEnd in call order."""
        self._repeats.start_batch()
        taken = calls[: self._plan.limits.calls_per_turn]
        tools = [self._plan.tools.get(c.name) for c in taken]
        width = 1 if any(t and t.sequential for t in tools) else self._plan.limits.parallel
        slots = asyncio.Semaphore(width)
        self._plan = _shared(self._plan, len(taken))
        tasks = [self._start(i, c, slots) for i, c in enumerate(taken)]
        forget = self._ports.abort.on(lambda: [t.cancel() for t in tasks])
        done: dict[int, ToolEnd] = {}
        try:
            for at in range(len(tasks)):
                while at not in done:
                    event = await self._events.get()
                    if isinstance(event, int):
                        done[event] = self._ended(taken[event], tasks[event])
                    else:
                        yield event
                yield done[at]
        finally:
            forget()
            for task in tasks:
                task.cancel()
        self.results = [done[i].result for i in range(len(tasks))] + [self._refused(c) for c in calls[len(taken) :]]

    def _start(self, at: int, asked: ToolCall, slots: asyncio.Semaphore) -> asyncio.Task[tuple[ToolResult, int]]:
        """The task's end puts its index among the events, also when it was cancelled before its first step."""
        task = asyncio.ensure_future(self._one(asked, slots))
        task.add_done_callback(lambda _: self._events.put_nowait(at))
        return task

    async def _one(self, asked: ToolCall, slots: asyncio.Semaphore) -> tuple[ToolResult, int]:
        async with slots:
            started = self._ports.clock.monotonic()
            tool = self._plan.tools.get(asked.name)
            summary = tool.summary(asked.arguments) if tool and tool.summary and not asked.invalid else ""
            self._events.put_nowait(ToolStart(asked.id, asked.name, asked.arguments, summary))
            self._ports.record.step("tool", f"{asked.name} {summary}".strip())
            ports = self._ports
            ctx = RunToolContext(self._plan, asked, ports.clock, self._show, ports.approver, self._asks, self._seen)
            result = await call_tool(asked, self._plan.tools, ctx, self._ports.hooks)
            return result, int((self._ports.clock.monotonic() - started) * 1000)

    def _show(self, asked: ToolCall, partial: str) -> None:
        self._events.put_nowait(ToolUpdate(asked.id, asked.name, partial))

    def _asks(self, asked: ToolCall, ident: str, card: str) -> None:
        self._events.put_nowait(ToolUpdate(asked.id, asked.name, card, ident))

    def _ended(self, asked: ToolCall, task: asyncio.Task[tuple[ToolResult, int]]) -> ToolEnd:
        if task.cancelled():
            result, took = self._error(asked, STOPPED.format(reason=self._ports.abort.reason or "cancelled")), 0
        else:
            result, took = task.result()
            warning = self._repeats.note(asked, result)
            if warning:
                result = msgspec.structs.replace(result, content=(*result.content, TextBlock(f"\n{warning}")))
        self._ports.record.step("result", f"{asked.name} {'error' if result.isError else 'ok'} {took} ms")
        return ToolEnd(asked.id, asked.name, result, result.isError, took)

    def _refused(self, asked: ToolCall) -> ToolResult:
        limit = self._plan.limits.calls_per_turn
        return self._error(
            asked, f"not run: at most {limit} tool calls are taken from one answer; ask again for this one"
        )

    def _error(self, asked: ToolCall, text: str) -> ToolResult:
        return ToolResult(asked.id, asked.name, (TextBlock(text),), True, timestamp=self._ports.clock.now())


def _shared(plan: RunPlan, calls: int) -> RunPlan:
    """The plan with the room of a result shared among so many."""
    room = share_result_chars(plan.settings.result_chars, calls)
    if room == plan.settings.result_chars:
        return plan
    return msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, result_chars=room))
