"""Gemini stream -> events. A machine without I/O; unknown parts are ignored, nothing raises.

The protocol has no last event: the answer is complete when the stream ends after a finishReason.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.core.types.messages import StopReason, ToolCall
from palinurus.core.types.model import FailureKind, ModelEvent, ModelRequest, StreamDone
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error, clip_message
from palinurus.providers.wire import pick
from palinurus.providers.wire.arguments import write_arguments
from palinurus.providers.wire.build import AnswerBuilder, BlockDraft
from palinurus.providers.wire.sse import SseReader

STOPS: dict[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length", "FINISH_REASON_UNSPECIFIED": "stop"}
FAILS: dict[str, FailureKind] = {
    "SAFETY": "refused",
    "RECITATION": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "IMAGE_SAFETY": "refused",
    "LANGUAGE": "refused",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "TOO_MANY_TOOL_CALLS": "malformed",
}


class GeminiDecoder:
    """One answer."""

    def __init__(self, request: ModelRequest) -> None:
        self._sse = SseReader()
        self._builder = AnswerBuilder(request)
        self._part: BlockDraft | None = None  # the text or thinking that grows
        self._thoughts: dict[str, str] = {}  # call id -> its signature
        self._finish = ""
        self._why = ""
        self._last: list[ModelEvent] = []
        self._seen = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Take bytes, return the events they complete."""
        if self._builder.ended:
            return []
        for _, payload in self._sse.feed(data):
            self._payload(payload)
            if self._builder.ended:
                return self._last
        if self._sse.failed is not None:
            return self._builder.fail("malformed", f"the stream holds {self._sse.failed}")
        return self._builder.take()

    def close(self) -> list[ModelEvent]:
        """The stream has ended."""
        builder = self._builder
        if builder.ended:
            return []
        for _, payload in self._sse.close():
            self._payload(payload, closing=True)
            if builder.ended:
                return self._last
        odd = self._sse.odd
        if not self._seen and odd[:1] in (b"{", b"["):
            self._payload(odd.lstrip(b"["), closing=True)
        if builder.ended:
            return self._last
        if self._finish:
            return self._end()
        if not self._seen and odd:
            return builder.fail("malformed", f"not an event stream: {clip_message(odd.decode('utf-8', 'replace'))}")
        return builder.fail("cut", "the stream ended before the answer was complete")

    def _payload(self, payload: bytes, closing: bool = False) -> None:
        chunk = pick.read_object(payload)
        if chunk is None:
            if not closing and payload.lstrip()[:1] in (b"{", b"["):
                self._last = self._builder.fail("malformed", "the stream holds a chunk that cannot be read")
            return
        self._seen = True
        if chunk.get("error"):
            self._last = self._builder.fail_with(classify_stream_error(chunk["error"]))
            return
        if chunk.get("usageMetadata") is not None:
            self._builder.usage = read_usage(pick.get_object(chunk, "usageMetadata"))
        if blocked := pick.get_text(chunk, "promptFeedback", "blockReason"):
            self._last = self._builder.fail("refused", f"the provider blocked the prompt ({clip_message(blocked)})")
            return
        for candidate in pick.get_objects(chunk, "candidates")[:1]:
            for part in pick.get_objects(candidate, "content", "parts"):
                self._take(part)
            if finish := pick.get_text(candidate, "finishReason"):
                self._finish = self._finish or finish
                self._why = self._why or pick.get_text(candidate, "finishMessage")

    def _take(self, part: dict[str, Any]) -> None:
        signature = pick.get_text(part, "thoughtSignature") or None
        if "functionCall" in part:
            self._call(pick.get_object(part, "functionCall"), signature)
            return
        piece = pick.get_text(part, "text")
        kind = "thinking" if part.get("thought") is True else "text"
        if self._part is None or self._part.kind != kind:
            if not piece and not signature:
                return
            if not piece and self._part is not None:
                # A signature on an empty part belongs to what came before it.
                self._part.signature = signature
                return
            self._part = self._builder.part("thinking" if kind == "thinking" else "text")
        if piece:
            self._builder.grow(self._part, piece)
        if signature:
            self._part.signature = signature

    def _call(self, call: dict[str, Any], signature: str | None) -> None:
        self._part = None
        part = self._builder.part("call")
        self._builder.call(part, pick.get_text(call, "id"), pick.get_text(call, "name"))
        if signature:
            self._thoughts[part.id] = signature
        self._builder.grow(part, write_arguments(call.get("args")))

    def _end(self) -> list[ModelEvent]:
        if self._finish in STOPS:
            return [self._signed(event) for event in self._builder.finish(STOPS[self._finish])]
        kind = FAILS.get(self._finish, "server")
        detail = f": {clip_message(self._why)}" if self._why else ""
        return self._builder.fail(kind, f"the provider stopped the answer ({clip_message(self._finish)}){detail}")

    def _signed(self, event: ModelEvent) -> ModelEvent:
        if not isinstance(event, StreamDone) or not self._thoughts:
            return event
        blocks = tuple(
            msgspec.structs.replace(b, thoughtSignature=self._thoughts.get(b.id)) if isinstance(b, ToolCall) else b
            for b in event.message.content
        )
        return StreamDone(msgspec.structs.replace(event.message, content=blocks))


def read_usage(used: dict[str, Any]) -> TokenUsage:
    """Prompt tokens include what came from the cache; thoughts are output but counted apart."""
    prompt = pick.get_count(used, "promptTokenCount") + pick.get_count(used, "toolUsePromptTokenCount")
    read = min(prompt, pick.get_count(used, "cachedContentTokenCount"))
    output = pick.get_count(used, "candidatesTokenCount") + pick.get_count(used, "thoughtsTokenCount")
    return TokenUsage(prompt - read, output, read, 0, pick.get_count(used, "totalTokenCount") or prompt + output)
