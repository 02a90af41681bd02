"""Whatever the history, what leaves is valid, and repairing it again changes nothing."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history.repair import UNKNOWN_OUTCOME, is_valid_history, repair_history
from palinurus.core.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)


def call(ident: str, name: str = "ls") -> ToolCall:
    return ToolCall(ident, name, {})


def asks(*idents: str, text: str = "", stop: str = "toolUse") -> AssistantMessage:
    content = ((TextBlock(text),) if text else ()) + tuple(call(i) for i in idents)
    return AssistantMessage(content, stopReason=stop, timestamp=7)  # type: ignore[arg-type]


def says(text: str, stop: str = "stop") -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), stopReason=stop)  # type: ignore[arg-type]


def result(ident: str, text: str = "ok", name: str = "ls") -> ToolResult:
    return ToolResult(ident, name, (TextBlock(text),))


def missing(ident: str) -> ToolResult:
    return ToolResult(ident, "ls", (TextBlock(UNKNOWN_OUTCOME),), isError=True, timestamp=7)


HI, GO = UserMessage("hi"), UserMessage("go")


def test_a_valid_history_is_returned_itself() -> None:
    history: tuple[Message, ...] = (
        HI,
        asks("a", "b"),
        result("a"),
        result("b"),
        says("done"),
        GO,
        asks("c"),
        result("c"),
    )
    assert is_valid_history(history)
    assert repair_history(history) is history
    assert repair_history(()) == ()


def test_missing_results_are_said_to_be_missing() -> None:
    assert repair_history((HI, asks("a", "b"), result("b"))) == (HI, asks("a", "b"), missing("a"), result("b"))
    assert repair_history((HI, asks("a"), GO)) == (HI, asks("a"), missing("a"), GO)
    assert UNKNOWN_OUTCOME == "interrupted, outcome unknown"


def test_displaced_results_are_moved_to_their_call() -> None:
    history = (HI, asks("a", "b"), GO, result("b", "B"), says("x"), result("a", "A"))
    assert repair_history(history) == (HI, asks("a", "b"), result("a", "A"), result("b", "B"), GO, says("x"))


def test_results_are_put_in_the_order_of_the_calls() -> None:
    assert repair_history((asks("a", "b"), result("b"), result("a"))) == (asks("a", "b"), result("a"), result("b"))


def test_orphans_and_duplicates_are_dropped() -> None:
    history = (result("z"), HI, asks("a"), result("a", "first"), result("a", "second"), result("q"), GO)
    assert repair_history(history) == (HI, asks("a"), result("a", "first"), GO)


def test_a_result_before_its_call_is_an_orphan() -> None:
    assert repair_history((HI, result("a"), asks("a"))) == (HI, asks("a"), missing("a"))


def test_calls_of_failed_turns_go_with_their_results() -> None:
    for stop in ("error", "aborted"):
        assert repair_history((HI, asks("a", stop=stop), result("a"), GO)) == (HI, GO)
        cut = asks("a", text="half", stop=stop)
        assert repair_history((HI, cut, result("a"), GO)) == (HI, asks(text="half", stop=stop), GO)
        assert repair_history((HI, AssistantMessage((), stopReason=stop), GO)) == (HI, GO)  # type: ignore[arg-type]
        assert repair_history((HI, says("  \n", stop), GO)) == (HI, GO)
        assert repair_history((HI, AssistantMessage((ThinkingBlock("hm"),), stopReason=stop), GO)) == (HI, GO)  # type: ignore[arg-type]


def test_a_failed_turn_does_not_lend_its_id_to_an_earlier_call() -> None:
    history = (HI, asks("a"), asks("a", stop="error"), result("a", "of the failed one"))
    assert repair_history(history) == (HI, asks("a"), missing("a"))


def test_thoughts_cut_by_the_length_limit_are_left_out() -> None:
    assert repair_history((HI, AssistantMessage((ThinkingBlock("hm"),), stopReason="length"), GO)) == (HI, GO)
    kept = AssistantMessage((ThinkingBlock("hm", "sig"),), stopReason="stop")
    assert repair_history((HI, kept, GO)) == (HI, kept, GO)


def test_malformed_calls_are_dropped() -> None:
    odd = AssistantMessage(
        (TextBlock("x"), call("", "ls"), call("b", " "), call("c")), stopReason="toolUse", timestamp=7
    )
    history = (HI, odd, result(""), result("b"), result("c"))
    assert repair_history(history) == (
        HI,
        msgspec.structs.replace(odd, content=(TextBlock("x"), call("c"))),
        result("c"),
    )
    assert repair_history((HI, asks(""), result(""), GO)) == (HI, GO)


def test_ids_used_again_are_renamed_with_their_results() -> None:
    history = (HI, asks("a"), result("a", "1"), GO, asks("a"), result("a", "2"), GO, asks("a"))
    third = missing("a_3")
    assert repair_history(history) == (
        *(HI, asks("a"), result("a", "1")),
        *(GO, asks("a_2"), result("a_2", "2")),
        *(GO, asks("a_3"), third),
    )


def test_the_same_id_twice_in_one_message() -> None:
    history = (asks("a", "a"), result("a", "1"), result("a", "2"), result("a", "3"))
    assert repair_history(history) == (asks("a", "a_2"), result("a", "1"), result("a_2", "2"))


def test_a_new_name_never_takes_one_that_is_in_use() -> None:
    history = (asks("a_2"), result("a_2"), asks("a"), result("a"), asks("a"), result("a", "x"), asks("a_2"))
    fixed = repair_history(history)
    assert [c.id for m in fixed if isinstance(m, AssistantMessage) for c in m.calls] == ["a_2", "a", "a_3", "a_2_2"]
    assert fixed[5] == result("a_3", "x")


def test_a_result_without_a_tool_name_takes_that_of_its_call() -> None:
    assert repair_history((asks("a"), result("a", name=""))) == (asks("a"), result("a"))


def test_unchanged_messages_are_the_same_objects() -> None:
    history = (HI, asks("a"), result("a"), asks("b"))
    fixed = repair_history(history)
    assert all(a is b for a, b in zip(fixed[:4], history, strict=True))


IDS = st.sampled_from(["a", "b", "a_2", "", " ", "call_1"])
NAMES = st.sampled_from(["ls", "read", ""])
TEXTS = st.sampled_from(["", " ", "words"])
CALLS = st.builds(ToolCall, IDS, NAMES, st.just({}))
BLOCKS = st.one_of(CALLS, CALLS, st.builds(TextBlock, TEXTS), st.builds(ThinkingBlock, TEXTS))
ASSISTANTS = st.builds(
    AssistantMessage,
    st.lists(BLOCKS, max_size=4).map(tuple),
    stopReason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
)
RESULTS = st.builds(ToolResult, IDS, NAMES, st.builds(TextBlock, TEXTS).map(lambda t: (t,)))
HISTORIES = st.lists(st.one_of(st.builds(UserMessage, TEXTS), ASSISTANTS, RESULTS, RESULTS), max_size=14).map(tuple)


@given(HISTORIES)
def test_the_outcome_is_valid_and_final(history: tuple[Message, ...]) -> None:
    fixed = repair_history(history)
    assert is_valid_history(fixed)
    assert repair_history(fixed) is fixed


@given(HISTORIES)
def test_nothing_a_person_said_and_no_words_of_the_model_are_lost(history: tuple[Message, ...]) -> None:
    fixed = repair_history(history)
    assert [m for m in fixed if isinstance(m, UserMessage)] == [m for m in history if isinstance(m, UserMessage)]
    said = [m.text for m in history if isinstance(m, AssistantMessage) and m.text.strip()]
    assert [m.text for m in fixed if isinstance(m, AssistantMessage) and m.text.strip()] == said


@given(HISTORIES)
def test_nothing_is_made_up_but_missing_results(history: tuple[Message, ...]) -> None:
    real = [m.content for m in history if isinstance(m, ToolResult)]
    for message in repair_history(history):
        if isinstance(message, ToolResult) and message.text != UNKNOWN_OUTCOME:
            real.remove(message.content)


def proof(history: tuple[Message, ...]) -> bool:
    """The rule once more, written as plainly as possible: what `valid` must agree with."""
    seen: list[str] = []
    for at, message in enumerate(history):
        if isinstance(message, AssistantMessage):
            calls = message.calls
            answers = history[at + 1 : at + 1 + len(calls)]
            if [c.id for c in calls] != [getattr(a, "toolCallId", None) for a in answers]:
                return False
            if any(not c.id.strip() or not c.name.strip() or c.id in seen for c in calls):
                return False
            if len({c.id for c in calls}) < len(calls):
                return False
            seen += [c.id for c in calls]
            if calls and message.failed:
                return False
            thinks = any(isinstance(b, ThinkingBlock) for b in message.content) and message.stopReason in (
                "stop",
                "toolUse",
            )
            if (
                not calls
                and not thinks
                and not any(isinstance(b, TextBlock) and b.text.strip() for b in message.content)
            ):
                return False
    wanted = len(seen)
    results = [m for m in history if isinstance(m, ToolResult)]
    return len(results) == wanted and all(r.toolName for r in results)


@given(HISTORIES)
def test_valid_says_what_the_rule_says(history: tuple[Message, ...]) -> None:
    assert is_valid_history(history) == proof(history)
    assert proof(repair_history(history))


@given(HISTORIES, st.lists(st.one_of(st.builds(UserMessage, TEXTS), ASSISTANTS), max_size=6).map(tuple))
def test_what_was_sent_stays_the_beginning_of_what_is_sent_next(
    history: tuple[Message, ...], later: tuple[Message, ...]
) -> None:
    """As long as no late result turns up: otherwise the provider's prompt cache would be lost with every turn."""
    before = repair_history(history)
    assert repair_history(history + later)[: len(before)] == before


def test_what_holds_a_place_gives_way_to_the_result() -> None:
    held = msgspec.structs.replace(result("a", "handed to the caller"), details={"handed": True})
    assert repair_history((HI, asks("a"), held)) == (HI, asks("a"), held)
    assert repair_history((HI, asks("a"), held, result("a", "sunny"))) == (HI, asks("a"), result("a", "sunny"))
    assert repair_history((HI, asks("a"), held, GO, result("a", "late"))) == (HI, asks("a"), result("a", "late"), GO)
