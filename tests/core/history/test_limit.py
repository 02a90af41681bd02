"""The last so many turns of the user, tool turns whole."""

from __future__ import annotations

import pytest

from palinurus.core.history.limit import Turns, allowed, keep_turns, turns
from palinurus.core.history.repair import valid
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import Assistant, Message, Text, ToolCall, ToolResult, User

ONE: tuple[Message, ...] = (User("1"), Assistant((Text("one"),)))
TWO: tuple[Message, ...] = (
    User("2"),
    Assistant((ToolCall("a", "ls", {}),), stopReason="toolUse"),
    ToolResult("a", "ls", (Text("x"),)),
    Assistant((Text("two"),)),
)
THREE: tuple[Message, ...] = (User("3"),)


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
    assert valid(kept)


def test_turns() -> None:
    assert turns(ONE + TWO + THREE) == 3
    assert turns([]) == 0
    assert keep_turns([*ONE, *TWO], 1) == TWO


def test_a_step_drops_several_turns_at_once() -> None:
    history = [User(str(n)) for n in range(13)]
    assert [m.text for m in keep_turns(history, 10, step=4)] == [str(n) for n in range(4, 13)]
    assert keep_turns(history, 10, pinned=1) == (history[0], *history[3:])
    assert keep_turns(history, 13, step=4) == tuple(history)


LIMITS = {"telegram": Turns(group=30, direct=20, people={"123": 5, "vip": 0}), "discord": Turns(direct=7)}


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
    assert allowed(SessionKey("main", key), LIMITS, channel, peer) == expected
