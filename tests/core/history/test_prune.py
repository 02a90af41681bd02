"""Old results made smaller, at declared points only."""

from __future__ import annotations

import pytest

from palinurus.core.history.prune import CLEARED, UNSEEN, PruningRules, prune_results, trim_result
from palinurus.core.history.repair import is_valid_history
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)

MINUTE = 60_000
TTL = PruningRules(mode="cache-ttl")


def turn(number: int, at: int, size: int = 20_000, tool: str = "exec") -> list[Message]:
    """A question, one call with a result of `size`, an answer: all at minute `at`."""
    ident = f"c{number}"
    return [
        UserMessage(f"question {number}", at * MINUTE),
        AssistantMessage((ToolCall(ident, tool, {}),), stopReason="toolUse", timestamp=at * MINUTE),
        ToolResult(ident, tool, (TextBlock(f"<{number}>" + "r" * size + f"</{number}>"),), timestamp=at * MINUTE),
        AssistantMessage((TextBlock("done"),), timestamp=at * MINUTE),
    ]


def talk(count: int, gap: int = 1, size: int = 20_000) -> list[Message]:
    return [message for n in range(count) for message in turn(n, 1 + n * gap, size)]


def sizes(messages: tuple[Message, ...]) -> list[int]:
    return [len(m.text) for m in messages if isinstance(m, ToolResult)]


@pytest.mark.seed(327)
def test_off_is_the_default_and_does_nothing() -> None:
    history = talk(40, gap=60)
    pruned = prune_results(history, PruningRules(), 1000, 10**12)
    assert PruningRules().mode == "off" and all(a is b for a, b in zip(pruned, history, strict=True))


@pytest.mark.seed(327, 328)
def test_cache_ttl_waits_for_the_pause_and_for_a_full_window() -> None:
    history = talk(10)  # 200 k characters: half of a window of 100 k tokens
    end = 11 * MINUTE
    assert prune_results(history, TTL, 100_000, end) == tuple(history)  # the cache is still warm
    assert prune_results(history, TTL, 400_000, end + 60 * MINUTE) == tuple(history)  # and here there is room
    pruned = prune_results(history, TTL, 100_000, end + 6 * MINUTE)
    assert sizes(pruned)[:8] == [sizes(pruned)[0]] * 8 and sizes(pruned)[0] < 4000
    first = pruned[2]
    assert isinstance(first, ToolResult)
    assert first.text.startswith("<0>rrr") and "</0>\n[Trimmed: first 1500 and last 1500 of 20007" in first.text
    assert [m for m in pruned if not isinstance(m, ToolResult)] == [m for m in history if not isinstance(m, ToolResult)]


@pytest.mark.seed(329)
def test_the_last_three_answers_keep_their_results() -> None:
    history = talk(10)
    pruned = prune_results(history, TTL, 50_000, 10**9)
    assert pruned[-5:] == tuple(history[-5:])  # from the third last answer on
    assert sizes(pruned)[-2] < 4000 < sizes(pruned)[-1]
    assert prune_results(history[:4], TTL, 1000, 10**9) == tuple(history[:4])  # fewer than three answers: nothing


def test_hard_clear_takes_the_oldest_until_half_is_free() -> None:
    history = [message for n in range(60) for message in turn(n, 1 + n, 3900)]  # too small to be trimmed
    window = 80_000  # 320 k characters; the talk has about 235 k
    pruned = prune_results(history, TTL, window, 10**9)
    gone = [isinstance(m, ToolResult) and m.text == CLEARED for m in pruned if isinstance(m, ToolResult)]
    assert gone == sorted(gone, reverse=True) and 0 < sum(gone) < 58
    assert sum(sizes(pruned)) < 0.5 * window * 4
    off = PruningRules(mode="cache-ttl", clear=False)
    assert prune_results(history, off, window, 10**9) == tuple(history)
    few = PruningRules(mode="cache-ttl", least=10**6)
    assert prune_results(history, few, window, 10**9) == tuple(history)
    word = PruningRules(mode="cache-ttl", placeholder="gone")
    assert any(m.text == "gone" for m in prune_results(history, word, window, 10**9) if isinstance(m, ToolResult))


def test_what_a_pause_pruned_stays_pruned_byte_for_byte() -> None:
    """The same history, seen again a minute later and turns later: old bytes do not come back."""
    history = talk(10)
    late = 30
    first = prune_results(history, TTL, 100_000, late * MINUTE)
    grown = [*history, *turn(10, late)]
    again = prune_results(grown, TTL, 100_000, (late + 1) * MINUTE)
    assert again[: len(first)] == first
    more = prune_results([*grown, *turn(11, late + 1)], TTL, 100_000, (late + 2) * MINUTE)
    assert more[: len(again)] == again
    assert prune_results(first, TTL, 100_000, late * MINUTE) == first


def test_nothing_before_the_first_user_message_is_touched() -> None:
    start: list[Message] = [
        AssistantMessage((ToolCall("s", "read", {}),), stopReason="toolUse", timestamp=MINUTE),
        ToolResult("s", "read", (TextBlock("b" * 50_000),)),
    ]
    pruned = prune_results([*start, *talk(10)], TTL, 50_000, 10**9)
    assert pruned[:2] == tuple(start)
    assert sizes(pruned)[1] < 4000


@pytest.mark.seed(329)
def test_tools_can_be_allowed_and_denied() -> None:
    history = [m for n in range(9) for m in turn(n, 1 + n, tool=("read", "exec", "web_fetch")[n % 3])]
    for mode in ("cache-ttl", "aggressive"):
        rules = PruningRules(mode=mode, allow=("re*", "web_*"), deny=("web_fetch",), after_turns=2)
        pruned = prune_results(history, rules, 30_000, 10**9)
        touched = {m.toolName for m, o in zip(pruned, history, strict=True) if isinstance(m, ToolResult) and m != o}
        assert touched == {"read"}


@pytest.mark.seed(327, 328, 329)
def test_aggressive_keeps_head_and_tail_of_what_is_old() -> None:
    rules = PruningRules(mode="aggressive")
    assert prune_results(talk(14), rules, 10**6, None) == tuple(talk(14))
    pruned = prune_results(talk(20), rules, 10**6, None)
    assert [size > 2000 for size in sizes(pruned)] == [False] * 10 + [True] * 10
    old = pruned[2]
    assert isinstance(old, ToolResult)
    head, tail = old.text.split("\n...\n")
    assert (
        len(head) == 1080 and head.startswith("<0>") and "</0>\n[Trimmed" in tail
    )  # 60 % of what fits beside the note
    small = PruningRules(mode="aggressive", most=30_000)
    assert prune_results(talk(20), small, 10**6, None) == tuple(talk(20))


def test_aggressive_moves_its_border_rarely() -> None:
    rules, changes = PruningRules(mode="aggressive"), 0
    last: tuple[Message, ...] = ()
    for turns in range(1, 60):
        pruned = prune_results(talk(turns), rules, 10**6, None)
        changes += pruned[: len(last)] != last
        last = pruned
        assert is_valid_history(pruned)
        assert prune_results(pruned, rules, 10**6, None) == pruned
    assert changes == 9  # every fifth turn


def test_images_of_old_results_give_way() -> None:
    seen = ToolResult(
        "a", "read", (TextBlock("[image/png]"), ImageBlock("x" * 100, "image/png")), details={"path": "p"}
    )
    gone = trim_result(seen, 4000, 1500, 1500)
    assert gone.content == (TextBlock("[image/png]"), TextBlock(UNSEEN)) and gone.details is None
    assert trim_result(gone, 4000, 1500, 1500) is gone


@pytest.mark.parametrize("most", [1, 150, 500, 3000])
@pytest.mark.parametrize(("head", "tail"), [(1500, 1500), (0, 0), (9000, 9000), (10, 0)])
def test_trimming_twice_changes_nothing(most: int, head: int, tail: int) -> None:
    once = trim_result(ToolResult("a", "b", (TextBlock("q" * 10_000),)), most, head, tail)
    assert len(once.text) <= max(most, 200)
    assert trim_result(once, most, head, tail) is once


def test_the_handle_of_a_shortened_result_survives() -> None:
    text = "x" * 5000 + '\n[… see more with read path="result:0123456789abcdef" offset=7 …]\n' + "y" * 5000
    once = trim_result(ToolResult("a", "b", (TextBlock(text),)), 4000, 1500, 1500)
    assert 'Whole: read path="result:0123456789abcdef".' in once.text
