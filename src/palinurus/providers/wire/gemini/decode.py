"""Gemini stream -> events. A machine without I/O; unknown parts are ignored, nothing raises.

The protocol has no last event: the answer is complete when the stream ends after a finishReason.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import StopReason
from palinurus.core.types.model import FailureKind, ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error, clip_message
from palinurus.providers.wire import pick
from palinurus.providers.wire.arguments import write_arguments
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.sse import Event

STOPS: dict[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length", "FINISH_REASON_UNSPECIFIED": "stop"}
REFUSED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE")
MALFORMED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")


class GeminiDecoder(SseDecoder):
    """One answer."""

    __slots__ = ("_part", "_why")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._part: BlockDraft | None = None  # the text or thinking that grows
        self._why = ""

    def _take(self, piece: Event) -> None:
        chunk = pick.read_object(piece[1])
        if chunk is None:
            self._refuse_chunk(piece[1])
            return
        self._seen = True
        if chunk.get("error"):
            self._builder.fail_with(classify_stream_error(chunk["error"]))
            return
        if chunk.get("usageMetadata") is not None:
            self._builder.usage = read_usage(pick.get_object(chunk, "usageMetadata"))
        if blocked := pick.get_text(chunk, "promptFeedback", "blockReason"):
            self._builder.fail("refused", f"the provider blocked the prompt ({clip_message(blocked)})")
            return
        for candidate in pick.get_objects(chunk, "candidates")[:1]:
            for part in pick.get_objects(candidate, "content", "parts"):
                self._grow(part)
            if finish := pick.get_text(candidate, "finishReason"):
                self._stop = self._stop or finish
                self._why = self._why or pick.get_text(candidate, "finishMessage")

    def _grow(self, part: dict[str, Any]) -> None:
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
        part.signature = signature
        self._builder.grow(part, write_arguments(call.get("args")))

    def _end(self) -> None:
        stop = self._stop or ""
        if stop in STOPS:
            self._builder.finish(STOPS[stop])
            return
        detail = f": {clip_message(self._why)}" if self._why else ""
        text = f"the provider stopped the answer ({clip_message(stop)}){detail}"
        kind: FailureKind = "refused" if stop in REFUSED else "malformed" if stop in MALFORMED else "server"
        self._builder.fail(kind, text)


def read_usage(used: dict[str, Any]) -> TokenUsage:
    """Prompt tokens include what came from the cache; thoughts are output but counted apart."""
    prompt = pick.get_count(used, "promptTokenCount") + pick.get_count(used, "toolUsePromptTokenCount")
    read = min(prompt, pick.get_count(used, "cachedContentTokenCount"))
    output = pick.get_count(used, "candidatesTokenCount") + pick.get_count(used, "thoughtsTokenCount")
    return TokenUsage(prompt - read, output, read, 0, pick.get_count(used, "totalTokenCount") or prompt + output)
