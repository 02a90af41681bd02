"""Chat Completions stream -> events. A machine without I/O; unknown things are ignored, nothing raises.

Servers differ: indices missing or out of order, ids missing, the whole answer in one chunk, no [DONE], usage in
a choice, reasoning under three names. All of that is one protocol here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.core.types.messages import StopReason
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error
from palinurus.providers.wire.arguments import scrub_surrogates
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.pick import decode_loose
from palinurus.providers.wire.sse import Event

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


_decode = msgspec.json.Decoder(CompletionsChunk).decode
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
            chunk = _decode(payload)
        except (msgspec.DecodeError, ValueError, RecursionError):
            if payload.strip() == b"[DONE]":
                self._end()
                return
            found = None if self._closing else decode_loose(payload, CompletionsChunk)
            if found is None:
                self._refuse_chunk(payload)
                return
            chunk = found
        self._chunk(chunk)

    def _chunk(self, chunk: CompletionsChunk) -> None:
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
    plain = max(0, prompt - read - write)
    return TokenUsage(plain, output, read, write, used.total_tokens or plain + read + write + output)
