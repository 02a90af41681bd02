"""Gemini streams: signatures, usage, ends, blocks, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palinurus.core.types.messages import AssistantMessage, TextBlock, ThinkingBlock
from palinurus.core.types.model import ModelEvent, StreamDone, StreamFailed
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.wire.gemini import GeminiDecoder
from providers.kit import decoded, info, recorded, request

API = "google-generative-ai"


def run(*pieces: bytes) -> list[ModelEvent]:
    return decoded(GeminiDecoder, pieces, request(model=info(API)))


def chunk(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish:
        candidate["finishReason"] = finish
    return b"data: " + json.dumps({"candidates": [candidate], **more}).encode() + b"\n\n"


def message(events: list[ModelEvent]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, StreamDone | StreamFailed)
    return last.message


def test_signatures_stay_with_what_they_sign() -> None:
    said = message(run(recorded("gemini/tools.sse")))
    thought, text, first, second = said.content
    assert thought == ThinkingBlock("Weighing — café ☕ options.")
    assert text == TextBlock("Looking 🦞.", "dGV4dA==")
    assert [c.thoughtSignature for c in said.calls] == ["c2lnbmVk", None]
    assert (first, second) == said.calls


def test_usage_counts_thoughts_as_output_and_the_cache_apart() -> None:
    assert message(run(recorded("gemini/tools.sse"))).usage == TokenUsage(100, 65, 400, 0, 565)


def test_calls_without_ids_get_distinct_ones() -> None:
    call = {"functionCall": {"name": "ls", "args": {}}}
    calls = message(run(chunk(call, call, finish="STOP"))).calls
    assert len({c.id for c in calls}) == 2 and all(c.id for c in calls)


def test_text_after_a_call_is_a_new_block() -> None:
    call = {"functionCall": {"name": "ls"}}
    said = message(run(chunk({"text": "a"}, call, {"text": "b"}, finish="STOP")))
    assert [type(b).__name__ for b in said.content] == ["TextBlock", "ToolCall", "TextBlock"]
    assert said.calls[0].arguments == {}


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "refused"),
        ("PROHIBITED_CONTENT", "refused"),
        ("MALFORMED_FUNCTION_CALL", "malformed"),
        ("OTHER", "server"),
        ("SOMETHING_NEW", "server"),
    ],
)
def test_finish_reasons(finish: str, outcome: str) -> None:
    last = run(chunk({"text": "x"}, finish=finish))[-1]
    assert outcome == (last.message.stopReason if isinstance(last, StreamDone) else last.failure.kind)


def test_a_blocked_prompt() -> None:
    last = run(b'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n')[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "refused" and "SAFETY" in last.failure.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}, "overloaded"),
        ({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}, "rate_limit"),
        ({"code": 400, "status": "INVALID_ARGUMENT", "message": "bad"}, "format"),
    ],
)
def test_errors_inside_a_stream(error: dict[str, Any], kind: str) -> None:
    last = run(chunk({"text": "half"}), b"data: " + json.dumps({"error": error}).encode() + b"\n\n")[-1]
    assert isinstance(last, StreamFailed)
    assert (last.failure.kind, last.failure.partial, last.message.text) == (kind, True, "half")
