"""What holds for every stream decoder: same events at every cut, an end in every case, nothing raised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.types.messages import TextBlock, ThinkingBlock, ToolCall
from palinurus.core.types.model import (
    CallStart,
    ModelRequest,
    StreamDecoder,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
)
from palinurus.providers import WIRES, load_row
from palinurus.providers.wire.aws import encode_frame
from providers.kit import decoded, info, recorded, request

# api, recorded stream, ids of its two calls
STREAMS = {
    "openai-responses": ("responses/tools.sse", "call_a|fc_1", "call_b|fc_2"),
    "openai-codex-responses": ("responses/tools.sse", "call_a|fc_1", "call_b|fc_2"),
    "google-generative-ai": ("gemini/tools.sse", "fcA", "fcB"),
    "ollama": ("ollama/tools.ndjson", "call_1", "call_1_1"),
    "bedrock-converse-stream": ("bedrock/tools.bin", "tooluse_a", "tooluse_b"),
}
APIS = tuple(STREAMS)
DECODERS = tuple(api for api in APIS if api != "openai-codex-responses")  # shares its decoder


def asked(api: str) -> ModelRequest:
    return request(model=info(api))


def decoder(api: str) -> StreamDecoder:
    made: StreamDecoder = load_row(WIRES, api).decoder(asked(api))
    return made


def run(api: str, *pieces: bytes) -> list[Any]:
    return decoded(load_row(WIRES, api).decoder, pieces, asked(api))


@pytest.mark.parametrize("api", APIS)
def test_thinking_text_and_two_parallel_calls(api: str) -> None:
    name, first, second = STREAMS[api]
    events = run(api, recorded(name))
    last = events[-1]
    assert isinstance(last, StreamDone)
    message = last.message
    assert "".join(e.text for e in events if isinstance(e, ThinkingDelta)) == message.thinking
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == message.text
    assert "café ☕" in message.thinking and "🦞" in message.text
    assert [(c.id, c.name, c.arguments) for c in message.calls] == [
        (first, "read", {"path": "a.txt"}),
        (second, "read", {"path": "b ü.txt"}),
    ]
    assert [e.id for e in events if isinstance(e, CallStart)] == [first, second]
    assert message.stopReason == "toolUse"
    assert message.same_route(api, "p", "m")
    kinds = [type(b) for b in message.content if not isinstance(b, ThinkingBlock)]
    assert kinds == [TextBlock, ToolCall, ToolCall]


@pytest.mark.parametrize("api", DECODERS)
def test_the_same_events_at_every_byte_cut(api: str) -> None:
    data = recorded(STREAMS[api][0])
    whole = run(api, data)
    for cut in range(1, len(data)):
        assert run(api, data[:cut], data[cut:]) == whole, cut


@pytest.mark.parametrize("api", DECODERS)
def test_the_same_events_byte_by_byte(api: str) -> None:
    data = recorded(STREAMS[api][0])
    assert run(api, *(data[i : i + 1] for i in range(len(data)))) == run(api, data)


@pytest.mark.parametrize("api", DECODERS)
def test_a_stream_cut_anywhere_ends_and_keeps_no_calls(api: str) -> None:
    data = recorded(STREAMS[api][0])
    for cut in range(0, len(data) - 1, 5):
        last = run(api, data[:cut])[-1]
        if isinstance(last, StreamDone):  # only the tail without meaning was missing
            assert len(last.message.calls) == 2
            continue
        assert isinstance(last, StreamFailed)
        assert last.failure.kind == "cut"
        assert last.message.calls == ()
        assert last.message.stopReason == "error"


@pytest.mark.parametrize("api", APIS)
def test_after_the_end_nothing_comes(api: str) -> None:
    data = recorded(STREAMS[api][0])
    machine = decoder(api)
    events = machine.feed(data) + machine.close()
    assert isinstance(events[-1], StreamDone)
    assert machine.feed(data) == []
    assert machine.close() == []


@pytest.mark.parametrize("api", APIS)
def test_an_empty_stream_is_a_cut_one(api: str) -> None:
    (only,) = run(api)
    assert isinstance(only, StreamFailed) and only.failure.kind == "cut" and not only.failure.partial


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("page", [b"<!doctype html><html><title>Sign in</title></html>", b"\x00\xff\xfe" * 50])
def test_something_else_than_the_protocol(api: str, page: bytes) -> None:
    last = run(api, page)[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind in ("malformed", "cut")
    assert len(last.failure.message) < 600


def framed(api: str, payload: bytes) -> bytes:
    """These bytes as one unit of the protocol."""
    if api == "ollama":
        return payload + b"\n"
    if api.startswith("bedrock"):
        return encode_frame({":event-type": "contentBlockDelta", ":message-type": "event"}, payload)
    return b"data: " + payload + b"\n\n"


HOSTILE = [
    b"null",
    b"[]",
    b"42",
    b'"text"',
    b"{}",
    b'{"type":null,"candidates":null,"message":null,"delta":null}',
    b'{"type":"response.output_text.delta","output_index":NaN,"delta":7}',
    b'{"type":"response.output_item.done","output_index":"x","item":[]}',
    b'{"type":"response.completed","response":[]}',
    b'{"type":"response.output_item.added","item":{"type":"function_call"}}',
    b'{"candidates":[{"content":{"parts":[{"functionCall":[]},{"text":{}},7]},"finishReason":5}]}',
    b'{"candidates":[[],{"content":7}],"usageMetadata":{"promptTokenCount":NaN,"totalTokenCount":-1}}',
    b'{"message":{"tool_calls":[{"function":7},{"function":{"arguments":[1]}}]},"done":"yes"}',
    b'{"contentBlockIndex":-5,"delta":{"toolUse":{"input":{}},"reasoningContent":7}}',
    b'{"delta":{"text":"\\ud83d"},"candidates":[{"content":{"parts":[{"text":"\\udc00"}]}}]}',
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"x":"' + b"y" * 300_000 + b'"}',
    b'{"x":' + b"9" * 5000 + b"}",
    b"\xff\xfe{}",
]


@pytest.mark.parametrize("api", APIS)
def test_hostile_chunks_end_in_a_value(api: str) -> None:
    for payload in HOSTILE:
        events = run(api, framed(api, payload), recorded(STREAMS[api][0]))
        assert isinstance(events[-1], StreamDone | StreamFailed), payload[:80]
        assert not any(isinstance(e, StreamDone | StreamFailed) for e in events[:-1]), payload[:80]
        for event in events:
            if isinstance(event, TextDelta | ThinkingDelta):
                event.text.encode()


@pytest.mark.parametrize("api", APIS)
@given(junk=st.binary(max_size=200))
@settings(max_examples=40, deadline=None)
def test_random_bytes_never_raise(api: str, junk: bytes) -> None:
    assert isinstance(run(api, junk, junk)[-1], StreamDone | StreamFailed)


@pytest.mark.parametrize("api", APIS)
@given(where=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(1, 999))
@settings(max_examples=60, deadline=None)
def test_a_flipped_byte_never_raises_and_gives_the_same_at_every_cut(api: str, where: int, byte: int, cut: int) -> None:
    data = bytearray(recorded(STREAMS[api][0]))
    data[where % len(data)] = byte
    whole = run(api, bytes(data))
    assert isinstance(whole[-1], StreamDone | StreamFailed)
    at = cut % len(data)
    assert run(api, bytes(data[:at]), bytes(data[at:])) == whole
