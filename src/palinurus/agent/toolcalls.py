"""The tools of one answer: in parallel unless one forbids it, results in the order of the calls."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from palinurus.agent.intents import IntentReader
from palinurus.agent.marks import TaintMarks
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import RunLane, RunPorts, find_run_lane
from palinurus.clock import Clock
from palinurus.config.sections.tools import LoopSettings
from palinurus.core.history.truncate import share_result_chars
from palinurus.core.policy import deciding, spoken, taint
from palinurus.core.types.approval import ApprovalAnswer, ApprovalRequest, Approver, CallJudgement
from palinurus.core.types.events import RunEvent, ToolEnd, ToolStart, ToolUpdate
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult
from palinurus.core.types.tool import TOOL_CALL, Tool, ToolSettings
from palinurus.late import load_part
from palinurus.taping import use_lane

# Tool-loop detection: the same call with the same arguments and the same result, again and again.


POLLS = {"process": ("poll", "log", "list")}  # tools that look whether something else has got further -> actions


class RepeatDetector:
    """Counts per run. `warn` repeats add a note to the result; `stop` repeats end the run (`stuck` says why)."""

    def __init__(self, rules: LoopSettings) -> None:
        self._rules = rules
        self._seen: deque[tuple[str, str]] = deque(maxlen=rules.history)  # call, result
        self._batch: set[str] = set()
        self._unknown = 0  # calls in a row of tools that do not exist
        self.stuck = ""

    def start_batch(self) -> None:
        """A new batch of calls begins: the same call twice in one batch is clumsy, not a loop."""
        self._batch.clear()

    def note(self, call: ToolCall, result: ToolResult, *, known: bool = True) -> str:
        """Count one finished call. Returns the warning to add to its result, or ""."""
        rules, key = self._rules, _digest(call.name, json.dumps(call.arguments, sort_keys=True, default=str))
        if not rules.enabled or key in self._batch:
            return ""
        self._batch.add(key)
        self._unknown = 0 if known else self._unknown + 1
        if self._unknown >= rules.unknown:
            self.stuck = f"stopped: {self._unknown} calls in a row of tools that do not exist, the last of {call.name}"
            return self.stuck
        self._seen.append((key, _digest(str(result.isError), result.text)))
        times = self._count(key)
        counted = self._counts(call, key)
        if times >= (rules.stop if counted else rules.breaker):
            self.stuck = f"stopped: {call.name} was called {times} times with the same arguments and the same result"
            return self.stuck
        if counted and times >= rules.warn:
            return f"[note: {call.name} gave this same result {times} times for the same arguments; try another way]"
        return ""

    def _count(self, key: str) -> int:
        """How often in a row the call gave what it just gave; other calls may stand between."""
        outcomes = [outcome for one, outcome in self._seen if one == key]
        return next((at for at, one in enumerate(reversed(outcomes)) if one != outcomes[-1]), len(outcomes))

    def _counts(self, call: ToolCall, key: str) -> bool:
        """Is the detector on whose pattern this is?"""
        rules, before = self._rules, [one for one, _ in self._seen][-4:-1]
        if call.arguments.get("action") in POLLS.get(call.name, ()):
            return rules.poll
        turns = len(before) == 3 and before[1] == key and before[0] == before[2] != key
        return rules.ping_pong if turns else rules.repeat


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


CALLS_KEPT = 512  # calls of one answer that are looked at; those beyond `calls_per_turn` are refused one by one


def drop_surplus_calls(answer: AssistantMessage, most: int) -> tuple[AssistantMessage, int]:
    """The answer with its first `most` tool calls, and how many it had beyond them."""
    surplus = [at for at, block in enumerate(answer.content) if isinstance(block, ToolCall)][most:]
    if not surplus:
        return answer, 0
    gone = frozenset(surplus)
    kept = tuple(block for at, block in enumerate(answer.content) if at not in gone)
    return msgspec.structs.replace(answer, content=kept), len(surplus)


# What a tool sees of the run it is called in.


class CallProvenance(msgspec.Struct, frozen=True):
    """What the model had seen when it asked for the call, and who says that the run is still ours."""

    messages: Sequence[Message] = ()
    taint: tuple[str, ...] = ()
    marks: TaintMarks | None = None  # which remembered files were written under taint
    intents: IntentReader | None = None
    confirm: Callable[[], Awaitable[None]] | None = None  # `Store.confirm`


NO_PROVENANCE = CallProvenance()


class RunToolContext:
    """Implements `core.types.tool.ToolContext`."""

    __slots__ = ("_approver", "_call", "_card", "_clock", "_plan", "_seen", "_show")

    def __init__(
        self,
        plan: RunPlan,
        call: ToolCall,
        clock: Clock,
        show: Callable[[ToolCall, str], None],
        approver: Approver | None = None,
        card: Callable[[ToolCall, str, str], None] | None = None,  # (call, card, approval id)
        seen: CallProvenance = NO_PROVENANCE,
    ) -> None:
        self._seen = seen
        self._plan = plan
        self._call = call
        self._clock = clock
        self._show = show
        self._approver = approver
        self._card = card

    @property
    def workspace(self) -> str:
        return self._plan.workspace

    @property
    def agent(self) -> str:
        return self._plan.route.agent

    @property
    def session(self) -> str:
        return str(self._plan.route.key)

    @property
    def run(self) -> str:
        return self._plan.id

    @property
    def item(self) -> str:
        return self._plan.item

    @property
    def call(self) -> str:
        return self._call.id

    @property
    def trusted(self) -> bool:
        return self._plan.inbound.sender.trusted

    @property
    def inbound(self) -> Inbound:
        return self._plan.inbound

    @property
    def taint(self) -> tuple[str, ...]:
        return self._seen.taint

    def may_leak(self, url: str) -> bool:
        return taint.may_leak(url, self._seen.messages, self._plan.settings.taint)

    @property
    def deferred(self) -> Mapping[str, Tool]:
        return {name: tool for name, tool in self._plan.tools.items() if tool.deferred}

    def file_taint(self, path: str) -> tuple[str, ...]:
        return self._seen.marks.of(path) if self._seen.marks else ()

    @property
    def has_marks(self) -> bool:
        return self._seen.marks is not None and self._seen.marks.has_any

    async def mark(self, path: str) -> None:
        if self._seen.marks:
            await self._seen.marks.add(path, self._seen.taint)

    def marked_below(self, folder: str) -> tuple[str, ...]:
        project = bool(self._plan.settings.persona)
        return self._seen.marks.list_below(folder, project=project) if self._seen.marks else ()

    async def unmark(self, paths: tuple[str, ...]) -> None:
        if self._seen.marks:
            await self._seen.marks.remove(paths)

    async def confirm(self) -> None:
        if self._seen.confirm is not None:
            await self._seen.confirm()

    def judge(self, tool: Tool, args: dict[str, Any]) -> CallJudgement:
        return deciding.judge_values(tool, args, self._seen.messages)

    async def is_asked_for(self, tool: Tool) -> bool:
        if self._seen.intents is None or self._plan.settings.taint.intent != "model":
            return False
        words = spoken.join_wish(self._seen.messages, tool.name)
        return await self._seen.intents.is_asked_for(words, tool, self._plan.model, self.session)

    def has_called(self, tool: str, action: str) -> bool:
        return any(
            call is not None and call.name == tool and call.arguments.get("action") == action and not result.isError
            for call, result in taint.pair_results(self._seen.messages)
        )

    def has_read(self, path: str) -> bool:
        results = (m for m in self._seen.messages if isinstance(m, ToolResult) and m.toolName == "read")
        return any(isinstance(m.details, dict) and m.details.get("path") == path and not m.isError for m in results)

    @property
    def tainted_at(self) -> int:
        said = [m for m in self._seen.messages if not isinstance(m, AssistantMessage)]
        return next((m.timestamp for m in (*(m for m in said if m.source), *said)), 0)

    @property
    def settings(self) -> ToolSettings:
        return self._plan.settings

    async def ask(self, ask: ApprovalRequest) -> ApprovalAnswer:
        if self._approver is None:
            return ApprovalAnswer(None, "nobody can be asked here")
        return await self._approver.ask(ask, self._put if self._card and self._plan.inbound.may_answer else None)

    def _put(self, ident: str, text: str) -> None:
        assert self._card is not None
        self._card(self._call, text, ident)

    def now(self) -> int:
        return self._clock.now()

    def update(self, partial: str) -> None:
        self._show(self._call, self._plan.settings.secrets.blank(partial))


STOPPED = "stopped before it finished ({reason}); it may have been done in part"
STOPPERS = dict.fromkeys(("rpc", "stop", "user"), "by the user")  # reasons that are a person


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

    async def act(self, calls: Sequence[ToolCall]) -> AsyncGenerator[RunEvent, None]:
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
            if left := [task for task in tasks if task.cancel()]:  # nobody wants to hear: they must not outlive the run
                await asyncio.wait(left)
        self.results = [done[i].result for i in range(len(tasks))] + [self._refused(c) for c in calls[len(taken) :]]

    def _start(self, at: int, asked: ToolCall, slots: asyncio.Semaphore) -> asyncio.Task[tuple[ToolResult, int]]:
        """The task's end puts its index among the events, also when it was cancelled before its first step."""
        run = find_run_lane()
        lane = run.fork() if run is not None else None
        task = asyncio.ensure_future(self._one(asked, slots, lane))
        tell = partial(self._events.put_nowait, at)
        task.add_done_callback(lambda _: tell() if lane is None else lane.end(tell))
        return task

    async def _one(self, asked: ToolCall, slots: asyncio.Semaphore, lane: RunLane | None) -> tuple[ToolResult, int]:
        if lane is None:
            return await self._run(asked, slots, None)
        with use_lane(lane):
            try:
                await lane.begin()
                return await self._run(asked, slots, lane)
            finally:
                lane.close()

    async def _run(self, asked: ToolCall, slots: asyncio.Semaphore, lane: RunLane | None) -> tuple[ToolResult, int]:
        async with slots:
            started = self._ports.clock.monotonic()
            tool = self._plan.tools.get(asked.name)
            summary = tool.summary(asked.arguments) if tool and tool.summary and not asked.invalid else ""
            self._events.put_nowait(ToolStart(asked.id, asked.name, asked.arguments, summary))
            if lane is not None:
                lane.pass_mark("start")  # tools side by side: who was heard of first is part of the run
            if self._ports.hooks.has("before_tool_call"):
                await self._ports.clock.sleep(0)  # whoever listens hears of the start before hooks are asked
            self._ports.record.step("tool", f"{asked.name} {summary}".strip())
            ports = self._ports
            show = partial(self._show, lane)
            ctx = RunToolContext(
                self._plan, asked, ports.clock, show, approver=ports.approver, card=show, seen=self._seen
            )
            meant, results = _unwrap(asked), self._plan.settings.results
            call = partial(load_part("tool-call"), meant, self._plan.tools, ctx, ports.hooks)
            if ports.carrier is not None:
                await ports.carrier.bring(results, meant.arguments)
            result: ToolResult = await (call() if lane is None else lane.invoke(asked, call, partial(self._put, lane)))
            if ports.carrier is not None:
                await ports.carrier.share(results, result.text)
            result = msgspec.structs.replace(result, toolName=asked.name) if meant is not asked else result
            return result, int((self._ports.clock.monotonic() - started) * 1000)

    def _show(self, lane: RunLane | None, asked: ToolCall, partial: str, approval: str = "") -> None:
        self._put(lane, ToolUpdate(asked.id, asked.name, partial, approval))

    def _put(self, lane: RunLane | None, event: ToolUpdate) -> None:
        if lane is not None:
            lane.note("update", event.name, given=event)
        self._events.put_nowait(event)

    def _ended(self, asked: ToolCall, task: asyncio.Task[tuple[ToolResult, int]]) -> ToolEnd:
        if task.cancelled():
            why = self._ports.abort.reason or "cancelled"
            result, took = self._error(asked, STOPPED.format(reason=STOPPERS.get(why, why))), 0
        else:
            result, took = task.result()
            warning = self._repeats.note(asked, result, known=asked.name in self._plan.tools)
            if warning:
                result = msgspec.structs.replace(result, content=(*result.content, TextBlock(f"\n{warning}")))
        self._ports.record.step("result", f"{asked.name} {'error' if result.isError else 'ok'} {took} ms")
        return ToolEnd(asked.id, asked.name, result, result.isError, took_ms=took)

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


def _unwrap(asked: ToolCall) -> ToolCall:
    """The call of a tool that the model was not told of: judged and run as that tool's own, under the same id."""
    if asked.name != TOOL_CALL or asked.invalid:
        return asked
    name, given = asked.arguments.get("name"), asked.arguments.get("arguments") or {}
    fits = isinstance(name, str) and name != TOOL_CALL and isinstance(given, dict)
    return msgspec.structs.replace(asked, name=name, arguments=given) if fits else asked
