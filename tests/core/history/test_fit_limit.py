"""The last so many turns of the user, tool turns whole."""

from __future__ import annotations

import pytest

from palinurus.core.history.fit import TurnLimits, count_turns, find_turn_limit, keep_turns
from palinurus.core.history.repair import is_valid_history
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage

ONE: tuple[Message, ...] = (UserMessage("1"), AssistantMessage((TextBlock("one"),)))
TWO: tuple[Message, ...] = (
    UserMessage("2"),
    AssistantMessage((ToolCall("a", "ls", {}),), stopReason="toolUse"),
    ToolResult("a", "ls", (TextBlock("x"),)),
    AssistantMessage((TextBlock("two"),)),
)
THREE: tuple[Message, ...] = (UserMessage("3"),)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, THREE),
        (2, TWO + THREE),
        (3, ONE + TWO + THREE),
        (9, ONE + TWO + THREE),
        (0, ONE + TWO + THREE),
        (None, ONE + TWO + THREE),
        (-1, ONE + TWO + THREE),
    ],
)
def test_keep_turns(count: int | None, expected: tuple[Message, ...]) -> None:
    kept = keep_turns(ONE + TWO + THREE, count)
    assert kept == expected
    assert is_valid_history(kept)


def test_turns() -> None:
    assert count_turns(ONE + TWO + THREE) == 3
    assert count_turns([]) == 0
    assert keep_turns([*ONE, *TWO], 1) == TWO


def test_a_step_drops_several_turns_at_once() -> None:
    history = [UserMessage(str(n)) for n in range(13)]
    assert [m.text for m in keep_turns(history, 10, step=4)] == [str(n) for n in range(4, 13)]
    assert keep_turns(history, 10, pinned=1) == (history[0], *history[3:])
    assert keep_turns(history, 13, step=4) == tuple(history)


LIMITS = {"telegram": TurnLimits(group=30, direct=20, people={"123": 5, "vip": 0}), "discord": TurnLimits(direct=7)}


@pytest.mark.seed(325)
@pytest.mark.parametrize(
    ("key", "channel", "peer", "expected"),
    [
        ("telegram:direct:9", "", "", 20),
        ("telegram:direct:123", "", "", 5),
        ("telegram:direct:123:thread:4", "", "", 5),
        ("telegram:work:direct:123", "", "", 5),
        ("telegram:direct:VIP", "", "", None),  # his own limit is none
        ("telegram:group:-100", "", "", 30),
        ("telegram:group:-100:topic:3", "", "", 30),
        ("discord:channel:1", "", "", None),
        ("discord:direct:1", "", "", 7),
        ("slack:direct:1", "", "", None),
        ("direct:123", "telegram", "123", 5),
        ("main", "telegram", "9", 20),
        ("main", "telegram", "123", 5),
        ("main", "terminal", "", None),
        ("subagent:1", "telegram", "123", None),
        ("cron:1", "telegram", "123", None),
    ],
)
def test_limits_by_kind_channel_and_person(key: str, channel: str, peer: str, expected: int | None) -> None:
    assert find_turn_limit(SessionKey("main", key), LIMITS, channel, peer) == expected
