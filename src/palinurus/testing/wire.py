"""A scripted turn as bytes of the two wire formats, streamed or whole. Pure; the counterpart of our decoders.

Each function gives the server-sent events one by one, so that the server can cut, delay or mangle between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.types.model import ModelFailure
from palinurus.testing.model import ScriptedTurn, chunk_text

# What a provider answers for each kind of failure: status, the word in the body.
ERROR_STATUSES: dict[str, tuple[int, str]] = {
    "auth": (401, "authentication_error"),
    "billing": (402, "billing_error"),
    "rate_limit": (429, "rate_limit_error"),
    "overloaded": (529, "overloaded_error"),
    "server": (500, "api_error"),
    "overflow": (400, "invalid_request_error"),
    "format": (400, "invalid_request_error"),
    "not_found": (404, "not_found_error"),
    "refused": (403, "permission_error"),
}
_TEXTS = {"overflow": "prompt is too long: 300000 tokens > 200000 maximum", "billing": "credit balance is too low"}


def make_error_body(failure: ModelFailure) -> tuple[int, dict[str, Any]]:
    """Status and JSON body; understood on both wires."""
    status, word = ERROR_STATUSES.get(failure.kind, (500, "api_error"))
    message = _TEXTS.get(failure.kind, failure.message)
    return failure.status or status, {"type": "error", "error": {"type": word, "message": message, "code": word}}


def encode_event(data: Any, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


def encode_completions(turn: ScriptedTurn, ids: list[str], chunk: int) -> list[bytes]:
    """OpenAI Chat Completions, streamed."""

    def piece(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return encode_event(_chunk([{"index": 0, "delta": delta, "finish_reason": finish}]))

    out = [piece({"role": "assistant", "content": ""})]
    out += [piece({"reasoning_content": part}) for part in chunk_text(turn.thinking, chunk)]
    out += [piece({"content": part}) for part in chunk_text(turn.text, chunk)]
    for index, (name, args) in enumerate(turn.calls):
        call = {"index": index, "id": ids[index], "type": "function", "function": {"name": name, "arguments": ""}}
        out.append(piece({"tool_calls": [call]}))
        for part in chunk_text(_json(args), chunk * 4):
            out.append(piece({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))
    if turn.failure is not None:
        return [*out, encode_event({"error": make_error_body(turn.failure)[1]["error"]})]
    out.append(piece({}, _openai_finish(turn)))
    return [*out, encode_event({**_chunk([]), "usage": _openai_usage(turn)}), b"data: [DONE]\n\n"]


def encode_anthropic(turn: ScriptedTurn, ids: list[str], chunk: int) -> list[bytes]:
    """Anthropic Messages, streamed."""

    def piece(kind: str, **rest: Any) -> bytes:
        return encode_event({"type": kind, **rest}, kind)

    start = {**_anthropic_message(turn), "content": [], "stop_reason": None}
    out = [piece("message_start", message=start), piece("ping")]
    index = 0

    def block(first: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        nonlocal index
        out.append(piece("content_block_start", index=index, content_block=first))
        out.extend(piece("content_block_delta", index=index, delta=delta) for delta in deltas)
        out.append(piece("content_block_stop", index=index))
        index += 1

    if turn.thinking:
        thoughts = [{"type": "thinking_delta", "thinking": part} for part in chunk_text(turn.thinking, chunk)]
        signed = [{"type": "signature_delta", "signature": "c2lnbmVk"}]
        block({"type": "thinking", "thinking": "", "signature": ""}, thoughts + signed)
    if turn.text:
        texts = [{"type": "text_delta", "text": part} for part in chunk_text(turn.text, chunk)]
        block({"type": "text", "text": ""}, texts)
    if turn.failure is not None:
        return [*out, encode_event(make_error_body(turn.failure)[1], "error")]
    for number, (name, args) in enumerate(turn.calls):
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in chunk_text(_json(args), chunk * 4)]
        block({"type": "tool_use", "id": ids[number], "name": name, "input": {}}, deltas)
    end = {"stop_reason": _anthropic_stop(turn), "stop_sequence": None}
    out.append(piece("message_delta", delta=end, usage={"output_tokens": turn.usage.output}))
    return [*out, piece("message_stop")]


def build_completions(turn: ScriptedTurn, ids: list[str]) -> dict[str, Any]:
    """OpenAI Chat Completions, not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = [
            {"id": ids[n], "type": "function", "function": {"name": name, "arguments": _json(args)}}
            for n, (name, args) in enumerate(turn.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _openai_finish(turn)}
    return {**_chunk([choice]), "object": "chat.completion", "usage": _openai_usage(turn)}


def build_anthropic(turn: ScriptedTurn, ids: list[str]) -> dict[str, Any]:
    """Anthropic Messages, not streamed."""
    content: list[dict[str, Any]] = []
    if turn.thinking:
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": "c2lnbmVk"})
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    for n, (name, args) in enumerate(turn.calls):
        content.append({"type": "tool_use", "id": ids[n], "name": name, "input": args})
    return {**_anthropic_message(turn), "content": content, "stop_reason": _anthropic_stop(turn)}


STREAM_ENCODERS: dict[str, Callable[[ScriptedTurn, list[str], int], list[bytes]]] = {
    "openai-completions": encode_completions,
    "anthropic-messages": encode_anthropic,
}
BODY_BUILDERS: dict[str, Callable[[ScriptedTurn, list[str]], dict[str, Any]]] = {
    "openai-completions": build_completions,
    "anthropic-messages": build_anthropic,
}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "cmpl_1", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": choices}


def _openai_usage(turn: ScriptedTurn) -> dict[str, Any]:
    usage = turn.usage
    read, cached = usage.input + usage.cacheRead, {"cached_tokens": usage.cacheRead}
    counts = {"prompt_tokens": read, "completion_tokens": usage.output, "total_tokens": read + usage.output}
    return {**counts, "prompt_tokens_details": cached}


def _anthropic_message(turn: ScriptedTurn) -> dict[str, Any]:
    usage = turn.usage
    counts = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cacheRead,
        "cache_creation_input_tokens": usage.cacheWrite,
    }
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "stop_sequence": None}
    return {**base, "content": [], "stop_reason": None, "usage": counts}


def _openai_finish(turn: ScriptedTurn) -> str:
    return "tool_calls" if turn.calls else "length" if turn.length else "stop"


def _anthropic_stop(turn: ScriptedTurn) -> str:
    return "tool_use" if turn.calls else "max_tokens" if turn.length else "end_turn"
