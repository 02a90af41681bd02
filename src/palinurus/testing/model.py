"""A Model port that answers from a script and remembers what it was asked. No network, no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import msgspec

from palinurus.abort import Abort, Aborted
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, StopReason, TextBlock, ThinkingBlock, ToolCall, UserMessage
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelSpec,
    Prompt,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
)
from palinurus.testing.script import (
    ScriptedTurn,
    ScriptStep,
    StreamGate,
    call_tools,
    chunk_text,
    fail,
    hold_at,
    resolve_step,
    say,
)

__all__ = [
    "ScriptedModel",
    "ScriptedTurn",
    "StreamGate",
    "call_tools",
    "fail",
    "hold_at",
    "make_model_info",
    "make_request",
    "say",
]


class ScriptedModel:
    """Implements `core.types.model.Model`: one step of the script per request, in order of arrival.

    `requests` holds what was asked. With `repeat` the last step answers all further requests; without it a
    request beyond the script fails with kind `format`, so that a test that asks too often sees it.
    """

    def __init__(self, script: Iterable[ScriptStep], *, chunk: int = 8, repeat: bool = False) -> None:
        self._script = list(script)
        self._chunk = chunk
        self._repeat = repeat
        self._next = 0
        self.requests: list[ModelRequest] = []

    @property
    def steps_left(self) -> int:
        """Steps nobody has asked for yet."""
        return len(self._script) - self._next

    async def stream(self, request: ModelRequest, stop: Abort) -> AsyncIterator[ModelEvent]:
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
                yield StreamFailed(
                    ModelFailure("aborted", exc.reason, partial=bool(shown)), _partial(request, shown, "aborted")
                )
                return
            if n < len(events):
                shown.append(events[n])
                yield events[n]
        if turn.failure is not None:
            failure = msgspec.structs.replace(turn.failure, partial=bool(shown))
            yield StreamFailed(failure, _partial(request, shown, "error", failure.message))
            return
        yield StreamDone(_whole(request, turn, number))

    async def close(self) -> None:
        """Nothing to close; here because `providers.stream.Models` has it."""

    def _take(self, request: ModelRequest) -> ScriptedTurn:
        if self._next >= len(self._script):
            if not (self._repeat and self._script):
                return fail("format", f"the script of {len(self._script)} turns has no more")
            return resolve_step(self._script[-1], request)
        self._next += 1
        return resolve_step(self._script[self._next - 1], request)

    def _said(self, turn: ScriptedTurn) -> list[ModelEvent]:
        thoughts: list[ModelEvent] = [ThinkingDelta(piece) for piece in chunk_text(turn.thinking, self._chunk)]
        return thoughts + [TextDelta(piece) for piece in chunk_text(turn.text, self._chunk)]

    def _called(self, turn: ScriptedTurn, number: int) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for index, (name, args) in enumerate(turn.calls):
            events.append(CallStart(index, _call_id(number, index), name))
            events += [
                CallDelta(index, piece) for piece in chunk_text(msgspec.json.encode(args).decode(), self._chunk * 4)
            ]
        return events


def _call_id(number: int, index: int) -> str:
    return f"call_{number}_{index}"


def _whole(request: ModelRequest, turn: ScriptedTurn, number: int) -> AssistantMessage:
    content: list[TextBlock | ThinkingBlock | ToolCall] = []
    if turn.thinking:
        content.append(ThinkingBlock(turn.thinking, f"sig-{number}"))
    if turn.text:
        content.append(TextBlock(turn.text))
    content += [ToolCall(_call_id(number, i), name, args) for i, (name, args) in enumerate(turn.calls)]
    reason: StopReason = "toolUse" if turn.calls else "length" if turn.length else "stop"
    return _assistant(request, content, reason, turn)


def _partial(
    request: ModelRequest, shown: list[ModelEvent], reason: StopReason, error: str | None = None
) -> AssistantMessage:
    """What had arrived: text and thinking only, calls that were cut off are never run."""
    text = "".join(e.text for e in shown if isinstance(e, TextDelta))
    thinking = "".join(e.text for e in shown if isinstance(e, ThinkingDelta))
    content: list[TextBlock | ThinkingBlock | ToolCall] = [ThinkingBlock(thinking)] if thinking else []
    if text:
        content.append(TextBlock(text))
    return msgspec.structs.replace(_assistant(request, content, reason, None), errorMessage=error)


def _assistant(
    request: ModelRequest,
    content: list[TextBlock | ThinkingBlock | ToolCall],
    reason: StopReason,
    turn: ScriptedTurn | None,
) -> AssistantMessage:
    model = request.model
    plain = AssistantMessage(tuple(content), model.api, model.ref.provider, model.ref.model, stopReason=reason)
    return msgspec.structs.replace(plain, usage=turn.usage) if turn is not None else plain


def make_model_info(api: str = "openai-completions", provider: str = "fake", model: str = "model") -> ModelSpec:
    """Facts about a model that does not exist."""
    return ModelSpec(ModelRef(provider, model), api)


def make_request(text: str, model: ModelSpec | None = None) -> ModelRequest:
    """A request with one user message."""
    return ModelRequest(model or make_model_info(), Prompt("You are a test."), (UserMessage(text),))
