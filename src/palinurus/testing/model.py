"""A Model port that answers from a script and remembers what it was asked. No network, no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import msgspec

from palinurus.abort import Abort, Aborted
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import Assistant, StopReason, Text, Thinking, ToolCall, User
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    Done,
    Failed,
    Failure,
    ModelEvent,
    ModelInfo,
    Prompt,
    Request,
    TextDelta,
    ThinkingDelta,
)
from palinurus.testing.script import Gate, Step, Turn, calls, cut, fail, held, say, turn_of

__all__ = ["Gate", "ScriptedModel", "Turn", "ask", "calls", "fail", "held", "info", "say"]


class ScriptedModel:
    """Implements `core.types.model.Model`: one step of the script per request, in order of arrival.

    `requests` holds what was asked. With `repeat` the last step answers all further requests; without it a
    request beyond the script fails with kind `format`, so that a test that asks too often sees it.
    """

    def __init__(self, script: Iterable[Step], *, chunk: int = 8, repeat: bool = False) -> None:
        self._script = list(script)
        self._chunk = chunk
        self._repeat = repeat
        self._next = 0
        self.requests: list[Request] = []

    @property
    def steps_left(self) -> int:
        """Steps nobody has asked for yet."""
        return len(self._script) - self._next

    async def stream(self, request: Request, stop: Abort) -> AsyncIterator[ModelEvent]:
        """The events of the next step. Ends with Done or Failed; a set `stop` ends it with Failed(aborted)."""
        number = len(self.requests)
        self.requests.append(request)
        turn = self._take(request)
        gates = dict(turn.gates)
        events = [*self._said(turn), *self._called(turn, number)]
        shown: list[ModelEvent] = []
        for n in range(len(events) + 1):
            try:
                if n in gates:
                    await stop.wait(gates[n].wait_open())
                elif stop.reason is not None:
                    raise Aborted(stop.reason)
            except Aborted as exc:
                yield Failed(Failure("aborted", exc.reason, partial=bool(shown)), _partial(request, shown, "aborted"))
                return
            if n < len(events):
                shown.append(events[n])
                yield events[n]
        if turn.failure is not None:
            failure = msgspec.structs.replace(turn.failure, partial=bool(shown))
            yield Failed(failure, _partial(request, shown, "error", failure.message))
            return
        yield Done(_whole(request, turn, number))

    async def close(self) -> None:
        """Nothing to close; here because `providers.stream.Models` has it."""

    def _take(self, request: Request) -> Turn:
        if self._next >= len(self._script):
            if not (self._repeat and self._script):
                return fail("format", f"the script of {len(self._script)} turns has no more")
            return turn_of(self._script[-1], request)
        self._next += 1
        return turn_of(self._script[self._next - 1], request)

    def _said(self, turn: Turn) -> list[ModelEvent]:
        thoughts: list[ModelEvent] = [ThinkingDelta(piece) for piece in cut(turn.thinking, self._chunk)]
        return thoughts + [TextDelta(piece) for piece in cut(turn.text, self._chunk)]

    def _called(self, turn: Turn, number: int) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for index, (name, args) in enumerate(turn.calls):
            events.append(CallStart(index, _call_id(number, index), name))
            events += [CallDelta(index, piece) for piece in cut(msgspec.json.encode(args).decode(), self._chunk * 4)]
        return events


def _call_id(number: int, index: int) -> str:
    return f"call_{number}_{index}"


def _whole(request: Request, turn: Turn, number: int) -> Assistant:
    content: list[Text | Thinking | ToolCall] = []
    if turn.thinking:
        content.append(Thinking(turn.thinking, f"sig-{number}"))
    if turn.text:
        content.append(Text(turn.text))
    content += [ToolCall(_call_id(number, i), name, args) for i, (name, args) in enumerate(turn.calls)]
    reason: StopReason = "toolUse" if turn.calls else "length" if turn.length else "stop"
    return _assistant(request, content, reason, turn)


def _partial(request: Request, shown: list[ModelEvent], reason: StopReason, error: str | None = None) -> Assistant:
    """What had arrived: text and thinking only, calls that were cut off are never run."""
    text = "".join(e.text for e in shown if isinstance(e, TextDelta))
    thinking = "".join(e.text for e in shown if isinstance(e, ThinkingDelta))
    content: list[Text | Thinking | ToolCall] = [Thinking(thinking)] if thinking else []
    if text:
        content.append(Text(text))
    return msgspec.structs.replace(_assistant(request, content, reason, None), errorMessage=error)


def _assistant(
    request: Request, content: list[Text | Thinking | ToolCall], reason: StopReason, turn: Turn | None
) -> Assistant:
    model = request.model
    plain = Assistant(tuple(content), model.api, model.ref.provider, model.ref.model, stopReason=reason)
    return msgspec.structs.replace(plain, usage=turn.usage) if turn is not None else plain


def info(api: str = "openai-completions", provider: str = "fake", model: str = "model") -> ModelInfo:
    """Facts about a model that does not exist."""
    return ModelInfo(ModelRef(provider, model), api)


def ask(text: str, model: ModelInfo | None = None) -> Request:
    """A request with one user message."""
    return Request(model or info(), Prompt("You are a test."), (User(text),))
