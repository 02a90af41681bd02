"""Messages streams: exact results, every byte split, every cut, hostile input, the official SDK beside us."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from later import LaterModule
from palinurus.core.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    ModelEvent,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    TokenPrice,
)
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.wire import to_sse_event
from palinurus.providers.wire.anthropic import AnthropicDecoder
from providers.kit import decoded, info, recorded, request

anthropic = LaterModule("anthropic")
httpx2 = LaterModule("httpx2")

NAMES = ["text", "tools", "redacted", "error"]
MODEL = info("anthropic-messages", price=TokenPrice(3, 15, 0.3, 3.75))


def run(*pieces: bytes) -> list[ModelEvent]:
    return decoded(AnthropicDecoder, pieces, request(model=MODEL))


def stream(*events: Any) -> bytes:
    return b"".join(b"data: " + (e if isinstance(e, bytes) else json.dumps(e).encode()) + b"\n\n" for e in events)


def message(events: list[ModelEvent]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, StreamDone | StreamFailed)
    assert not any(isinstance(e, StreamDone | StreamFailed) for e in events[:-1])
    return last.message


def block(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


STOP = {"type": "message_stop"}


def test_text_usage_and_cost() -> None:
    events = run(recorded("anthropic/text.sse"))
    assert events[0] == TextDelta("Hallo Wörld 🦞!")
    said = message(events)
    assert said.content == (TextBlock("Hallo Wörld 🦞!"),) and said.stopReason == "stop"
    used = said.usage
    assert (used.input, used.output, used.cacheRead, used.cacheWrite, used.totalTokens) == (25, 15, 100, 12, 152)
    assert used.cost is not None and used.cost.total == pytest.approx((75 + 225 + 30 + 45) / 1e6)


def test_thinking_with_its_signature_and_two_calls() -> None:
    events = run(recorded("anthropic/tools.sse"))
    assert events[:-1] == [
        ThinkingDelta("I should read."),
        TextDelta("Reading both."),
        CallStart(0, "toolu_1", "read"),
        CallDelta(0, '{"path": "a.txt"}'),
        CallStart(1, "toolu_2", "ls"),
    ]
    said = message(events)
    assert said.content == (
        ThinkingBlock("I should read.", "EqQBCgIYAhIM1gbcDa9GJwZA=="),
        TextBlock("Reading both."),
        ToolCall("toolu_1", "read", {"path": "a.txt"}),
        ToolCall("toolu_2", "ls", {}),
    )
    assert said.stopReason == "toolUse"


def test_redacted_thinking_unknown_events_and_two_stops() -> None:
    said = message(run(recorded("anthropic/redacted.sse")))
    assert said.content == (ThinkingBlock("", "EmwKAhgBEgy3va3pzix/LafPsn4a", True), TextBlock("Fine."))
    assert said.stopReason == "length"


def test_an_error_in_the_stream_keeps_the_text() -> None:
    last = run(recorded("anthropic/error.sse"))[-1]
    assert isinstance(last, StreamFailed)
    assert (last.failure.kind, last.failure.message, last.failure.partial) == ("overloaded", "Overloaded", True)
    assert last.message.text == "Begin"


@pytest.mark.parametrize("name", NAMES)
def test_every_split_gives_the_same(name: str) -> None:
    data = recorded(f"anthropic/{name}.sse")
    whole = run(data)
    assert run(*[data[i : i + 1] for i in range(len(data))]) == whole
    assert run(data.replace(b"\n", b"\r\n")) == whole
    for cut in range(len(data)):
        assert run(data[:cut], data[cut:]) == whole, cut


@pytest.mark.parametrize("name", ["text", "tools", "redacted"])
def test_every_cut_is_complete_or_says_so(name: str) -> None:
    data = recorded(f"anthropic/{name}.sse")
    full = message(run(data))
    for end in range(len(data)):
        events = run(data[:end])
        said, last = message(events), events[-1]
        if isinstance(last, StreamDone):
            assert said.content == full.content, end
        else:
            assert last.failure.kind == "cut" and not said.calls, end
            assert full.text.startswith(said.text) and full.thinking.startswith(said.thinking)
            assert last.failure.partial == (len(events) > 1)


@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b"data: ", b"event: error\n", b"\n\n", b'{"type":"']), max_size=12
    )
)
def test_random_bytes_never_raise(pieces: list[bytes]) -> None:
    message(run(*pieces))


_WORDS = [
    "type",
    "index",
    "delta",
    "text",
    "thinking",
    "partial_json",
    "signature",
    "content_block",
    "id",
    "name",
    "input",
    "message",
    "usage",
    "error",
]
_KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message",
    "error",
    "tool_use",
]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats()
    | st.sampled_from([*_KINDS, "text", "thinking"])
    | st.text(st.characters(codec=None), max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), v, max_size=5),
    max_leaves=14,
)


@given(st.lists(_VALUES, max_size=4), st.sampled_from(_KINDS))
def test_random_json_never_raises_and_can_be_stored(events: list[Any], kind: str) -> None:
    named = [{**e, "type": kind} if isinstance(e, dict) else e for e in events]
    msgspec.json.encode(run(stream(*named)))


def test_whole_answer_instead_of_a_stream() -> None:
    body = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "ü"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    said = message(run(to_sse_event(json.dumps(body, indent=1).encode())))
    assert said.content == (ThinkingBlock("hm", "s"), TextBlock("Hi"), ToolCall("t", "read", {"path": "ü"}))
    assert (said.stopReason, said.usage.input, said.usage.output) == ("toolUse", 3, 2)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("new", "stop"),
    ],
)
def test_stop_reasons(reason: str, stop: str) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": reason}}
    assert message(run(stream(delta(0, type="text_delta", text="x"), end, STOP))).stopReason == stop
    assert message(run(stream(delta(0, type="text_delta", text="x"), end))).stopReason == stop


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([{"type": "message_delta", "delta": {"stop_reason": "refusal"}}, STOP], "refused"),
        ([{"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}], "rate_limit"),
        ([{"type": "error", "error": {"type": "api_error", "message": "oops"}}], "server"),
        ([{"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}], "overflow"),
        ([b'{"type": "content_block_delta", "delta": \xff'], "malformed"),
        ([b'{"a":' * 100_000], "malformed"),
        ([], "cut"),
    ],
    ids=range(7),
)
def test_failures(events: list[Any], kind: str) -> None:
    last = run(stream(*events))[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == kind


def test_blocks_out_of_order_interleaved_and_without_a_start() -> None:
    events = [
        block(1, type="text", text=""),
        delta(1, type="text_delta", text="b1"),
        delta(0, type="text_delta", text="a1"),
        block(2, type="tool_use", id="t", name="ls", input={"p": 1}),
        delta(1, type="text_delta", text="b2"),
        delta(7, type="input_json_delta", partial_json="{"),
        block(1, type="tool_use", id="dup", name="dup"),
        STOP,
    ]
    said = message(run(stream(*events)))
    assert said.content == (TextBlock("b1b2"), TextBlock("a1"), ToolCall("t", "ls", {"p": 1}))


def test_bad_arguments_are_an_invalid_call_and_ids_are_made_unique() -> None:
    events = [
        block(0, type="tool_use", id="t", name="read"),
        delta(0, type="input_json_delta", partial_json='{"path": '),
        block(1, type="tool_use", id="t", name="read"),
        block(2, type="tool_use", name="read"),
        STOP,
    ]
    first, second, third = message(run(stream(*events))).calls
    assert first.invalid and first.arguments == {}
    assert second.invalid is None and len({first.id, second.id, third.id}) == 3 and third.id


def test_counts_are_cumulative_and_odd_ones_ignored() -> None:
    begin = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": None}}}
    counts = [{"type": "message_delta", "usage": {"output_tokens": n}} for n in (3, 9, "x" * 3, [1])]
    assert message(run(stream(begin, *counts, STOP))).usage == TokenUsage(
        5, 9, 0, 0, 14, message(run(stream(begin, *counts, STOP))).usage.cost
    )


def test_a_signature_with_half_a_character_can_be_stored() -> None:
    odd = b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s\\ud800"}}'
    events = run(stream(block(0, type="thinking", thinking="hm"), odd, STOP))
    assert message(events).content == (ThinkingBlock("hm", "s\ufffd"),)
    msgspec.json.encode(events)


def test_the_event_name_counts_when_the_type_is_missing() -> None:
    data = b'event: content_block_delta\ndata: {"index":0,"delta":{"text":"x"}}\n\nevent: message_stop\ndata: {}\n\n'
    assert message(run(data)).text == "x"


def test_the_official_client_reads_the_same() -> None:
    for name in ("text", "tools"):
        data = recorded(f"anthropic/{name}.sse")
        client = anthropic.Anthropic(
            api_key="x",
            base_url="http://sdk",
            http_client=httpx2.Client(transport=httpx2.MockTransport(_answer(data))),
        )
        with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as opened:
            theirs = opened.get_final_message()
        said = message(run(data))
        blocks = [
            ("text", b.text)
            if isinstance(b, TextBlock)
            else ("thinking", b.thinking, b.thinkingSignature)
            if isinstance(b, ThinkingBlock)
            else ("tool_use", b.id, b.name, b.arguments)
            for b in said.content
        ]
        assert blocks == [_plain(b) for b in theirs.content]
        assert (said.usage.input, said.usage.output) == (theirs.usage.input_tokens, theirs.usage.output_tokens)
        assert said.usage.cacheRead == theirs.usage.cache_read_input_tokens
        assert said.usage.cacheWrite == theirs.usage.cache_creation_input_tokens


def _answer(data: bytes) -> Any:
    return lambda _: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)


def _plain(b: Any) -> tuple[Any, ...]:
    if b.type == "text":
        return ("text", b.text)
    return ("thinking", b.thinking, b.signature) if b.type == "thinking" else ("tool_use", b.id, b.name, b.input)
