"""Four characters to a token, set right by the last usage that still holds."""

from __future__ import annotations

import msgspec
import pytest

from palinurus.core.history.tokens import Calibration, Measure, context, measures, of, total
from palinurus.core.types.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from palinurus.core.types.usage import Usage


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (User(""), 0),
        (User("a"), 1),
        (User("abcd"), 1),
        (User("abcde"), 2),
        (User((Text("abcd"), Image("…", "image/png"))), 1201),
        (Assistant((Text("ab"), Thinking("cd"))), 1),
        (Assistant((ToolCall("x", "read", {"path": "a"}),)), 4),  # 4 + len('{"path":"a"}') = 16
        (ToolResult("x", "read", (Text("12345678"),)), 2),
        (Assistant((ToolCall("x", "t", {"a": {1, 2}.__class__}),)), 6),  # not JSON: counted by what it looks like
    ],
)
def test_estimate(message: Message, tokens: int) -> None:
    assert of(message) == tokens


def used(*counts: int, stop: str = "stop", total: int = 0) -> Assistant:
    return Assistant((Text("abcd"),), usage=Usage(*counts, totalTokens=total), stopReason=stop)  # type: ignore[arg-type]


def test_without_usage_everything_is_estimated() -> None:
    assert context([User("abcd"), used(), User("abcdefgh")]) == 4


def test_the_last_usage_counts_and_only_what_follows_is_estimated() -> None:
    history = [
        User("x" * 4000),
        used(5, 1),
        User("x" * 4000),
        used(100, 20, 3, 4),
        User("abcd"),
        ToolResult("a", "b", (Text("abcd"),)),
    ]
    assert context(history) == 127 + 2
    assert context([User("x" * 400), used(total=55)]) == 55


def test_usage_of_failed_calls_is_ignored() -> None:
    history = [User("x" * 400), used(100, 20), used(9000, 1, stop="error"), used(9000, 1, stop="aborted")]
    assert context(history) == 122


def test_usage_from_before_a_compaction_is_ignored() -> None:
    history = [User("summary!"), used(180_000, 500), User("abcd")]
    assert context(history, kept=2) == 4
    assert context([*history, used(2000, 10)], kept=2) == 2010


def answer(tokens_in: int, text: str = "ok", model: str = "m", **more: object) -> Assistant:
    return Assistant((Text(text),), provider="p", model=model, usage=Usage(tokens_in, 5), **more)  # type: ignore[arg-type]


def test_total_is_the_sum() -> None:
    history = [User("abcd"), answer(3, "abcdefgh")]
    assert total(history) == 3
    assert context([User("a" * 400)], scale=1.5) == 150


def test_a_measure_is_what_the_count_grew_by_between_two_answers() -> None:
    history: list[Message] = [User("x" * 4000), answer(1500), User("y" * 800), answer(1750)]
    assert list(measures(history)) == [Measure("p/m", 201, 250)]
    assert list(measures(history, 4)) == []
    grown = [*history, User("z" * 400), answer(1880)]
    assert list(measures(grown, 4)) == [Measure("p/m", 101, 130)]  # only what is new


@pytest.mark.parametrize(
    "between",
    [
        [User("y" * 800), answer(1750, model="n")],
        [User("y" * 800), answer(1400)],  # shrank: something was cut
        [User("y" * 800), answer(90_000)],
        [User("y" * 8), answer(1503)],
        [User((Text("y" * 800), Image("i", "image/png"))), answer(1750)],
        [User("y" * 800), answer(1750, stopReason="error")],
        [User("y" * 800), Assistant((Text("ok"),), provider="p", model="m")],
    ],
)
def test_what_tells_nothing_is_no_measure(between: list[Message]) -> None:
    assert list(measures([User("x"), answer(1500), *between])) == []


def test_thoughts_are_not_measured() -> None:
    thought = Assistant((Thinking("t" * 400), Text("ok")), provider="p", model="m", usage=Usage(1500, 5))
    assert list(measures([User("x"), thought, User("y" * 800), answer(1750)])) == []


def test_calibration_learns_each_model_and_says_how_far_off_it_is() -> None:
    known = Calibration()
    assert known.scale("p/m") == 1.0 and known.after([]) is known
    for _ in range(300):
        known = known.after([Measure("p/m", 1000, 1300), Measure("p/n", 1000, 800)])
    assert known.scale("p/m") == pytest.approx(1.3, abs=0.01)
    assert known.scale("p/n") == pytest.approx(0.8, abs=0.01)
    assert known.scale("p/other") == 1.0
    learned = known.models["p/m"]
    assert learned.count == 300 and learned.error is not None and learned.error < 0.02
    rough = Calibration()
    for n in range(300):
        rough = rough.after([Measure("p/m", 1000, 800 if n % 2 else 1200)])
    assert rough.scale("p/m") == pytest.approx(1.0, abs=0.02)
    assert rough.models["p/m"].error == pytest.approx(0.2, abs=0.02)
    assert msgspec.json.decode(msgspec.json.encode(known), type=Calibration) == known


def test_what_was_learned_long_ago_fades() -> None:
    known = Calibration().after([Measure("p/m", 1000, 2000)] * 200)
    assert known.after([Measure("p/m", 1000, 1000)] * 600).scale("p/m") == pytest.approx(1.05, abs=0.05)
