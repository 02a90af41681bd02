"""What another program reports, as our events and our transcript: texts, thoughts, tool calls and their results.

A text becomes a message only when it is known what follows it: a call, which ends the message, or the end of the run.
So a turn that is cut off between two texts does not look answered.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.agent import hookcalls
from palinurus.agent.card import make_plain_card
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.agent.toolcalls import STOPPED, STOPPERS
from palinurus.core.history.truncate import shorten_result
from palinurus.core.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEndReason,
    RunEvent,
    ToolEnd,
    ToolStart,
)
from palinurus.core.types.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.tools.files.paths import shorten_path

BETWEEN = "\n\n"  # two texts of one message
_SUMMARY = ("command", "path", "file_path", "query", "url", "pattern", "description")


class _Going(msgspec.Struct, frozen=True):
    call: ToolCall
    since: float


class RunMirror:
    """The state of one run. Every method returns the events that show what it was told."""

    def __init__(self, plan: RunPlan, ports: RunPorts, api: str) -> None:
        self._plan = plan
        self._ports = ports
        self._api = api
        self._blocks: list[TextBlock | ThinkingBlock] = []
        self._open = False  # MessageStart was shown
        self._streamed = ""  # shown of the text that is not complete yet
        self._going: dict[str, _Going] = {}
        self._new: list[Message] = list(plan.earlier)
        self._spent: list[TokenUsage] = []  # on no message yet
        self._total = TokenUsage()
        self._calls, self._since = 0, ports.clock.monotonic()  # messages so far, and when the last thing ended
        self.dirty = False  # something waits to be flushed
        self.acted = False  # the program has said or done something

    def begin(self) -> list[RunEvent]:
        plan = self._plan
        start = AgentStart(
            plan.id, str(plan.route.key), str(plan.model.ref), plan.started, reasoning=plan.show.reasoning
        )
        made: list[RunEvent] = [start]
        for message in plan.opening:
            self._add(message)
            made += [MessageStart(message)] if isinstance(message, UserMessage) else []
            made.append(MessageEnd(message))
        return made

    def add_steered(self, message: UserMessage, item: str) -> list[RunEvent]:
        """A person's message that the program is to see now."""
        self._add(message, absorb=(item,))
        return [MessageStart(message), MessageEnd(message)]

    def delta(self, text: str) -> list[RunEvent]:
        """An increment of a text whose end is to come with `said`."""
        if not text:
            return []
        first = not self._streamed and any(isinstance(block, TextBlock) for block in self._blocks)
        self._streamed += text
        return [*self._started(), *([MessageUpdate(BETWEEN)] if first else []), MessageUpdate(text)]

    def complete_text(self, text: str) -> list[RunEvent]:
        """A text is complete."""
        shown, rest = self._streamed, text
        if shown and text.startswith(shown):
            rest = text[len(shown) :]
        elif shown:
            rest = ""  # the program changed its mind; what counts is in the transcript
        made = self.delta(rest)
        self._streamed = ""
        if text:
            gap = BETWEEN if any(isinstance(block, TextBlock) for block in self._blocks) else ""
            self._blocks.append(TextBlock(gap + text))
        return made

    def thinking(self, text: str) -> list[RunEvent]:
        return [*self._started(), MessageUpdate(text, "thinking")] if text else []

    def complete_thought(self, text: str) -> None:
        """A thought is complete."""
        if text.strip():
            self._blocks.append(ThinkingBlock(text))

    def start_tool(self, ident: str, name: str, args: dict[str, Any]) -> list[RunEvent]:
        """The program has started a tool of its own. Told twice, it counts once."""
        if ident in self._going:
            return []
        call = ToolCall(ident, name, args)
        self._going[ident] = _Going(call, self._ports.clock.monotonic())
        summary = shorten_path(next((str(args[key]) for key in _SUMMARY if args.get(key)), ""))
        self._ports.record.step("tool", f"{name} {summary}".strip())
        made = self._started()
        return [*made, self._message("toolUse", (call,)), ToolStart(ident, name, args, summary)]

    def end_tool(self, ident: str, text: str, *, error: bool, source: str = "") -> list[RunEvent]:
        """A tool of its own has ended."""
        going = self._going.pop(ident, None)
        if going is None:
            return []
        plan, hooks = self._plan, self._ports.hooks
        cut = shorten_result(text, plan.settings.result_chars) if text else "(no output)"
        name, now = going.call.name, self._ports.clock.now()
        result = ToolResult(ident, name, (TextBlock(cut),), error, timestamp=now, source=source)
        (result,) = hookcalls.filter_results(hooks, plan, [result])
        self._since = self._ports.clock.monotonic()
        took = int((self._ports.clock.monotonic() - going.since) * 1000)
        self._ports.record.step("result", f"{name} {'error' if error else 'ok'} {took} ms")
        if hooks.has("after_tool_call"):
            outcome = {"error": result.text} if error else {"result": msgspec.to_builtins(result)}
            whose = {"runId": plan.id, "sessionKey": str(plan.route.key), "agentId": plan.route.agent}
            what = {"toolName": name, "toolCallId": ident, "params": going.call.arguments, "durationMs": took}
            hooks.observe("after_tool_call", {**what, **whose, **outcome})
        self._add(result)
        return [ToolEnd(ident, name, result, error, took_ms=took), MessageEnd(result)]

    def add_usage(self, usage: TokenUsage) -> None:
        """What one model call of the program used."""
        self._spent.append(usage)
        self._total = self._total + usage

    def cut(self) -> list[RunEvent]:
        """A text ends as it was shown: the program does not say when, or has died."""
        return self.complete_text(self._streamed) if self._streamed else []

    def finish(self, end: RunEndReason, failure: ModelFailure | None, notices: tuple[str, ...] = ()) -> list[RunEvent]:
        """The last events. Calls without a result get one that says so."""
        self.cut()
        made: list[RunEvent] = []
        why = self._ports.abort.reason or (failure.kind if failure else "ended")
        for ident in tuple(self._going):
            made += self.end_tool(ident, STOPPED.format(reason=STOPPERS.get(why, why)), error=True)
        stop: StopReason = "stop" if end == "stop" else "aborted" if end in ("aborted", "timeout") else "error"
        if self._blocks:
            made.append(self._message(stop, ()))
        if (rest := sum(self._spent, TokenUsage())) != TokenUsage():  # nobody can say of which message: in the ledger
            ref, now = self._plan.model.ref, self._ports.clock.now()
            told = AssistantMessage((), provider=ref.provider, model=ref.model, usage=rest, timestamp=now)
            self._ports.record.call(told, make_plain_card(told, now, self._why, purpose="told late"))
        made.append(
            AgentEnd(self._counted(), end, self._total, failure, ended=self._ports.clock.now(), notices=notices)
        )
        return made

    def _counted(self) -> tuple[Message, ...]:
        """The new messages. Usage is reported late: what no message has yet goes to the first that can take it."""
        rest = sum(self._spent, TokenUsage())
        if rest == TokenUsage():
            return tuple(self._new)
        for at, message in enumerate(self._new[len(self._plan.earlier) :], len(self._plan.earlier)):
            if isinstance(message, AssistantMessage):
                paid = msgspec.structs.replace(message, usage=message.usage + rest)
                return (*self._new[:at], paid, *self._new[at + 1 :])
        return tuple(self._new)

    def _started(self) -> list[RunEvent]:
        self.acted = True
        if self._open:
            return []
        self._open = True
        return [MessageStart()]

    def _message(self, stop: StopReason, calls: tuple[ToolCall, ...]) -> RunEvent:
        ref = self._plan.model.ref
        message = AssistantMessage(
            (*self._blocks, *calls),
            api=self._api,
            provider=ref.provider,
            model=ref.model,
            usage=self._spent.pop() if self._spent else TokenUsage(),
            stopReason=stop,
            timestamp=self._ports.clock.now(),
        )
        self._blocks, self._open, self._streamed = [], False, ""
        self._calls, level = self._calls + 1, self._plan.choices[0].level
        ms = int((self._ports.clock.monotonic() - self._since) * 1000)
        known = {"number": self._calls, "ms": ms, "level": level.level, "level_why": level.reason}
        self._ports.record.call(message, make_plain_card(message, message.timestamp - ms, self._why, **known))
        self._add(message, called=True)
        return MessageEnd(message)

    @property
    def _why(self) -> str:
        """Who chose the model; what the program makes of that is its own affair."""
        return f"{self._plan.choices[0].why}; asked by {self._api}"

    def _add(self, message: Message, absorb: tuple[str, ...] = (), *, called: bool = False) -> None:
        self._new.append(message)
        self._ports.record.add(message, absorb=absorb, called=called)
        self.dirty = True
