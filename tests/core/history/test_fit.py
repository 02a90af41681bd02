"""The whole way from a history to a request: valid, idempotent, deterministic, and stable as it grows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.history.fit import HistoryLimits, fit_history
from palinurus.core.history.images import Budget
from palinurus.core.history.prune import PruningRules
from palinurus.core.history.repair import is_valid_history, repair_history
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)

SECOND = 1000


@st.composite
def histories(draw: st.DrawFn) -> list[list[Message]]:
    """Turns of a valid history: pauses short and long, several calls at once, results large and small, images."""
    turns: list[list[Message]] = []
    clock, number = SECOND, 0
    for _ in range(draw(st.integers(0, 14))):
        clock += draw(st.sampled_from([1, 30, 400])) * SECOND
        picture = (ImageBlock("i" * draw(st.integers(1, 40)), "image/png"),) if draw(st.booleans()) else ()
        turn: list[Message] = [UserMessage((TextBlock("ask"), *picture), clock)]
        for _ in range(draw(st.integers(0, 3))):
            calls = [
                ToolCall(f"c{number + i}", draw(st.sampled_from(["read", "exec"])), {})
                for i in range(draw(st.integers(1, 3)))
            ]
            number += len(calls)
            turn.append(AssistantMessage(tuple(calls), stopReason="toolUse", timestamp=clock))
            for call in calls:
                text = draw(st.sampled_from(["r", "error\n"])) * draw(st.sampled_from([1, 300, 900, 3000]))
                seen = (ImageBlock("r" * 30, "image/png"),) if draw(st.integers(0, 4)) == 0 else ()
                turn.append(ToolResult(call.id, call.name, (TextBlock(text), *seen), timestamp=clock))
            clock += SECOND
        turn.append(AssistantMessage((TextBlock("told"),), timestamp=clock))
        turns.append(turn)
    return turns


PRUNINGS = st.builds(
    PruningRules,
    mode=st.sampled_from(["off", "cache-ttl", "aggressive"]),
    keep_assistants=st.integers(0, 4),
    least=st.sampled_from([0, 3000]),
    soft_most=st.sampled_from([100, 1000]),
    head=st.integers(0, 600),
    tail=st.integers(0, 600),
    most=st.sampled_from([50, 800]),
    after_turns=st.integers(0, 6),
    clear=st.booleans(),
    deny=st.sampled_from([(), ("read",)]),
)
RULES = st.builds(
    HistoryLimits,
    window=st.sampled_from([500, 3000, 100_000]),
    turns=st.none() | st.integers(0, 9),
    result_chars=st.sampled_from([2000, 16_000]),
    pruning=PRUNINGS,
    images=st.none() | st.builds(Budget, st.integers(0, 4), st.integers(1, 4), st.integers(20, 200)),
)


def flat(turns: list[list[Message]]) -> list[Message]:
    return [message for turn in turns for message in turn]


@given(histories(), RULES, st.none() | st.integers(0, 10**7), st.integers(0, 1))
@settings(max_examples=150)
def test_valid_idempotent_and_deterministic(
    turns: list[list[Message]], rules: HistoryLimits, now: int | None, pinned: int
) -> None:
    history = repair_history(flat(turns))
    once = fit_history(history, rules, pinned, now)
    assert is_valid_history(once)
    assert fit_history(history, rules, pinned, now) == once
    assert fit_history(once, rules, pinned, now) == once
    assert once[:pinned] == () or type(once[0]) is type(history[0])
    kept = {id(m) for m in history}
    for message in once:  # only results and pictures ever change
        if id(message) not in kept:
            assert isinstance(message, ToolResult | UserMessage)


@given(histories(), RULES)
@settings(max_examples=150)
def test_as_the_talk_grows_old_messages_keep_their_bytes_between_declared_points(
    turns: list[list[Message]], rules: HistoryLimits
) -> None:
    """Once something of a message is gone it does not come back, whatever follows; nor does a message that was dropped.
    A limit that moves is a declared point: all bytes are new behind it.
    """
    seen: dict[int, list[Message]] = {}
    last = 0
    for count in range(1, len(turns) + 1):
        history = flat(turns[: count - 1])
        sent = fit_history(history, rules, 0, turns[count - 1][0].timestamp)
        start = len(history) - len(sent)
        assert start >= last
        if start > last:
            seen.clear()
        last = start
        for at, message in enumerate(sent, start):
            versions = seen.setdefault(at, [])
            assert message not in versions[:-1]
            if versions[-1:] != [message]:
                versions.append(message)


@pytest.mark.seed(325)
def test_the_limit_drops_old_turns_and_leaves_the_summary() -> None:
    history = [
        UserMessage("what was said before"),
        *(m for n in range(30) for m in (UserMessage(f"q{n}"), AssistantMessage((TextBlock("a"),)))),
    ]
    rules = HistoryLimits(window=100_000, turns=10)
    sent = fit_history(history, rules, pinned=1)
    assert sent[0] == history[0]
    assert sent[1:] == tuple(history[-2 * 10 :])
    assert len(fit_history(history, rules)) == 18  # without a summary to keep it counts like any other message
    assert fit_history(history, HistoryLimits(window=100_000)) == tuple(history)


def test_the_beginning_holds_for_several_turns() -> None:
    starts = []
    for turns in range(20, 41):
        history = [m for n in range(turns) for m in (UserMessage(f"q{n}"), AssistantMessage((TextBlock("a"),)))]
        sent = fit_history(history, HistoryLimits(window=100_000, turns=20))
        starts.append(sent[0].text)
        assert 16 <= sum(isinstance(m, UserMessage) for m in sent) <= 20
    assert len(set(starts)) == 5  # in twenty turns the beginning moved four times


def test_an_image_does_not_come_back_when_pruning_takes_others() -> None:
    """Found by the property above: the budget must also count the images that pruning will take."""
    seen = (TextBlock("r"), ImageBlock("r" * 30, "image/png"))
    turn: list[Message] = [
        AssistantMessage((ToolCall("c0", "read", {}),), stopReason="toolUse", timestamp=5000),
        ToolResult("c0", "read", seen, timestamp=5000),
        AssistantMessage((TextBlock("told"),), timestamp=5000),
    ]
    first: list[Message] = [UserMessage((TextBlock("ask"), ImageBlock("i", "image/png")), 5000), *turn]
    rules = HistoryLimits(500, pruning=PruningRules(mode="cache-ttl", keep_assistants=0), images=Budget(9, 1, 1000))
    before = fit_history(first, rules, 0, 6000)  # two images: one too many
    after = fit_history(first, rules, 0, 900_000)  # and now the other is pruned
    assert before[0] == after[0] != first[0]
    assert after[2] != first[2]
