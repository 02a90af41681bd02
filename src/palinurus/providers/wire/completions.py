"""OpenAI Chat Completions, and the many servers that speak it: a request as a body, the stream as events.

What servers take differs: these are `compat` facts of the model, not names (supportsDeveloperRole,
supportsUsageInStreaming, supportsStore, maxTokensField, requiresToolResultName, requiresAssistantAfterToolResult,
requiresMistralToolIds, requiresThinkingAsText, keepReasoning). What they send differs too: indices missing or out of
order, ids missing, the whole answer in one chunk, no [DONE], usage in a choice, reasoning under three names. All of
that is one protocol here. How a level becomes a field is the vendor's affair.
"""

from __future__ import annotations

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
    UserMessage,
)
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.usage import TokenUsage
from palinurus.patterns import decode_late
from palinurus.providers.errors import classify_stream_error
from palinurus.providers.wire import ModelWire, history
from palinurus.providers.wire.arguments import encode_json, scrub_surrogates
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.history import Blocks, CallIds, make_tool_name
from palinurus.providers.wire.pick import decode_loose
from palinurus.providers.wire.sse import Event

# --- the request ----------------------------------------------------------------------------------------------

# Reasoning goes back under the name it came with.
_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
SEEN = "I have seen the results."  # for servers that want an answer between results and the user


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, ready for JSON."""
    model, compat = request.model, request.model.compat
    body: dict[str, Any] = {"model": model.ref.model, "messages": _messages(request), "stream": True}
    if compat.get("supportsUsageInStreaming", True):
        body["stream_options"] = {"include_usage": True}
    sampling = history.read_sampling(request)
    body.update(sampling.name(compat.get("maxTokensField", "max_tokens"), "temperature", "top_p"))
    body.update(history.read_controls(request))
    if compat.get("supportsStore"):
        body["store"] = False
    if request.tools and model.tools:
        body["tools"] = history.describe_functions(request.tools)
        if request.tool_choice is not None:
            body["tool_choice"] = "required" if request.tool_choice == "any" else request.tool_choice
    if request.schema is not None:
        named = {"name": "action", "schema": request.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    extra = model.params.get("extraBody") or model.params.get("extra_body")
    if isinstance(extra, dict):
        body.update(extra)
    return body


def build_path(request: ModelRequest) -> str:
    """The tail of the URL; the base holds the version."""
    return "" if request.model.base_url.rstrip("/").endswith("/chat/completions") else "/chat/completions"


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    model, compat = request.model, request.model.compat
    ident = CallIds(history.make_exact_ids(9) if compat.get("requiresMistralToolIds") else history.make_safe_ids(40))
    out: list[dict[str, Any]] = []
    if request.prompt.text:
        developer = model.reasoning and compat.get("supportsDeveloperRole")
        out.append({"role": "developer" if developer else "system", "content": request.prompt.text})
    turns = sum(isinstance(message, UserMessage) for message in request.messages)  # to come
    for message in history.gather_pictures(request.messages, model.vision):
        if isinstance(message, list):
            shown = [_text("Images from the tool results above:"), *map(_image, message)]
            out.append({"role": "user", "content": shown})
        elif isinstance(message, ToolResult):
            out.append(_result(message, model, ident))
        elif isinstance(message, UserMessage):
            turns -= 1
            out.append({"role": "user", "content": _content(message.blocks, model)})
        elif said := _assistant(message, request, not turns, ident):
            out.append(said)
    if not out or (len(out) == 1 and out[0]["role"] != "user"):
        out.append({"role": "user", "content": history.OPENING})
    return _answered(out) if compat.get("requiresAssistantAfterToolResult") else out


def _answered(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer between each batch of results and the user who speaks next."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "user" and out and out[-1]["role"] == "tool":
            out.append({"role": "assistant", "content": SEEN})
        out.append(message)
    return out


def _content(blocks: Blocks, model: ModelSpec) -> str | list[dict[str, Any]]:
    if not model.vision or not history.list_pictures(blocks):
        return history.join_texts(blocks, False) or history.EMPTY_MESSAGE
    return history.show_blocks(blocks, True, _text, _image)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.mimeType};base64,{image.data}"}}


def _result(message: ToolResult, model: ModelSpec, ident: CallIds) -> dict[str, Any]:
    pictured = any(isinstance(block, ImageBlock) for block in message.content)
    text = history.join_texts(message.content, model.vision) or (history.SEE_IMAGE if pictured else history.NO_OUTPUT)
    out = {"role": "tool", "tool_call_id": ident(message.toolCallId), "content": text}
    if model.compat.get("requiresToolResultName"):
        out["name"] = make_tool_name(message.toolName)
    return out


def _assistant(
    message: AssistantMessage, request: ModelRequest, current: bool, ident: CallIds
) -> dict[str, Any] | None:
    """None when nothing of it can be sent. `current`: it belongs to the turn that is going on."""
    compat = request.model.compat
    text, calls, thought, field = "", [], "", ""
    for block in message.content:
        if isinstance(block, TextBlock):
            text += block.text
        elif isinstance(block, ToolCall):
            arguments = str(encode_json(block.arguments), "utf-8") if block.arguments else "{}"
            function = {"name": make_tool_name(block.name), "arguments": arguments}
            calls.append({"id": ident(block.id), "type": "function", "function": function})
        elif isinstance(block, ThinkingBlock) and block.thinkingSignature in _FIELDS:
            thought, field = thought + block.thinking, block.thinkingSignature or ""
    same = thought and history.is_own_answer(message, request.model)
    if same and compat.get("requiresThinkingAsText"):
        text = f"{thought}\n\n{text}" if text else thought
    text = "" if text.isspace() else text
    if not text and not calls:
        return None
    out: dict[str, Any] = {"role": "assistant", "content": text or None}
    if same and not compat.get("requiresThinkingAsText") and (current or compat.get("keepReasoning")):
        out[field] = thought
    if calls:
        out["tool_calls"] = calls
    return out


# --- the answer -----------------------------------------------------------------------------------------------

STOPS: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}


class CompletionsFunction(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CompletionsCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: CompletionsFunction | None = None


class CompletionsDelta(msgspec.Struct):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Any] | None = None
    reasoning_text: str | None = None
    tool_calls: list[CompletionsCall] | None = None
    function_call: CompletionsFunction | None = None
    refusal: str | None = None


class CompletionsTokenDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionsTokens(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: CompletionsTokenDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class CompletionsChoice(msgspec.Struct):
    delta: CompletionsDelta | None = None
    message: CompletionsDelta | None = None
    finish_reason: str | None = None
    usage: Any = None


class CompletionsChunk(msgspec.Struct):
    choices: list[CompletionsChoice] | None = None
    usage: Any = None
    error: Any = None


_decoder = decode_late(CompletionsChunk)
_NOTHING = CompletionsFunction()


class CompletionsDecoder(SseDecoder):
    """One answer."""

    __slots__ = ("_by_index", "_last")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._by_index: dict[int, BlockDraft] = {}
        self._last: BlockDraft | None = None  # the call that grew last

    def _take(self, piece: Event) -> None:
        payload = piece[1]
        if payload == b"[DONE]":
            self._end()
            return
        try:
            chunk = _decoder.decode(payload)
        except (msgspec.DecodeError, ValueError, RecursionError):
            if payload.strip() == b"[DONE]":
                self._end()
                return
            found = None if self._closing else decode_loose(payload, CompletionsChunk)
            if found is None:
                self._refuse_chunk(payload)
                return
            chunk = found
        self._seen = True
        if chunk.error:
            self._builder.fail_with(classify_stream_error(chunk.error))
            return
        if chunk.usage:
            self._usage(chunk.usage)
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        delta = choice.delta or choice.message
        if delta is not None:
            self._delta(delta)
        if choice.finish_reason and self._stop is None:
            self._stop = choice.finish_reason
        if choice.usage and not chunk.usage:
            self._usage(choice.usage)

    def _usage(self, used: Any) -> None:
        """Counts in an unexpected form cost us the counts, not the answer."""
        try:
            self._builder.usage = read_usage(msgspec.convert(used, CompletionsTokens, strict=False))
        except (msgspec.ValidationError, ValueError, RecursionError):
            pass

    def _delta(self, delta: CompletionsDelta) -> None:
        builder = self._builder
        if delta.reasoning_content:
            builder.thinking(delta.reasoning_content, "reasoning_content")
        elif delta.reasoning and isinstance(delta.reasoning, str):
            builder.thinking(delta.reasoning, "reasoning")
        elif delta.reasoning_text:
            builder.thinking(delta.reasoning_text, "reasoning_text")
        if delta.content:
            if isinstance(delta.content, str):
                builder.text(delta.content)
            else:
                self._blocks(delta.content)
        elif delta.refusal:
            builder.text(delta.refusal)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._call(call)
        elif delta.function_call is not None:
            self._call(CompletionsCall(0, None, delta.function_call))

    def _blocks(self, blocks: list[Any]) -> None:
        """Content as a list of typed blocks, as some servers send it."""
        for block in blocks:
            if not isinstance(block, dict):
                continue
            if isinstance(text := block.get("text"), str) and text:
                self._builder.text(text)
            elif isinstance(inner := block.get("thinking"), list | str):
                for piece in [inner] if isinstance(inner, str) else inner:
                    text = piece.get("text") if isinstance(piece, dict) else piece
                    if isinstance(text, str) and text:
                        self._builder.thinking(text)

    def _call(self, call: CompletionsCall) -> None:
        builder, function = self._builder, call.function or _NOTHING
        part = self._find(call)
        if part.index < 0:
            part.id = part.raw
            if function.name:
                builder.call(part, part.raw, function.name)
        if function.arguments:
            args = function.arguments
            builder.grow(
                part, args if isinstance(args, str) else str(msgspec.json.encode(scrub_surrogates(args)), "utf-8")
            )

    def _find(self, call: CompletionsCall) -> BlockDraft:
        """The call this piece belongs to. A new id under a known index is a new call: some servers never count."""
        part = self._last if call.index is None else self._by_index.get(call.index)
        fresh = call.id and part is not None and part.raw and call.id != part.raw
        named = call.function is not None and call.function.name
        if part is None or (fresh and named) or (call.index is None and call.id is None and named):
            part = self._builder.part("call")
        if call.id and not part.raw:
            part.raw = call.id
        if call.index is not None:
            self._by_index[call.index] = part
        self._last = part
        return part

    def _end(self) -> None:
        if self._stop == "content_filter":
            self._builder.fail("refused", "the provider's content filter stopped the answer")
        elif self._stop in ("error", "network_error"):
            self._builder.fail("server", "the provider reported an error in the middle of the answer")
        else:
            self._builder.finish(STOPS.get(self._stop or "stop", "stop"))


def read_usage(used: CompletionsTokens) -> TokenUsage:
    """Prompt tokens include what came from the cache; ours do not."""
    details = used.prompt_tokens_details or CompletionsTokenDetails()
    read = max(0, details.cached_tokens or used.prompt_cache_hit_tokens or 0)
    write = max(0, details.cache_write_tokens or 0)
    prompt, output = max(0, used.prompt_tokens or 0), max(0, used.completion_tokens or 0)
    return TokenUsage(max(0, prompt - read - write), output, read, write, totalTokens=used.total_tokens or 0)


WIRE = ModelWire(encode=encode, decoder=CompletionsDecoder, path=build_path)
