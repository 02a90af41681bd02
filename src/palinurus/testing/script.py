"""What a scripted model says: values and the small words to write them with. Shared by `model` and `server`.

script = [calls(("read", {"path": "a.txt"})), say("It says hello."), fail("rate_limit"), lambda request: say("hi")]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.core.types.usage import TokenUsage


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
    usage: TokenUsage = TokenUsage(10, 5, 0, 0, 15)
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


def chunk_text(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters; whole when size is 0, none when it is empty."""
    if not text:
        return []
    return [text[at : at + size] for at in range(0, len(text), size)] if size > 0 else [text]
