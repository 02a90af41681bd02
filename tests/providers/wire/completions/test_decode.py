"""Chat Completions streams: exact results, every byte split, every cut, hostile input, the official SDK beside us."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from later import LaterModule
from palinurus.core.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall, UserMessage
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
from palinurus.providers.wire.completions import CompletionsDecoder
from providers.kit import decoded, info, recorded, request

openai = LaterModule("openai")
httpx2 = LaterModule("httpx2")

NAMES = ["text", "tools", "reasoning", "quirks", "error"]


def run(*pieces: bytes, **changes: Any) -> list[ModelEvent]:
    return decoded(CompletionsDecoder, pieces, request(**changes))


def stream(*chunks: Any, done: bool = True) -> bytes:
    parts = [b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n" for c in chunks]
    return b"".join(parts) + (b"data: [DONE]\n\n" if done else b"")


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def message(events: list[ModelEvent]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, StreamDone | StreamFailed)
    assert not any(isinstance(e, StreamDone | StreamFailed) for e in events[:-1])
    return last.message


def test_text_usage_and_cost() -> None:
    events = run(recorded("completions/text.sse"), model=info(price=TokenPrice(1, 2, 0.1, 0)))
    assert events[0] == TextDelta("Grüße aus dem Äther 🦞 — done.")
    said = message(events)
    assert said.content == (TextBlock("Grüße aus dem Äther 🦞 — done."),)
    assert (said.stopReason, said.api, said.provider, said.model) == ("stop", "openai-completions", "p", "m")
    used = said.usage
    assert (used.input, used.output, used.cacheRead, used.cacheWrite, used.totalTokens) == (56, 17, 64, 0, 137)
    assert used.cost is not None and used.cost.total == pytest.approx((56 + 34 + 6.4) / 1e6)


def test_unpriced_is_not_free() -> None:
    assert message(run(recorded("completions/text.sse"))).usage.cost is None


def test_parallel_calls() -> None:
    events = run(recorded("completions/tools.sse"))
    assert [e for e in events if isinstance(e, CallStart)] == [
        CallStart(0, "call_a", "read"),
        CallStart(1, "call_b", "exec"),
    ]
    said = message(events)
    assert said.stopReason == "toolUse"
    assert said.content == (
        TextBlock("Looking."),
        ToolCall("call_a", "read", {"path": "ä/🦞.txt"}),
        ToolCall("call_b", "exec", {"command": "ls -la"}),
    )


def test_reasoning_and_hit_counts() -> None:
    events = run(recorded("completions/reasoning.sse"))
    assert events[:2] == [ThinkingDelta("First think."), TextDelta("Answer 42.")]
    assert message(events).content == (ThinkingBlock("First think.", "reasoning_content"), TextBlock("Answer 42."))
    assert message(events).usage == TokenUsage(6, 5, 4, 0, 15)


def test_servers_that_do_not_count_or_name() -> None:
    """No index, no id, indices out of order, arguments before the name, one id twice, two ends."""
    said = message(run(recorded("completions/quirks.sse")))
    assert said.text == "ab"
    first, second, third = said.calls
    assert (first.name, first.arguments) == ("ls", {})
    assert (second.name, second.arguments) == ("read", {"path": "x"})
    assert (third.name, third.arguments) == ("find", {})
    assert len({c.id for c in said.calls}) == 3 and all(c.id for c in said.calls)
    assert said.stopReason == "toolUse"


def test_an_error_in_the_stream_keeps_the_text() -> None:
    last = run(recorded("completions/error.sse"))[-1]
    assert isinstance(last, StreamFailed)
    assert (last.failure.kind, last.failure.partial, last.failure.status) == ("server", True, 502)
    assert last.message.text == "Half an ans" and last.message.stopReason == "error"


@pytest.mark.parametrize("name", NAMES)
def test_every_split_gives_the_same(name: str) -> None:
    data = recorded(f"completions/{name}.sse")
    whole = run(data)
    assert run(*[data[i : i + 1] for i in range(len(data))]) == whole
    for cut in range(len(data)):
        assert run(data[:cut], data[cut:]) == whole, cut


@pytest.mark.parametrize("name", NAMES)
def test_every_cut_is_complete_or_says_so(name: str) -> None:
    data = recorded(f"completions/{name}.sse")
    full = message(run(data))
    for end in range(len(data)):
        events = run(data[:end])
        said, last = message(events), events[-1]
        if isinstance(last, StreamDone):
            assert said.content[: len(full.content)] == full.content[: len(said.content)], end
            assert [c.arguments for c in said.calls] == [c.arguments for c in full.calls]
        elif name != "error":
            assert last.failure.kind == "cut" and not said.calls, end
            assert full.text.startswith(said.text)
            assert last.failure.partial == (len(events) > 1)


@given(st.data())
def test_random_cuts_of_a_stream(data: st.DataObject) -> None:
    raw = recorded(f"completions/{data.draw(st.sampled_from(NAMES))}.sse")
    marks = sorted({0, len(raw), *data.draw(st.lists(st.integers(0, len(raw)), max_size=8))})
    assert run(*[raw[a:b] for a, b in itertools.pairwise(marks)]) == run(raw)


@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b"data: ", b"\n\n", b"[DONE]", b"{", b'"choices":[']), max_size=12
    )
)
def test_random_bytes_never_raise(pieces: list[bytes]) -> None:
    message(run(*pieces))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda v: (
        st.lists(v, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "index",
                    "usage",
                    "error",
                    "message",
                ]
            ),
            v,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(_VALUES, max_size=4))
def test_random_json_never_raises_and_can_be_stored(chunks: list[Any]) -> None:
    msgspec.json.encode(run(stream(*chunks)))


def test_whole_answer_instead_of_a_stream() -> None:
    body = {
        "choices": [
            {
                "message": {
                    "role": "assistant",
                    "content": "Hi",
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    said = message(run(to_sse_event(json.dumps(body, indent=2).encode())))
    assert said.content == (TextBlock("Hi"), ToolCall("c", "ls", {})) and said.usage.totalTokens == 5


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "stop"), ("length", "length"), ("tool_calls", "stop"), ("whatever", "stop"), ("max_tokens", "length")],
)
def test_stop_reasons(finish: str, stop: str) -> None:
    assert message(run(stream(delta(content="x"), delta(finish)))).stopReason == stop


def test_end_without_done_mark_or_without_reason() -> None:
    assert message(run(stream(delta(content="x"), delta("stop"), done=False))).text == "x"
    assert message(run(stream(delta(content="x")))).stopReason == "stop"


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        ([delta(content="x"), delta("content_filter")], "refused"),
        ([delta(content="x"), delta("error")], "server"),
        ([{"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}], "rate_limit"),
        ([{"error": "maximum context length is 10 tokens"}], "overflow"),
        ([{"error": {"code": "insufficient_quota", "message": "pay"}}], "billing"),
        ([b'{"choices": [{"delta": {"content": \xff\xfe'], "malformed"),
        ([b"{" * 100_000], "malformed"),
        ([b'{"choices":' + b"[" * 100_000], "malformed"),
    ],
    ids=range(8),
)
def test_failures(chunks: list[Any], kind: str) -> None:
    last = run(stream(*chunks))[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == kind


def test_error_object_as_a_bare_line() -> None:
    last = run(b'{"error": {"message": "invalid api key", "code": "invalid_api_key"}}\n')[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "auth"
    page = run(b"<html><body>hello</body></html>\n")[-1]
    assert isinstance(page, StreamFailed) and page.failure.kind == "malformed"


def test_half_characters_over_two_chunks_become_one() -> None:
    raw = stream(b'{"choices":[{"delta":{"content":"a\\ud83e"}}]}', b'{"choices":[{"delta":{"content":"\\udd9eb"}}]}')
    whole = run(raw)
    assert whole[0] == TextDelta("a🦞b") and message(whole).text == "a🦞b"
    for cut in range(len(raw)):
        assert run(raw[:cut], raw[cut:]) == whole
    lone = run(stream(b'{"choices":[{"delta":{"content":"a\\ud83e"}}]}', delta(content="b")))
    assert lone[0] == TextDelta("a\ufffdb") and message(lone).text == "a\ufffdb"


def test_half_a_character_at_the_end_or_in_arguments_or_errors_can_be_stored() -> None:
    ends = run(stream(b'{"choices":[{"delta":{"content":"a\\ud83e"}}]}'))
    assert ends[0] == TextDelta("a\ufffd") and message(ends).text == "a\ufffd"
    piece = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"w","arguments":"%s"}}]}}]}'
    raw = stream(piece % b'{\\"a\\":\\"\\ud83e', piece % b'\\udd9e\\"}')
    whole = run(raw)
    assert message(whole).calls == (ToolCall("c", "w", {"a": "🦞"}),)
    assert CallDelta(0, '{"a":"🦞"}') in whole
    for cut in range(len(raw)):
        assert run(raw[:cut], raw[cut:]) == whole, cut
    msgspec.json.encode(run(stream(b'{"error":{"message":"bad \\ud800 text"}}')))


def test_nan_and_odd_counts_cost_nothing_but_themselves() -> None:
    odd = b'{"choices":[{"delta":{"content":"x"},"score":NaN}],"usage":{"prompt_tokens":"many","completion_tokens":-4}}'
    assert message(run(stream(odd))).text == "x"
    assert message(run(stream({"usage": {"prompt_tokens": 5, "completion_tokens": -4}}))).usage == TokenUsage(
        5, 0, 0, 0, 5
    )


@pytest.mark.parametrize("text", ['{"a": ', "[1]", '{"a": NaN}', '{"a":' * 50_000])
def test_bad_arguments_are_an_invalid_call(text: str) -> None:
    (call,) = message(
        run(stream(delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "read", "arguments": text}}])))
    ).calls
    assert call.invalid and call.arguments == {}


def test_calls_without_name_or_cut_by_the_limit_are_invalid() -> None:
    nameless = delta(tool_calls=[{"index": 0, "id": "c", "function": {"arguments": "{}"}}])
    (call,) = message(run(stream(nameless))).calls
    assert call.name == "" and call.invalid
    begun = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "write", "arguments": '{"path": "a'}}])
    (call,) = message(run(stream(begun, delta("length")))).calls
    assert call.invalid and "limit" in call.invalid


def test_arguments_as_an_object_and_ids_of_earlier_turns() -> None:
    earlier = AssistantMessage((ToolCall("c", "ls", {}),))
    piece = {"index": 0, "id": "c", "function": {"name": "read", "arguments": {"path": "x"}}}
    events = decoded(
        CompletionsDecoder, [stream(delta(tool_calls=[piece]))], request(UserMessage("a"), earlier, UserMessage("b"))
    )
    (call,) = message(events).calls
    assert call == ToolCall("c_2", "read", {"path": "x"})


def test_two_hundred_calls_and_a_new_id_under_one_index() -> None:
    pieces = [
        delta(tool_calls=[{"index": 0, "id": f"c{n}", "function": {"name": "ls", "arguments": "{}"}}])
        for n in range(200)
    ]
    assert [c.id for c in message(run(stream(*pieces))).calls] == [f"c{n}" for n in range(200)]


def test_content_as_blocks() -> None:
    blocks = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}, 3]
    assert message(run(stream(delta(content=blocks)))).content == (ThinkingBlock("hm"), TextBlock("yes"))


def test_nothing_comes_after_the_end() -> None:
    decoder = CompletionsDecoder(request())
    assert isinstance(decoder.feed(stream(delta(content="x")))[-1], StreamDone)
    assert decoder.feed(stream(delta(content="y"))) == [] and decoder.close() == []


def test_five_megabytes_of_arguments_and_a_line_over_the_limit() -> None:
    text = json.dumps({"content": "x" * 5_000_000})
    pieces = [
        delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "write", "arguments": text[i : i + 500_000]}}])
        for i in range(0, len(text), 500_000)
    ]
    (call,) = message(run(stream(*pieces))).calls
    assert call.invalid is None and len(call.arguments["content"]) == 5_000_000
    last = run(b"data: " + b"x" * 9_000_000)[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "malformed"


# --- the official client on the same bytes ------------------------------------------------------------------------


def sdk(data: bytes) -> Iterator[Any]:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    client = openai.OpenAI(
        api_key="x", base_url="http://sdk/v1", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))
    )
    return iter(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True))


@pytest.mark.parametrize("name", ["text", "tools", "reasoning"])
def test_the_official_client_reads_the_same(name: str) -> None:
    data = recorded(f"completions/{name}.sse")
    text, thought, calls, usage = "", "", {}, None
    for chunk in sdk(data):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            thought += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or ():
                entry = calls.setdefault(call.index, ["", "", ""])
                entry[0] += call.id or ""
                entry[1] += call.function.name or ""
                entry[2] += call.function.arguments or ""
    said = message(run(data))
    assert (said.text, said.thinking) == (text, thought)
    assert [(c.id, c.name, c.arguments) for c in said.calls] == [(i, n, json.loads(a)) for i, n, a in calls.values()]
    assert usage is not None
    assert said.usage.input + said.usage.cacheRead == usage.prompt_tokens
    assert said.usage.output == usage.completion_tokens and said.usage.totalTokens == usage.total_tokens
