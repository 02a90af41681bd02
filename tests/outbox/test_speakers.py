"""What a draft shows: what people will get, and nothing that they will not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palinurus.core.stream.answer import read_answer
from palinurus.core.types.events import MessageEnd, MessageStart, MessageUpdate, ToolStart
from palinurus.core.types.messages import AssistantMessage, TextBlock
from palinurus.core.types.outbound import RunVisibility
from palinurus.outbox.speakers import FIRST, STEP, DraftPreview, PreviewMode

LONG = "This sentence is long enough for a draft. And so on."


def message(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),))


def preview(mode: PreviewMode = "partial", show: RunVisibility = RunVisibility()) -> DraftPreview:
    return DraftPreview(mode, lambda: show)


def test_it_grows_and_begins_with_more_than_a_word() -> None:
    draft = preview()
    assert draft.feed(MessageUpdate(LONG[: FIRST - 1])) and draft.now() == ""
    assert draft.feed(MessageUpdate(LONG[FIRST - 1 :])) and draft.now() == LONG


def test_messages_of_one_run_stand_below_each_other_until_they_went_out() -> None:
    draft = preview()
    draft.feed(MessageUpdate(LONG))
    draft.feed(MessageEnd(message(LONG)))
    assert not draft.feed(ToolStart("1", "ls", {}))
    draft.feed(MessageStart())
    draft.feed(MessageUpdate("More."))
    assert draft.now() == f"{LONG}\n\nMore."
    draft.begin()
    assert draft.now() == ""  # one word begins no draft


def test_blocks_grow_in_steps() -> None:
    draft = preview("block")
    draft.feed(MessageUpdate("a" * (STEP - 1)))
    assert draft.now() == ""
    draft.feed(MessageUpdate("b"))
    assert len(draft.now()) == STEP and draft.now() == ""


@pytest.mark.seed(116, 317)
def test_reasoning_has_a_label_and_gives_way() -> None:
    draft = preview("off", RunVisibility(reasoning="stream"))
    draft.feed(MessageUpdate("Let me see.", "thinking"))
    assert draft.now() == "Thinking\nLet me see."
    draft.feed(MessageUpdate(LONG))
    assert draft.now() == ""


@pytest.mark.parametrize("level", ["off", "on"])
@pytest.mark.seed(315)
def test_reasoning_is_not_shown_unless_it_is_to_be_streamed(level: str) -> None:
    draft = preview("partial", RunVisibility(reasoning=level))  # type: ignore[arg-type]
    draft.feed(MessageUpdate("Let me see.", "thinking"))
    draft.feed(MessageUpdate("<think>more of it, which is long enough</think>"))
    assert draft.now() == ""


PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "NO_REPLY", "[[reply_to_current]]", "word ", "\n", "`", "```\n", "<final>", "x"]
    ),
    max_size=12,
)


@given(PIECES, st.lists(st.integers(0, 80), max_size=5))
@example(["NO_REPLY", "x", "word " * 4, "</think>", "`", "x"], [30])  # what was words turns out to have been thoughts
def test_at_the_end_it_is_the_answer_however_it_came(pieces: list[str], cuts: list[int]) -> None:
    """On the way a person may see what would have been the answer if the text had ended there, and no other NO_REPLY
    (a stray `</think>` takes back what was shown); at the end it is the answer, or nothing."""
    text = "".join(pieces)
    draft = preview()
    marks = sorted({0, len(text), *(c for c in cuts if c <= len(text))})
    for low, high in pairwise(marks):
        draft.feed(MessageUpdate(text[low:high]))
        so_far = (read_answer(text[:end]).text for end in range(high, 0, -1))
        assert "NO_REPLY" not in draft.now() or any("NO_REPLY" in answer for answer in so_far)
    draft.feed(MessageEnd(message(text)))
    shown = draft.now()
    assert shown in ("", read_answer(text).text.strip())


def test_where_only_the_message_tool_is_seen_there_is_no_draft() -> None:
    draft = preview(show=RunVisibility(reasoning="stream", answer=False))
    draft.feed(MessageUpdate("Thoughts.", "thinking"))
    assert draft.now() == ""
    draft.feed(MessageUpdate(LONG))
    assert draft.now() == ""
