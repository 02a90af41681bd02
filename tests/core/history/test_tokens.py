"""Four characters to a token, set right by the last usage that still holds."""

from __future__ import annotations

import msgspec
import pytest

from palinurus.core.history.tokens import (
    CalibrationTable,
    TokenMeasure,
    estimate_context_tokens,
    estimate_message_tokens,
    estimate_tokens,
    find_measures,
)
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.usage import TokenUsage


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage(""), 0),
        (UserMessage("a"), 1),
        (UserMessage("abcd"), 1),
        (UserMessage("abcde"), 2),
        (UserMessage((TextBlock("abcd"), ImageBlock("…", "image/png"))), 1201),
        (AssistantMessage((TextBlock("ab"), ThinkingBlock("cd"))), 1),
        (AssistantMessage((ToolCall("x", "read", {"path": "a"}),)), 4),  # 4 + len('{"path":"a"}') = 16
        (ToolResult("x", "read", (TextBlock("12345678"),)), 2),
        (
            AssistantMessage((ToolCall("x", "t", {"a": {1, 2}.__class__}),)),
            6,
        ),  # not JSON: counted by what it looks like
    ],
)
def test_estimate(message: Message, tokens: int) -> None:
    assert estimate_message_tokens(message) == tokens


def used(*counts: int, stop: str = "stop", total: int = 0) -> AssistantMessage:
    return AssistantMessage((TextBlock("abcd"),), usage=TokenUsage(*counts, totalTokens=total), stopReason=stop)  # type: ignore[arg-type]


def test_without_usage_everything_is_estimated() -> None:
    assert estimate_context_tokens([UserMessage("abcd"), used(), UserMessage("abcdefgh")]) == 4


def test_the_last_usage_counts_and_only_what_follows_is_estimated() -> None:
    history = [
        UserMessage("x" * 4000),
        used(5, 1),
        UserMessage("x" * 4000),
        used(100, 20, 3, 4),
        UserMessage("abcd"),
        ToolResult("a", "b", (TextBlock("abcd"),)),
    ]
    assert estimate_context_tokens(history) == 127 + 2
    assert estimate_context_tokens([UserMessage("x" * 400), used(total=55)]) == 55


def test_usage_of_failed_calls_is_ignored() -> None:
    history = [UserMessage("x" * 400), used(100, 20), used(9000, 1, stop="error"), used(9000, 1, stop="aborted")]
    assert estimate_context_tokens(history) == 122


def test_usage_from_before_a_compaction_is_ignored() -> None:
    history = [UserMessage("summary!"), used(180_000, 500), UserMessage("abcd")]
    assert estimate_context_tokens(history, kept=2) == 4
    assert estimate_context_tokens([*history, used(2000, 10)], kept=2) == 2010


def answer(tokens_in: int, text: str = "ok", model: str = "m", **more: object) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), provider="p", model=model, usage=TokenUsage(tokens_in, 5), **more)  # type: ignore[arg-type]


def test_total_is_the_sum() -> None:
    history = [UserMessage("abcd"), answer(3, "abcdefgh")]
    assert estimate_tokens(history) == 3
    assert estimate_context_tokens([UserMessage("a" * 400)], scale=1.5) == 150


def test_a_measure_is_what_the_count_grew_by_between_two_answers() -> None:
    history: list[Message] = [UserMessage("x" * 4000), answer(1500), UserMessage("y" * 800), answer(1750)]
    assert list(find_measures(history)) == [TokenMeasure("p/m", 201, 250)]
    assert list(find_measures(history, 4)) == []
    grown = [*history, UserMessage("z" * 400), answer(1880)]
    assert list(find_measures(grown, 4)) == [TokenMeasure("p/m", 101, 130)]  # only what is new


@pytest.mark.parametrize(
    "between",
    [
        [UserMessage("y" * 800), answer(1750, model="n")],
        [UserMessage("y" * 800), answer(1400)],  # shrank: something was cut
        [UserMessage("y" * 800), answer(90_000)],
        [UserMessage("y" * 8), answer(1503)],
        [UserMessage((TextBlock("y" * 800), ImageBlock("i", "image/png"))), answer(1750)],
        [UserMessage("y" * 800), answer(1750, stopReason="error")],
        [UserMessage("y" * 800), AssistantMessage((TextBlock("ok"),), provider="p", model="m")],
    ],
)
def test_what_tells_nothing_is_no_measure(between: list[Message]) -> None:
    assert list(find_measures([UserMessage("x"), answer(1500), *between])) == []


def test_thoughts_are_not_measured() -> None:
    thought = AssistantMessage(
        (ThinkingBlock("t" * 400), TextBlock("ok")), provider="p", model="m", usage=TokenUsage(1500, 5)
    )
    assert list(find_measures([UserMessage("x"), thought, UserMessage("y" * 800), answer(1750)])) == []


def test_calibration_learns_each_model_and_says_how_far_off_it_is() -> None:
    known = CalibrationTable()
    assert known.scale("p/m") == 1.0 and known.after([]) is known
    for _ in range(300):
        known = known.after([TokenMeasure("p/m", 1000, 1300), TokenMeasure("p/n", 1000, 800)])
    assert known.scale("p/m") == pytest.approx(1.3, abs=0.01)
    assert known.scale("p/n") == pytest.approx(0.8, abs=0.01)
    assert known.scale("p/other") == 1.0
    learned = known.models["p/m"]
    assert learned.count == 300 and learned.error is not None and learned.error < 0.02
    rough = CalibrationTable()
    for n in range(300):
        rough = rough.after([TokenMeasure("p/m", 1000, 800 if n % 2 else 1200)])
    assert rough.scale("p/m") == pytest.approx(1.0, abs=0.02)
    assert rough.models["p/m"].error == pytest.approx(0.2, abs=0.02)
    assert msgspec.json.decode(msgspec.json.encode(known), type=CalibrationTable) == known


def test_what_was_learned_long_ago_fades() -> None:
    known = CalibrationTable().after([TokenMeasure("p/m", 1000, 2000)] * 200)
    assert known.after([TokenMeasure("p/m", 1000, 1000)] * 600).scale("p/m") == pytest.approx(1.05, abs=0.05)
