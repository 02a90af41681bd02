"""Ollama streams: usage, ends, errors, arguments in both forms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palinurus.core.types.model import ModelEvent, StreamDone, StreamFailed
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.wire.ollama import WIRE, OllamaDecoder
from providers.kit import decoded, info, recorded, request


def run(*pieces: bytes) -> list[ModelEvent]:
    return decoded(OllamaDecoder, pieces, request(model=info("ollama")))


def lines(*chunks: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(c).encode() + b"\n" for c in chunks)


def calling(args: Any) -> dict[str, Any]:
    return {"message": {"tool_calls": [{"function": {"name": "read", "arguments": args}}]}}


END = {"done": True, "done_reason": "stop"}


def test_usage() -> None:
    last = run(recorded("ollama/tools.ndjson"))[-1]
    assert isinstance(last, StreamDone) and last.message.usage == TokenUsage(321, 45, 0, 0, 366)


@pytest.mark.parametrize(
    ("args", "got", "valid"),
    [
        ({"path": "a"}, {"path": "a"}, True),
        ('{"path":"a"}', {"path": "a"}, True),
        (None, {}, True),
        ({}, {}, True),
        ([1], {}, False),
        ("{broken", {}, False),
    ],
)
def test_arguments(args: Any, got: dict[str, Any], valid: bool) -> None:
    last = run(lines(calling(args), END))[-1]
    assert isinstance(last, StreamDone)
    (call,) = last.message.calls
    assert (call.arguments, call.invalid is None) == (got, valid)


@pytest.mark.parametrize(("reason", "stop"), [("stop", "stop"), ("length", "length"), ("load", "stop"), (None, "stop")])
def test_done_reasons(reason: str | None, stop: str) -> None:
    last = run(lines({"message": {"content": "x"}}, {"done": True, "done_reason": reason}))[-1]
    assert isinstance(last, StreamDone) and last.message.stopReason == stop


def test_an_error_line() -> None:
    last = run(lines({"message": {"content": "half"}}, {"error": "model runner has stopped"}))[-1]
    assert isinstance(last, StreamFailed)
    assert (last.failure.kind, last.failure.partial) == ("server", True)
    assert "runner" in last.failure.message


def test_a_line_that_is_no_json() -> None:
    last = run(b"oops\n" + lines(END))[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "malformed"


def test_an_answer_that_was_not_streamed() -> None:
    body = json.dumps({"message": {"content": "Hi"}, **END}, indent=2).encode()
    last = run(WIRE.whole(body))[-1]
    assert isinstance(last, StreamDone) and last.message.text == "Hi"


def test_the_last_line_may_lack_its_end() -> None:
    assert isinstance(run(lines({"message": {"content": "Hi"}}, END).rstrip())[-1], StreamDone)
