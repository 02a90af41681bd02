"""Anthropic Messages, and the servers that speak it: a request as a body, the stream as events.

Cache marks lie where the prefix is the same next time. At most four are allowed: the last tool, the stable part of the
system prompt, and the ends of the last two user turns (the older one is where the previous request ended, so that a
long batch of results still finds it). How a level becomes thinking fields is the vendor's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
)
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.patterns import decode_late
from palinurus.providers.errors import classify_stream_error
from palinurus.providers.wire import ModelWire, history, pick
from palinurus.providers.wire.arguments import scrub_surrogates
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.history import CallIds, make_tool_name
from palinurus.providers.wire.pick import decode_loose
from palinurus.providers.wire.sse import Event

# --- the request ----------------------------------------------------------------------------------------------

VERSION = "2023-06-01"
MAX_OUTPUT = 32_000  # when nothing is asked for


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, ready for JSON."""
    model, sampling = request.model, history.read_sampling(request)
    mark = _mark(model.params)
    messages = _messages(request)
    body: dict[str, Any] = {
        "model": model.ref.model,
        "max_tokens": sampling.max_tokens or min(model.max_tokens, MAX_OUTPUT),
        "messages": messages,
        "stream": True,
    }
    system = _system(request, mark)
    if system:
        body["system"] = system
    if request.tools and model.tools:
        tools = [_tool(t.name, t.description, t.parameters) for t in request.tools]
        if mark:
            tools[-1]["cache_control"] = mark
        body["tools"] = tools
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
    elif names := history.list_used_tools(request.messages):  # a history with calls is refused where no tool is defined
        body["tools"] = [_tool(name, history.TOOL_GONE, {}) for name in names]
        body["tool_choice"] = {"type": "none"}
    if mark:
        _mark_turns(messages, mark)
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    elif sampling.top_p is not None:  # newer models refuse the two together
        body["top_p"] = sampling.top_p
    return body | history.read_controls(request)


def build_path(request: ModelRequest) -> str:
    """The tail of the URL; bases are written with and without the version."""
    base = request.model.base_url.rstrip("/")
    return "" if base.endswith("/messages") else "/messages" if base.endswith("/v1") else "/v1/messages"


def build_headers(request: ModelRequest) -> dict[str, str]:
    """The protocol version."""
    return {"anthropic-version": VERSION}


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": history.make_object_schema(parameters)}


def _mark(params: dict[str, Any]) -> dict[str, Any] | None:
    keep = params.get("cacheRetention", "short")
    if keep == "none":
        return None
    return {"type": "ephemeral", "ttl": "1h"} if keep == "long" else {"type": "ephemeral"}


def _system(request: ModelRequest, mark: dict[str, Any] | None) -> list[dict[str, Any]]:
    prompt = request.prompt
    out = [_text(text) for text in (prompt.stable, prompt.volatile) if not history.is_blank(text)]
    if mark and not history.is_blank(prompt.stable):
        out[0]["cache_control"] = mark
    return out


def _mark_turns(messages: list[dict[str, Any]], mark: dict[str, Any]) -> None:
    users = [m for m in messages if m["role"] == "user"]
    for message in users[-2:]:
        message["content"][-1]["cache_control"] = mark


def _choice(choice: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(choice, dict) and "function" not in choice:
        return choice  # in this API's own form
    mode, name = history.read_tool_choice(choice)
    return {"type": mode, "name": name} if name else {"type": mode}


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    ident = CallIds(history.make_safe_ids(64))
    show = partial(history.show_blocks, vision=request.model.vision, text=_text, image=_image)
    return history.build_turns(
        request.messages,
        lambda message: show(message.blocks),
        lambda message: _result(message, show(message.content), ident),
        lambda message: _said(message, request, ident),
        opening=_text(history.OPENING),
        is_result=lambda block: block["type"] == "tool_result",
    )


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.mimeType, "data": image.data}}


def _result(message: ToolResult, content: list[dict[str, Any]], ident: CallIds) -> list[dict[str, Any]]:
    """The result; pictures of one that failed stand behind it, because an error may hold text only."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ident(message.toolCallId)}
    beside: list[dict[str, Any]] = []
    if message.isError:
        beside = [part for part in content if part["type"] == "image"]
        content = [part for part in content if part["type"] == "text"]
        block["is_error"] = True
    block["content"] = content or [_text(history.NO_OUTPUT)]
    return [block, *beside]


def _said(message: AssistantMessage, request: ModelRequest, ident: CallIds) -> list[dict[str, Any]]:
    same = history.is_own_answer(message, request.model)
    out: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            if not history.is_blank(block.text):
                out.append(_text(block.text))
        elif isinstance(block, ToolCall):
            use = {"id": ident(block.id), "name": make_tool_name(block.name), "input": block.arguments}
            out.append({"type": "tool_use", **use})
        elif isinstance(block, ThinkingBlock) and same and (signature := (block.thinkingSignature or "").strip()):
            if block.redacted:
                out.append({"type": "redacted_thinking", "data": signature})
            else:
                out.append({"type": "thinking", "thinking": block.thinking, "signature": signature})
    return out if any(b["type"] in ("text", "tool_use") for b in out) else []


# --- the answer -----------------------------------------------------------------------------------------------

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


_decoder = decode_late(AnthropicEvent)


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
            event = _decoder.decode(payload)
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
        part, piece = self._blocks.get(index), delta.text or delta.thinking
        if piece and index not in self._blocks:
            part = self._blocks[index] = self._builder.part("text" if delta.text else "thinking")
        if part is None:
            return
        if piece:
            if part.kind in ("text", "thinking"):
                self._builder.grow(part, piece)
        elif delta.partial_json:
            if part.kind == "call":
                self._inputs.pop(index, None)
                self._builder.grow(part, delta.partial_json)
        elif delta.signature and part.kind == "thinking":
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


WIRE = ModelWire(
    encode=encode, decoder=AnthropicDecoder, path=build_path, headers=build_headers, key_header="x-api-key"
)
