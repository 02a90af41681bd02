"""Where a history is cut: pairs stay together, turns if possible, and never more goes than must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history.compaction import HistoryCut, find_cut, find_cut_points
from palinurus.core.history.repair import is_valid_history, repair_history
from palinurus.core.history.tokens import estimate_tokens
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage


def user(size: int = 100) -> UserMessage:
    return UserMessage("u" * size * 4)


def said(size: int = 100) -> AssistantMessage:
    return AssistantMessage((TextBlock("a" * size * 4),))


def asks(*ids: str, failed: bool = False) -> AssistantMessage:
    reason = "error" if failed else "toolUse"
    return AssistantMessage(tuple(ToolCall(i, "read", {}) for i in ids), stopReason=reason)


def result(ident: str, size: int = 100) -> ToolResult:
    return ToolResult(ident, "read", (TextBlock("r" * size * 4),))


def test_a_result_is_never_a_beginning_and_holds_its_call() -> None:
    history = [user(), asks("1", "2"), result("1"), result("2"), said()]
    assert find_cut_points(history) == [True, True, False, False, True]


def test_a_result_that_came_late_holds_everything_between() -> None:
    assert find_cut_points([asks("1"), user(), said(), result("1"), user()]) == [True, False, False, False, True]


def test_calls_that_failed_or_were_never_answered_hold_nothing() -> None:
    assert find_cut_points([asks("1", failed=True), user(), result("1"), asks("2"), user()]) == [
        True,
        True,
        False,
        True,
        True,
    ]


def test_the_cut_keeps_about_what_it_may_and_begins_with_a_turn() -> None:
    history = [m for _ in range(10) for m in (user(), said())]
    assert find_cut(history, 450) == HistoryCut(16, 16)
    assert find_cut(history, 2000) is None


def test_a_turn_larger_than_that_is_cut_in_two_between_its_steps() -> None:
    history: list[Message] = [user(), said(), user()]
    for n in range(10):
        history += [asks(str(n)), result(str(n))]
    found = find_cut(history, 350)
    assert found is not None and found.splits and found.turn == 2
    assert isinstance(history[found.first], AssistantMessage) and is_valid_history(history[found.first :])


def test_the_last_message_stays_however_large_it_is() -> None:
    assert find_cut([user(), said(), user(5000)], 100) == HistoryCut(2, 2)
    assert find_cut([user(), asks("1"), result("1", 5000)], 100) == HistoryCut(1, 0)


def test_where_nothing_must_stay_everything_may_go() -> None:
    assert find_cut([user(), said()], 0, least=False) == HistoryCut(2, 2)


def test_an_earlier_summary_alone_is_nothing_to_compact() -> None:
    assert find_cut([user(), user()], 100, 1) is None
    assert find_cut([user()], 0, 1, least=False) is None
    assert find_cut([], 0) is None


messages = st.lists(
    st.one_of(
        st.integers(0, 50).map(user),
        st.integers(1, 50).map(said),
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True).map(lambda ids: asks(*ids)),
        st.tuples(st.sampled_from("abcd"), st.integers(0, 50)).map(lambda p: result(*p)),
    ),
    max_size=30,
)


@given(messages, st.integers(0, 2000), st.booleans())
def test_what_stays_of_a_valid_history_is_valid(given_: list[Message], keep: int, least: bool) -> None:
    history = repair_history(given_)
    found = find_cut(history, keep, least=least)
    if found is None:
        return
    assert 0 < found.first <= len(history) and found.turn <= found.first
    assert is_valid_history(history[found.first :]) and is_valid_history(history[: found.first])
    if least:
        assert found.first < len(history)
    if found.splits:
        assert not isinstance(history[found.first], UserMessage)
    assert estimate_tokens(history[found.first :]) <= keep or least


def test_an_answer_with_thousands_of_calls_is_looked_at_once() -> None:
    """Each pair of call and result held everything between them: a square of their number."""
    many = [str(n) for n in range(30_000)]
    assert find_cut_points([user(), asks(*many), *map(result, many), said()]) == [True, True, *[False] * 30_000, True]
