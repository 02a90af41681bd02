"""The builder under all decoders: events as pieces come, one end, nothing after it."""

from __future__ import annotations

import pytest

from palinurus.core.types.messages import TextBlock, ThinkingBlock, ToolCall
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    TokenPrice,
)
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.wire import build
from palinurus.providers.wire.build import AnswerBuilder, add_total_and_cost
from providers.kit import request


def test_pieces_of_one_take_are_one_event() -> None:
    builder = AnswerBuilder(request())
    builder.text("a")
    builder.text("b")
    builder.thinking("t", "sig")
    builder.text("c")
    assert builder.take() == [TextDelta("ab"), ThinkingDelta("t"), TextDelta("c")]
    assert builder.take() == []
    builder.text("d")
    last = builder.finish("stop")
    assert last[0] == TextDelta("d") and isinstance(last[1], StreamDone)
    assert last[1].message.content == (TextBlock("ab"), ThinkingBlock("t", "sig"), TextBlock("cd"))
    assert builder.finish("stop") == [] == builder.fail("server", "x")


def test_arguments_before_the_name_wait_for_it() -> None:
    builder = AnswerBuilder(request())
    part = builder.part("call")
    builder.grow(part, '{"a":')
    builder.text("x")
    assert builder.take() == [TextDelta("x")]
    builder.call(part, "id", "read")
    builder.grow(part, "1}")
    assert builder.take() == [CallStart(0, "id", "read"), CallDelta(0, '{"a":1}')]
    (done,) = builder.finish("stop")
    assert isinstance(done, StreamDone) and done.message.calls == (ToolCall("id", "read", {"a": 1}),)
    assert done.message.stopReason == "toolUse"


def test_a_failure_keeps_text_and_drops_calls() -> None:
    builder = AnswerBuilder(request())
    builder.text("half")
    part = builder.part("call")
    builder.call(part, "id", "read")
    builder.grow(part, "{}")
    *_, last = builder.fail("cut", "gone")
    assert isinstance(last, StreamFailed) and last.message.content == (TextBlock("half"),) and last.failure.partial
    (only,) = AnswerBuilder(request()).fail("server", "x")
    assert isinstance(only, StreamFailed) and not only.failure.partial


def test_an_endless_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """… and its beginning is all that anybody keeps."""
    monkeypatch.setattr(build, "MAX_ANSWER", 10)
    monkeypatch.setattr(build, "KEPT", 4)
    builder = AnswerBuilder(request())
    builder.thinking("abc")
    builder.text("x" * 9)
    *_, text, last = builder.take()
    assert text == TextDelta("x" * 9) and isinstance(last, StreamFailed) and last.failure.kind == "malformed"
    assert (last.message.thinking, last.message.text) == ("abc", "x")
    assert builder.ended and builder.finish("stop") == []


def test_prices() -> None:
    usage = TokenUsage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    cost = add_total_and_cost(usage, TokenPrice(1, 2, 3, 4)).cost
    assert cost is not None and (cost.input, cost.output, cost.cacheRead, cost.cacheWrite, cost.total) == (
        1,
        2,
        3,
        4,
        10,
    )
    assert add_total_and_cost(usage, None).cost is None and add_total_and_cost(usage, None).totalTokens == 4_000_000


def test_a_long_context_has_its_own_price() -> None:
    """A session's dollars are counted from what the decoder books: `add_cost` leaves it alone."""
    price = TokenPrice(1, 1, 1, 1, above=100, long=TokenPrice(2, 2, 2, 2))
    short, long = TokenUsage(100, 10), TokenUsage(50, 10, 25, 26)
    for usage, dollars in ((short, 110 / 1e6), (long, 222 / 1e6)):
        cost = add_total_and_cost(usage, price).cost
        assert cost is not None and cost.total == pytest.approx(dollars)


def test_thousands_of_calls_with_one_id_get_ids_of_their_own() -> None:
    """Each one counted up from 2: a square of their number."""
    builder = AnswerBuilder(request())
    for _ in range(20_000):
        builder.call(builder.part("call"), "same", "read")
    (done,) = builder.finish("toolUse")[-1:]
    assert isinstance(done, StreamDone)
    ids = [call.id for call in done.message.calls]
    assert ids[:3] == ["same", "same_2", "same_3"] and len(set(ids)) == 20_000
