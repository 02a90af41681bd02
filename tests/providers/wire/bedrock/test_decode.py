"""ConverseStream: signatures, usage, ends, exceptions, broken frames."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palinurus.core.types.messages import TextBlock, ThinkingBlock
from palinurus.core.types.model import ModelEvent, StreamDone, StreamFailed
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.wire.aws import encode_frame
from palinurus.providers.wire.bedrock import BedrockDecoder
from providers.kit import decoded, info, recorded, request


def run(*pieces: bytes) -> list[ModelEvent]:
    return decoded(BedrockDecoder, pieces, request(model=info("bedrock-converse-stream")))


def event(name: str, payload: dict[str, Any]) -> bytes:
    return encode_frame({":message-type": "event", ":event-type": name}, json.dumps(payload).encode())


def text(piece: str) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}})


def test_signatures_and_usage() -> None:
    last = run(recorded("bedrock/tools.bin"))[-1]
    assert isinstance(last, StreamDone)
    assert last.message.content[:3] == (
        ThinkingBlock("Hm — café ☕.", "c2ln"),
        ThinkingBlock("", "b3BhcXVl", True),
        TextBlock("Looking 🦞."),
    )
    assert last.message.usage == TokenUsage(10, 20, 200, 100, 330)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "refused"),
        ("content_filtered", "refused"),
        ("something_new", "stop"),
    ],
)
def test_stop_reasons(reason: str, outcome: str) -> None:
    last = run(text("x"), event("messageStop", {"stopReason": reason}))[-1]
    assert outcome == (last.message.stopReason if isinstance(last, StreamDone) else last.failure.kind)


def test_usage_may_come_before_the_stop() -> None:
    used = event("metadata", {"usage": {"inputTokens": 3, "outputTokens": 4}})
    last = run(text("x"), used, event("messageStop", {"stopReason": "end_turn"}))[-1]
    assert isinstance(last, StreamDone) and last.message.usage.totalTokens == 7


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("throttlingException", "slow", "rate_limit"),
        ("serviceUnavailableException", "", "overloaded"),
        ("internalServerException", "x", "server"),
        ("modelStreamErrorException", "x", "server"),
        ("modelTimeoutException", "x", "timeout"),
        ("validationException", "bad field", "format"),
        ("validationException", "Input is too long for requested model.", "overflow"),
        ("accessDeniedException", "x", "auth"),
        ("unheardOfException", "x", "server"),
    ],
)
@pytest.mark.parametrize("as_exception", [True, False])
def test_exceptions(name: str, message: str, kind: str, as_exception: bool) -> None:
    payload = {"message": message} if message else {}
    head = {":message-type": "exception", ":exception-type": name}
    raw = encode_frame(head, json.dumps(payload).encode()) if as_exception else event(name, payload)
    last = run(text("half"), raw)[-1]
    assert isinstance(last, StreamFailed)
    assert (last.failure.kind, last.failure.partial, last.message.text) == (kind, True, "half")
    assert last.failure.message


def test_an_error_frame_with_its_text_in_the_headers() -> None:
    head = {":message-type": "error", ":error-code": "InternalServerError", ":error-message": "oops"}
    last = run(encode_frame(head, b""))[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "server" and "oops" in last.failure.message


def test_a_broken_checksum_ends_the_stream() -> None:
    raw = bytearray(text("x"))
    raw[-1] ^= 1
    last = run(text("half"), bytes(raw), event("messageStop", {"stopReason": "end_turn"}))[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "malformed" and "checksum" in last.failure.message
