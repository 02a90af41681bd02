"""ConverseStream -> events. A machine without I/O; unknown events are ignored, nothing raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from palinurus.core.types.messages import StopReason
from palinurus.core.types.model import FailureKind, ModelEvent, ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import clip, in_stream
from palinurus.providers.wire import pick
from palinurus.providers.wire.bedrock.frames import Frame, Frames
from palinurus.providers.wire.build import Builder, Part

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


class BedrockDecoder:
    """One answer."""

    def __init__(self, request: ModelRequest) -> None:
        self._frames = Frames()
        self._builder = Builder(request)
        self._parts: dict[int, Part] = {}
        self._stop = ""
        self._metered = False
        self._last: list[ModelEvent] = []

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Take bytes, return the events they complete."""
        if self._builder.ended:
            return []
        for frame in self._frames.feed(data):
            self._frame(frame)
            if self._builder.ended:
                return self._last
        if self._frames.failed is not None:
            return self._builder.fail("malformed", f"the stream holds {self._frames.failed}")
        return self._builder.take()

    def close(self) -> list[ModelEvent]:
        """The stream has ended."""
        if self._builder.ended:
            return []
        if self._stop:
            self._end()
            return self._last
        return self._builder.fail("cut", "the stream ended before the answer was complete")

    def _frame(self, frame: Frame) -> None:
        kind = frame.headers.get(":message-type", "event")
        payload = pick.read(frame.payload) or {}
        if kind != "event":
            name = frame.headers.get(":exception-type") or frame.headers.get(":error-code") or kind
            message = pick.text(payload, "message") or frame.headers.get(":error-message", "")
            self._refuse(name, message)
            return
        name = frame.headers.get(":event-type", "")
        if name.lower().endswith("exception"):
            self._refuse(name, pick.text(payload, "message"))
        elif name in self._RULES:
            self._RULES[name](self, payload)

    def _refuse(self, name: str, message: str) -> None:
        low = name.lower().replace("_", "")
        kind: FailureKind | None = next((k for start, k in EXCEPTIONS if low.startswith(start)), None)
        failure = in_stream({"message": message or name, "code": "invalid_argument" if kind == "format" else ""})
        if kind is None or kind == "format":
            self._last = self._builder.fail_with(failure)  # the words decide, such as a prompt that is too long
        else:
            self._last = self._builder.fail(kind, clip(message or name))

    # --- events ------------------------------------------------------------------------------------------------

    def _find(self, event: dict[str, Any], kind: Literal["text", "thinking", "redacted", "call"]) -> Part:
        """The block of this index; a new one where the index holds another kind."""
        index = pick.count(event, "contentBlockIndex")
        part = self._parts.get(index)
        if part is None or part.kind != kind:
            part = self._parts[index] = self._builder.part(kind)
        return part

    def _start(self, event: dict[str, Any]) -> None:
        use = pick.item(event, "start", "toolUse")
        if use:
            part = self._find(event, "call")
            if part.index < 0:
                self._builder.call(part, pick.text(use, "toolUseId"), pick.text(use, "name"))

    def _delta(self, event: dict[str, Any]) -> None:
        delta = pick.item(event, "delta")
        if piece := pick.text(delta, "text"):
            self._builder.grow(self._find(event, "text"), piece)
        elif piece := pick.text(delta, "toolUse", "input"):
            self._builder.grow(self._find(event, "call"), piece)
        elif thought := pick.item(delta, "reasoningContent"):
            self._thought(event, thought)

    def _thought(self, event: dict[str, Any], thought: dict[str, Any]) -> None:
        if opaque := pick.text(thought, "redactedContent"):
            part = self._find(event, "redacted")
            part.signature = (part.signature or "") + opaque
            return
        part = self._find(event, "thinking")
        if piece := pick.text(thought, "text"):
            self._builder.grow(part, piece)
        if signature := pick.text(thought, "signature"):
            part.signature = (part.signature or "") + signature

    def _stopped(self, event: dict[str, Any]) -> None:
        self._stop = self._stop or pick.text(event, "stopReason") or "end_turn"
        if self._metered:
            self._end()

    def _metadata(self, event: dict[str, Any]) -> None:
        self._metered = True
        self._builder.usage = usage(pick.item(event, "usage"))
        if self._stop:
            self._end()

    def _end(self) -> None:
        if self._stop in REFUSED:
            self._last = self._builder.fail("refused", f"the provider stopped the answer ({self._stop})")
        else:
            self._last = self._builder.finish(STOPS.get(self._stop, "stop"))

    _RULES: ClassVar[dict[str, Callable[[BedrockDecoder, dict[str, Any]], None]]] = {
        "contentBlockStart": _start,
        "contentBlockDelta": _delta,
        "messageStop": _stopped,
        "metadata": _metadata,
    }


def usage(used: dict[str, Any]) -> TokenUsage:
    """Cached tokens are counted apart from input, as ours are."""
    plain, output = pick.count(used, "inputTokens"), pick.count(used, "outputTokens")
    read, write = pick.count(used, "cacheReadInputTokens"), pick.count(used, "cacheWriteInputTokens")
    return TokenUsage(plain, output, read, write, pick.count(used, "totalTokens") or plain + output + read + write)
