"""Messages stream -> events. A machine without I/O; unknown events and blocks are ignored, nothing raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.types.messages import StopReason
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error
from palinurus.providers.wire import pick
from palinurus.providers.wire.arguments import scrub_surrogates
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.pick import decode_loose
from palinurus.providers.wire.sse import Event

STOPS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}


class AnthropicDelta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class AnthropicContent(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class AnthropicMessage(msgspec.Struct):
    """The message of `message_start`, and of an answer that was not streamed."""

    usage: Any = None
    content: list[AnthropicContent] | None = None
    stop_reason: str | None = None


class AnthropicTokens(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class AnthropicEvent(msgspec.Struct):
    type: str = ""
    index: int | None = None
    delta: AnthropicDelta | None = None
    content_block: AnthropicContent | None = None
    message: AnthropicMessage | str | None = None
    usage: Any = None
    error: Any = None
    content: list[AnthropicContent] | None = None
    stop_reason: str | None = None


_decode = msgspec.json.Decoder(AnthropicEvent).decode


class AnthropicDecoder(SseDecoder):
    """One answer."""

    __slots__ = ("_blocks", "_inputs", "_used")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._blocks: dict[int, BlockDraft | None] = {}  # None: a block of a kind we do not take
        self._inputs: dict[int, Any] = {}  # arguments that came whole with the start of their block
        self._used = [0, 0, 0, 0]  # the counts so far, in the order of AnthropicTokens

    def _take(self, piece: Event) -> None:
        name, payload = piece
        try:
            event = _decode(payload)
        except (msgspec.DecodeError, ValueError, RecursionError):
            found = None if self._closing else decode_loose(payload, AnthropicEvent)
            if found is None:
                if not _foreign(payload):
                    self._refuse_chunk(payload, "an event")
                return
            event = found
        self._seen = True
        handler = _HANDLERS.get(event.type or name)
        if handler is not None:
            handler(self, event)
        elif event.error:
            self._error(event)

    # --- one method per event ----------------------------------------------------------------------------------

    def _delta(self, event: AnthropicEvent) -> None:
        delta = event.delta
        if delta is None:
            return
        index = event.index or 0
        if delta.text or delta.thinking:
            part = self._blocks.get(index)
            if part is None:
                if index in self._blocks:
                    return
                part = self._blocks[index] = self._builder.part("text" if delta.text else "thinking")
            if part.kind in ("text", "thinking"):
                self._builder.grow(part, delta.text or delta.thinking or "")
        elif delta.partial_json:
            part = self._blocks.get(index)
            if part is not None and part.kind == "call":
                self._inputs.pop(index, None)
                self._builder.grow(part, delta.partial_json)
        elif delta.signature:
            part = self._blocks.get(index)
            if part is not None and part.kind == "thinking":
                part.signature = delta.signature  # comes whole; the official client replaces too

    def _start(self, event: AnthropicEvent) -> None:
        block, index = event.content_block, event.index or 0
        if block is None or index in self._blocks:  # a second start under one index changes nothing
            return
        self._blocks[index] = self._open(block, index)

    def _open(self, block: AnthropicContent, index: int) -> BlockDraft | None:
        builder = self._builder
        if block.type in ("text", "thinking"):
            part = builder.part("text" if block.type == "text" else "thinking")
            part.signature = (block.signature or None) if block.type == "thinking" else None
            if piece := block.text if block.type == "text" else block.thinking:
                builder.grow(part, piece)
            return part
        if block.type == "redacted_thinking":
            part = builder.part("redacted")
            part.signature = block.data
            return part
        if block.type == "tool_use":
            part = builder.part("call")
            builder.call(part, block.id, block.name or "")
            if block.input:
                self._inputs[index] = block.input
            return part
        return None

    def _input(self, index: int) -> None:
        part, value = self._blocks.get(index), self._inputs.pop(index, None)
        if part is not None and value:
            self._builder.grow(part, str(msgspec.json.encode(scrub_surrogates(value)), "utf-8"))

    def _begin(self, event: AnthropicEvent) -> None:
        if isinstance(event.message, AnthropicMessage) and event.message.usage:
            self._usage(event.message.usage)

    def _progress(self, event: AnthropicEvent) -> None:
        if event.delta is not None and event.delta.stop_reason and self._stop is None:
            self._stop = event.delta.stop_reason
        if event.usage:
            self._usage(event.usage)

    def _whole(self, event: AnthropicEvent) -> None:
        """The answer came as one object, not as a stream."""
        for index, block in enumerate(event.content or ()):
            self._blocks[index] = self._open(block, index)
            self._input(index)
        if event.usage:
            self._usage(event.usage)
        self._stop = event.stop_reason
        self._end()

    def _error(self, event: AnthropicEvent) -> None:
        self._builder.fail_with(classify_stream_error(event.error or event.message))

    def _usage(self, used: Any) -> None:
        """Counts are cumulative: the last one that was given holds. Unreadable ones cost us the counts only."""
        try:
            new = msgspec.convert(used, AnthropicTokens, strict=False)
        except (msgspec.ValidationError, ValueError, RecursionError):
            return
        counts = msgspec.structs.astuple(new)
        self._used = [old if count is None else max(0, count) for old, count in zip(self._used, counts, strict=True)]
        plain, output, read, write = self._used
        self._builder.usage = TokenUsage(plain, output, read, write)

    def _end(self) -> None:
        for index in tuple(self._inputs):
            self._input(index)
        if self._stop == "refusal":
            self._builder.fail("refused", "the model declined to answer")
        else:
            self._builder.finish(STOPS.get(self._stop or "end_turn", "stop"))


def _foreign(payload: bytes) -> bool:
    """Is this an event of a kind we do not know? Its fields may be of any type."""
    value = pick.read_object(payload)
    return value is not None and pick.get_text(value, "type") not in _HANDLERS and not value.get("error")


_HANDLERS: dict[str, Callable[[AnthropicDecoder, AnthropicEvent], None]] = {
    "content_block_delta": AnthropicDecoder._delta,
    "content_block_start": AnthropicDecoder._start,
    "content_block_stop": lambda decoder, event: decoder._input(event.index or 0),
    "message_start": AnthropicDecoder._begin,
    "message_delta": AnthropicDecoder._progress,
    "message_stop": lambda decoder, event: decoder._end(),
    "message": AnthropicDecoder._whole,
    "error": AnthropicDecoder._error,
}
