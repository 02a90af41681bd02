"""ConverseStream -> events. A machine without I/O; unknown events are ignored, nothing raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from palinurus.core.types.messages import StopReason
from palinurus.core.types.model import FailureKind, ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error, clip_message
from palinurus.providers.wire import pick
from palinurus.providers.wire.bedrock.frames import BedrockFrame, BedrockFrameReader
from palinurus.providers.wire.build import AnswerDecoder, BlockDraft

STOPS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
REFUSED = frozenset({"guardrail_intervened", "content_filtered"})
# Exceptions that come as frames, by the beginning of their name in lower case.
EXCEPTIONS: tuple[tuple[str, FailureKind], ...] = (
    ("throttling", "rate_limit"),
    ("servicequota", "rate_limit"),
    ("serviceunavailable", "overloaded"),
    ("modelnotready", "overloaded"),
    ("modeltimeout", "timeout"),
    ("accessdenied", "auth"),
    ("unrecognizedclient", "auth"),
    ("expiredtoken", "auth"),
    ("resourcenotfound", "not_found"),
    ("validation", "format"),
    ("modelstreamerror", "server"),
    ("modelerror", "server"),
    ("internalserver", "server"),
)


class BedrockDecoder(AnswerDecoder[BedrockFrame]):
    """One answer: complete with its metadata, or when the stream ends after the stop."""

    __slots__ = ("_metered", "_parts")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, BedrockFrameReader())
        self._parts: dict[int, BlockDraft] = {}
        self._metered = False

    def _take(self, piece: BedrockFrame) -> None:
        kind = piece.headers.get(":message-type", "event")
        payload = pick.read_object(piece.payload) or {}
        if kind != "event":
            name = piece.headers.get(":exception-type") or piece.headers.get(":error-code") or kind
            message = pick.get_text(payload, "message") or piece.headers.get(":error-message", "")
            self._refuse(name, message)
            return
        name = piece.headers.get(":event-type", "")
        if name.lower().endswith("exception"):
            self._refuse(name, pick.get_text(payload, "message"))
        elif name in self._RULES:
            self._RULES[name](self, payload)

    def _refuse(self, name: str, message: str) -> None:
        low = name.lower().replace("_", "")
        kind: FailureKind | None = next((k for start, k in EXCEPTIONS if low.startswith(start)), None)
        failure = classify_stream_error(
            {"message": message or name, "code": "invalid_argument" if kind == "format" else ""}
        )
        if kind is None or kind == "format":
            self._builder.fail_with(failure)  # the words decide, such as a prompt that is too long
        else:
            self._builder.fail(kind, clip_message(message or name))

    # --- events ------------------------------------------------------------------------------------------------

    def _find(self, event: dict[str, Any], kind: Literal["text", "thinking", "redacted", "call"]) -> BlockDraft:
        """The block of this index; a new one where the index holds another kind."""
        index = pick.get_count(event, "contentBlockIndex")
        part = self._parts.get(index)
        if part is None or part.kind != kind:
            part = self._parts[index] = self._builder.part(kind)
        return part

    def _start(self, event: dict[str, Any]) -> None:
        use = pick.get_object(event, "start", "toolUse")
        if use:
            part = self._find(event, "call")
            if part.index < 0:
                self._builder.call(part, pick.get_text(use, "toolUseId"), pick.get_text(use, "name"))

    def _delta(self, event: dict[str, Any]) -> None:
        delta = pick.get_object(event, "delta")
        if piece := pick.get_text(delta, "text"):
            self._builder.grow(self._find(event, "text"), piece)
        elif piece := pick.get_text(delta, "toolUse", "input"):
            self._builder.grow(self._find(event, "call"), piece)
        elif thought := pick.get_object(delta, "reasoningContent"):
            self._thought(event, thought)

    def _thought(self, event: dict[str, Any], thought: dict[str, Any]) -> None:
        if opaque := pick.get_text(thought, "redactedContent"):
            part = self._find(event, "redacted")
            part.signature = (part.signature or "") + opaque
            return
        part = self._find(event, "thinking")
        if piece := pick.get_text(thought, "text"):
            self._builder.grow(part, piece)
        if signature := pick.get_text(thought, "signature"):
            part.signature = (part.signature or "") + signature

    def _stopped(self, event: dict[str, Any]) -> None:
        self._stop = self._stop or pick.get_text(event, "stopReason") or "end_turn"
        if self._metered:
            self._end()

    def _metadata(self, event: dict[str, Any]) -> None:
        self._metered = True
        self._builder.usage = read_usage(pick.get_object(event, "usage"))
        if self._stop:
            self._end()

    def _end(self) -> None:
        stop = self._stop or ""
        if stop in REFUSED:
            self._builder.fail("refused", f"the provider stopped the answer ({stop})")
        else:
            self._builder.finish(STOPS.get(stop, "stop"))

    _RULES: ClassVar[dict[str, Callable[[BedrockDecoder, dict[str, Any]], None]]] = {
        "contentBlockStart": _start,
        "contentBlockDelta": _delta,
        "messageStop": _stopped,
        "metadata": _metadata,
    }


def read_usage(used: dict[str, Any]) -> TokenUsage:
    """Cached tokens are counted apart from input, as ours are."""
    plain, output = pick.get_count(used, "inputTokens"), pick.get_count(used, "outputTokens")
    read, write = pick.get_count(used, "cacheReadInputTokens"), pick.get_count(used, "cacheWriteInputTokens")
    return TokenUsage(plain, output, read, write, pick.get_count(used, "totalTokens") or plain + output + read + write)
