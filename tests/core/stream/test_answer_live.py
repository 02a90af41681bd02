"""What faces show while a run goes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.stream.answer import LiveText, ShownPiece, read_answer
from palinurus.core.types.events import MessageEnd, MessageStart, MessageUpdate, ToolStart
from palinurus.core.types.messages import AssistantMessage, TextBlock


def shown(deltas: Iterable[str], live: LiveText | None = None) -> list[ShownPiece]:
    live = live or LiveText()
    deltas = list(deltas)
    live.feed(MessageStart())
    seen = [s for d in deltas for s in live.feed(MessageUpdate(d))]
    return seen + live.feed(MessageEnd(AssistantMessage((TextBlock("".join(deltas)),))))


def screen(seen: list[ShownPiece]) -> str:
    """What a face ends up with."""
    text = ""
    for kind, part in seen:
        text = part if kind == "replace" else text + part if kind == "text" else text
    return text


def test_plain_deltas_pass_unchanged() -> None:
    assert shown(["Hello", ", how", " are you?\n", "Fine."]) == [
        ("text", "Hello"),
        ("text", ", how"),
        ("text", " are you?\n"),
        ("text", "Fine."),
    ]


@pytest.mark.seed(309, 314)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_tags_marks_and_the_token_do_not_show(size: int) -> None:
    text = "<think>why</think>[[reply_to_current]] Here, see `<think>`.\n\nNO_REPLY"
    seen = shown(text[i : i + size] for i in range(0, len(text), size))
    assert screen(seen).strip() == "Here, see `<think>`."
    assert all(kind == "text" for kind, _ in seen)


def test_reasoning_is_there_for_who_wants_it() -> None:
    live = LiveText("stream")
    assert live.feed(MessageUpdate("native", "thinking")) == [("reasoning", "native")]
    assert ("reasoning", "why") in shown(["<think>why</think>so"], LiveText("stream"))
    assert LiveText("off").feed(MessageUpdate("native", "thinking")) == []


def test_what_turns_out_to_be_reasoning_is_taken_back() -> None:
    seen = shown(["plan first", "</think>", "the answer"])
    assert seen == [("text", "plan first"), ("replace", ""), ("text", "the answer")]


def test_an_answer_in_an_unclosed_tag_is_shown_at_the_end() -> None:
    assert shown(["<think>all", " of it"]) == [("text", "all of it")]


def test_silence_shows_nothing() -> None:
    assert shown("NO_REPLY") == []
    assert screen(shown(["no_reply"])) == ""


def test_each_message_starts_anew() -> None:
    live = LiveText()
    assert shown(["<think>never closed", " at all"], live)
    assert shown(["next"], live) == [("text", "next")]
    assert live.feed(ToolStart("1", "a", {})) == []


TOKENS = [
    "<think>",
    "</think>",
    "<final>",
    "`",
    "```\n",
    "\n",
    "\n\n",
    " ",
    "word ",
    "M",
    "NO_REPLY",
    "N",
    "[[reply_to_current]]",
    "[[",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=12), st.data())
def test_the_screen_ends_right_however_the_deltas_were_cut(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert screen(shown(deltas)).strip() == screen(shown(text)).strip() == read_answer(text).text
