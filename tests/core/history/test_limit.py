"""The last so many turns of the user, tool turns whole."""

from __future__ import annotations

import pytest

from palinurus.core.history.limit import keep_turns, turns
from palinurus.core.history.repair import valid
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
