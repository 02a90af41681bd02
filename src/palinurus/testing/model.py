"""A Model port that answers from a script and remembers what it was asked: is each request the one before it plus
something at the end, so that providers can cache it? No network, no time.

    model = ScriptedModel([call_tools(("read", {"path": "a.txt"})), say("It says hello."), fail("rate_limit")])
    assert_prefix_stable(model.requests)    # raises AssertionError naming section, byte and both texts
    assert measure_cacheable_share(model.requests) > 0.95
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from palinurus.abort import Aborted
from palinurus.agent.fingerprint import CacheBreak, RequestSnapshot, count_kept_bytes, find_cache_break
from palinurus.agent.promptcache import describe_break
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, StopReason, TextBlock, ThinkingBlock, ToolCall, UserMessage
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    FailureKind,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelSpec,
    Prompt,
    StopSignal,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
)
from palinurus.core.types.usage import TokenUsage


def assert_prefix_stable(requests: Sequence[ModelRequest], breaks: Collection[int] = ()) -> None:
    """Raise AssertionError at the first request that changes what came before it.

    `breaks` are the indexes of requests that may (after a compaction, a switch of models); one that does not need to
    be there is an error too, so that a declared break is a real one.
    """
    for index, found in enumerate(find_prefix_breaks(requests), 1):
        if found is not None and index not in breaks:
            sides = f"\n  was: {found.before!r}\n  now: {found.after!r}" if found.before or found.after else ""
            raise AssertionError(f"request {index} breaks the cached prefix: {describe_break(found)}{sides}")
        if found is None and index in breaks:
            raise AssertionError(f"request {index} was declared a break, but its prefix is unchanged")


def find_prefix_breaks(requests: Iterable[ModelRequest]) -> list[CacheBreak | None]:
    """For each request but the first: where it leaves the one before, None where it only adds."""
    found: list[CacheBreak | None] = []
    last: RequestSnapshot | None = None
    for request in requests:
        new = (last or RequestSnapshot()).after(request)
        if last is not None:
            found.append(find_cache_break(last, new))
        last = new
    return found


def measure_cacheable_share(requests: Sequence[ModelRequest], breaks: Collection[int] = ()) -> float:
    """The share of all prompt bytes that stood at the beginning of the request before, declared breaks left out."""
    hit, total = 0, 0
    last: RequestSnapshot | None = None
    for index, request in enumerate(requests):
        new = (last or RequestSnapshot()).after(request)
        if last is not None and index not in breaks:
            hit += count_kept_bytes(last.print, new.print)
            total += new.print.size
        last = new
    return hit / total if total else 1.0


class StreamGate:
    """Holds a stream at a place until the test opens it. `await gate.reached()` returns when the stream is there."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._open = asyncio.Event()

    async def wait_reached(self, timeout: float = 10.0) -> None:
        """Wait until a stream stands at the gate. Raises TimeoutError."""
        await asyncio.wait_for(self._reached.wait(), timeout)

    def open(self) -> None:
        """Let it through, now and whenever it comes by again."""
        self._open.set()

    async def wait_open(self) -> None:
        """Called by the stream: say that it is here, wait until it may go on."""
        self._reached.set()
        await self._open.wait()


class ScriptedTurn(msgspec.Struct, frozen=True):
    """One answer of the model. With `failure` it ends in that after what it said before."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    failure: ModelFailure | None = None
    usage: TokenUsage = TokenUsage(10, 5, 0, 0, totalTokens=15)
    gates: tuple[tuple[int, StreamGate], ...] = ()  # (n, gate): stand at gate before the n-th event, counted from 0
    length: bool = False  # stopped because the token limit was reached


ScriptAnswer: TypeAlias = ScriptedTurn | ModelFailure | str
ScriptStep: TypeAlias = ScriptAnswer | Callable[[Any], ScriptAnswer]


def say(text: str, thinking: str = "") -> ScriptedTurn:
    """A final answer."""
    return ScriptedTurn(text, thinking)


def call_tools(*wanted: tuple[str, dict[str, Any]], text: str = "", thinking: str = "") -> ScriptedTurn:
    """Tool calls `(name, arguments)`, run as one batch; `text` comes before them."""
    return ScriptedTurn(text, thinking, wanted)


def fail(kind: FailureKind, message: str = "", *, after: str = "", retry_after: float | None = None) -> ScriptedTurn:
    """A failure; `after` is text that had already been streamed."""
    failure = ModelFailure(kind, message or f"scripted {kind}", retry_after=retry_after, partial=bool(after))
    return ScriptedTurn(after, failure=failure)


def hold_at(turn: ScriptedTurn, gate: StreamGate, before: int = 1) -> ScriptedTurn:
    """The same turn, standing at `gate` before its event number `before` (0: before anything came)."""
    return msgspec.structs.replace(turn, gates=(*turn.gates, (before, gate)))


def resolve_step(step: ScriptStep, request: Any) -> ScriptedTurn:
    """What a step of a script amounts to for this request."""
    answer: ScriptAnswer = step(request) if callable(step) else step
    if isinstance(answer, str):
        return ScriptedTurn(answer)
    if isinstance(answer, ModelFailure):
        return ScriptedTurn(failure=answer)
    return answer


MOST_PIECES = 250


def chunk_text(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters, or in larger ones where these were more than `MOST_PIECES`: what fills a
    window is not there for its pieces. Whole when size is 0, none when it is empty."""
    size = max(size, -(-len(text) // MOST_PIECES)) if size > 0 else max(1, len(text))
    return [text[at : at + size] for at in range(0, len(text), size)]


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

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
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
