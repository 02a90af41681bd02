"""Four characters to a token, set right by the last usage that still holds."""

from __future__ import annotations

import pytest

from palinurus.core.history.tokens import context, estimate
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
    assert estimate(message) == tokens


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
