"""What follows a failed call: the table, step by step, and that it always ends."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.agent.recover import DEFAULT_LIMITS, IMAGE_GONE, TABLE, Recovery, choose_lower_level, find_named_levels
from palinurus.core.history.repair import is_valid_history
from palinurus.core.levels.resolve import ThinkingDecision
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.testing.model import make_model_info

KINDS = get_args(FailureKind)
ENDS = {"refused", "aborted", "budget"}


def choice(model: str = "m", level: str = "off", levels: tuple[str, ...] = ()) -> ModelCandidate:
    return ModelCandidate(make_model_info(model=model), ThinkingDecision(level, "inline", "", level), levels=levels)


def recovery(*choices: ModelCandidate, messages: tuple[Any, ...] = (UserMessage("hi"),)) -> Recovery:
    return Recovery(choices or (choice("a"), choice("b")), messages)


def test_every_kind_is_in_the_table_or_ends_the_answer() -> None:
    assert set(KINDS) - set(TABLE) == ENDS


@pytest.mark.parametrize("kind", sorted(ENDS))
def test_what_ends_the_answer(kind: FailureKind) -> None:
    assert recovery().again(ModelFailure(kind, "x", rotate=True), shown=False) is None


@pytest.mark.parametrize("kind", ["auth", "billing", "rate_limit", "overloaded", "server", "timeout", "network", "cut"])
def test_the_next_model_takes_over_and_after_the_last_it_ends(kind: FailureKind) -> None:
    made = recovery()
    assert not made.last
    assert made.again(ModelFailure(kind, "x"), shown=False) == "next"
    assert made.choice.model.ref.model == "b" and made.last and made.at == 1
    assert made.again(ModelFailure(kind, "x"), shown=False) is None


@pytest.mark.parametrize(
    ("kind", "times"), [("auth", 8), ("billing", 8), ("rate_limit", 1), ("overloaded", 1), ("timeout", 1)]
)
def test_another_key_goes_before_another_model_so_often(kind: FailureKind, times: int) -> None:
    made = recovery()
    failure = ModelFailure(kind, "x", rotate=True)
    assert [made.again(failure, shown=False) for _ in range(times + 1)] == ["rotate"] * times + ["next"]
    assert made.again(failure, shown=False) == "rotate"  # the next model has keys of its own


def test_without_another_key_nothing_rotates() -> None:
    assert recovery().again(ModelFailure("auth", "x"), shown=False) == "next"
    assert recovery().again(ModelFailure("server", "x", rotate=True), shown=False) == "next"


@pytest.mark.parametrize("kind", KINDS)
def test_what_people_have_seen_is_never_said_twice(kind: FailureKind) -> None:
    assert recovery().again(ModelFailure(kind, "x", rotate=True), shown=True) is None


# --- thinking -------------------------------------------------------------------------------------------------

REJECTED = [
    ("Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'low', "
     "'medium', and 'high'.", "minimal", "low"),
    ("Unsupported value: 'xhigh' is not supported with the 'gpt' model. Supported values are: 'none', 'low', 'high' "
     "(reasoning.effort is unsupported)", "xhigh", "high"),
    ("reasoning effort 'max' is not supported", "max", "high"),
    ("This model does not support thinking", "medium", "low"),
    ("thinking.type: adaptive is not supported on this model", "adaptive", "medium"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "now", "then"), REJECTED)
def test_a_refused_level_is_lowered_to_one_that_is_taken(text: str, now: str, then: str) -> None:
    made = recovery(choice("a", now))
    assert made.again(ModelFailure("format", text, 400), shown=False) == "lower"
    assert made.choice.level.level == then and now in made.choice.level.reason


def test_levels_of_the_model_are_walked_down_to_off_and_then_it_ends() -> None:
    made = recovery(choice("a", "high", ("off", "low", "high")))
    failure = ModelFailure("format", "thinking is not supported", 400)
    levels = []
    while made.again(failure, shown=False):
        levels.append(made.choice.level.level)
    assert levels == ["low", "off"]


@pytest.mark.parametrize(
    "text",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages: roles must alternate",
        "bad tool name",
    ],
)
def test_other_refusals_do_not_touch_the_level(text: str) -> None:
    made = recovery(choice("a", "high"))
    made.again(ModelFailure("format", text, 400), shown=False)
    assert made.choice.level.level == "high"


@given(st.text(), st.sampled_from(["off", "minimal", "low", "medium", "adaptive", "high", "xhigh", "max"]))
def test_lowering_always_ends(text: str, now: str) -> None:
    tried: set[str] = set()
    level: str | None = now
    for _ in range(20):
        assert level is not None
        tried.add(level)
        level = choose_lower_level(level, find_named_levels(text), (), tried)
        if level is None or level == "off":
            return
        assert level not in tried
    raise AssertionError("it goes on for ever")


# --- our own fault --------------------------------------------------------------------------------------------

SIGNED = AssistantMessage(
    (ThinkingBlock("hm", "sig"), TextBlock("ok", "t-sig"), ToolCall("c1", "read", {}, "th-sig")),
    "api",
    "p",
    "m",
    stopReason="toolUse",
)
RESULT = ToolResult("c1", "read", (TextBlock("x"),))


def test_a_refused_request_is_mended_once_and_only_if_that_changes_it() -> None:
    orphan = (UserMessage("hi"), AssistantMessage((ToolCall("c1", "read", {}),), stopReason="toolUse"))
    made = recovery(choice("a"), messages=orphan)
    assert made.again(ModelFailure("format", "tool_use without tool_result", 400), shown=False) == "repair"
    assert is_valid_history(made.messages) and made.messages != orphan
    assert made.again(ModelFailure("format", "tool_use without tool_result", 400), shown=False) is None
    assert recovery(choice("a")).again(ModelFailure("format", "no idea", 400), shown=False) is None
    assert recovery().again(ModelFailure("format", "no idea", 400), shown=False) == "next"


def test_mending_leaves_out_thoughts_and_what_only_their_writer_can_read() -> None:
    made = recovery(choice("a", "high"), messages=(UserMessage("hi"), SIGNED, RESULT))
    assert made.again(ModelFailure("format", "Invalid `signature` in `thinking` block", 400), shown=False) == "repair"
    assert made.messages[1].content == (TextBlock("ok"), ToolCall("c1", "read", {}))  # type: ignore[union-attr]
    assert made.choice.level.level == "off"  # between tool calls a thinking model wants its thoughts back
    done = recovery(
        choice("a", "high"),
        messages=(UserMessage("hi"), SIGNED, RESULT, AssistantMessage((TextBlock("so"),)), UserMessage("and?")),
    )
    assert done.again(ModelFailure("format", "Invalid `signature` in `thinking` block", 400), shown=False) == "repair"
    assert done.choice.level.level == "high"


def test_an_image_that_is_too_large_goes_and_the_person_is_told() -> None:
    small, large = ImageBlock("s" * 10, "image/png"), ImageBlock("l" * 99, "image/png")
    talk = (
        UserMessage((TextBlock("look"), small, large)),
        AssistantMessage((TextBlock("yes"),)),
        UserMessage("and now?"),
    )
    failure = ModelFailure("format", "messages.0.content.2.image: image exceeds 5 MB maximum: 6 bytes > 5 bytes", 400)
    made = recovery(choice("a"), messages=talk)
    assert made.again(failure, shown=False) == "images"
    assert made.messages[0].content == (TextBlock("look"), small, TextBlock(IMAGE_GONE))  # type: ignore[union-attr]
    assert made.again(failure, shown=False) == "images"
    assert made.messages[0].content == (TextBlock("look"), TextBlock(IMAGE_GONE), TextBlock(IMAGE_GONE))  # type: ignore[union-attr]
    assert made.notices == ["⚠️ An image was too large for fake and was left out."]
    assert made.again(failure, shown=False) is None


def test_a_history_that_does_not_fit_is_compacted_three_times_by_whoever_can() -> None:
    failure = ModelFailure("overflow", "too long")
    made = Recovery((choice("a"), choice("b")), (UserMessage("hi"),), compacts=True)
    counts = []
    while made.again(failure, shown=False) == "compact":
        counts.append(made.compactions)
    assert counts == [1, 2, 3] and made.at == 0  # another model's window is not what is missing
    assert recovery().again(failure, shown=False) is None  # nobody can


# --- it ends --------------------------------------------------------------------------------------------------


TEXTS = st.sampled_from([*(row[0] for row in REJECTED), "image too large", "x"])
MOST = DEFAULT_LIMITS.retries.limit(0)
FAILURES = st.builds(ModelFailure, st.sampled_from(KINDS), TEXTS, rotate=st.booleans())


@given(st.lists(FAILURES, min_size=MOST, max_size=MOST), st.integers(1, 4))
def test_tries_are_bounded_and_models_only_go_forward(failures: list[ModelFailure], models: int) -> None:
    made = recovery(*(choice(str(n), "high") for n in range(models)))
    at = 0
    for tries, failure in enumerate(failures, 1):
        if made.again(failure, shown=False) is None:
            return
        assert made.at >= at
        at = made.at
        assert tries < MOST
    raise AssertionError("too many tries")
