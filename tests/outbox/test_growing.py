"""A message as blocks while it grows."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.stream.answer import VisibleAnswer, read_answer
from palinurus.core.stream.chunk import BlockSettings
from palinurus.core.stream.marks import is_web_address
from palinurus.outbox.growing import GrowingMessage

SMALL = BlockSettings(10, 30)


def grown(deltas: Iterable[str], chosen: BlockSettings = SMALL) -> tuple[list[VisibleAnswer], str]:
    growing = GrowingMessage(chosen, is_web_address)
    deltas = list(deltas)
    parts = [p for d in deltas for p in growing.feed(d)]
    more, rest = growing.close("".join(deltas))
    return [*parts, *more, rest], growing.take_thoughts()


def test_the_same_blocks_also_when_only_the_whole_is_heard() -> None:
    text = "<think>why</think>First paragraph.\n\nSecond one.\n\n[[media:https://a.org/x]]Third one, NO_REPLY"
    growing = GrowingMessage(SMALL, is_web_address)
    parts, rest = growing.close(text)
    assert ([*parts, rest], growing.take_thoughts()) == grown(text) == grown([text])
    assert [p.text for p in parts] == ["First paragraph.", "Second one."]
    assert (rest.text, rest.found.media) == ("Third one,", ("https://a.org/x",))


def test_at_the_end_of_the_message_only() -> None:
    growing = GrowingMessage(BlockSettings(10, 30, at="message_end"), is_web_address)
    assert growing.feed("First paragraph.\n\nSecond one.\n\nThird") == []
    parts, rest = growing.close("First paragraph.\n\nSecond one.\n\nThird")
    assert [p.text for p in parts] == ["First paragraph.", "Second one."] and rest.text == "Third"


def test_media_goes_with_one_block_only() -> None:
    made, _ = grown(["[[media:https://a.org/x]]First paragraph.\n\nSecond one."])
    assert [(p.text, p.found.media) for p in made] == [("First paragraph.", ("https://a.org/x",)), ("Second one.", ())]


def test_silence() -> None:
    growing = GrowingMessage(BlockSettings(1, 3), is_web_address)
    assert [growing.feed(c) for c in "NO_REPLY"] == [[]] * 8
    parts, rest = growing.close("NO_REPLY")
    assert parts == [] and rest.silent


def test_what_was_reasoning_does_not_come_later() -> None:
    made, _ = grown(["plan</think>", "answer"])
    assert [p.text for p in made] == ["answer"]


TOKENS = ["<think>", "</think>", "word ", "A sentence. ", "\n\n", "`", "```\n", "NO_REPLY", "[[audio_as_voice]]", "[["]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=25), st.data())
def test_cuts_do_not_matter(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    at = data.draw(st.integers(0, len(text)))
    assert grown([text[:at], text[at:]]) == grown([text]) == grown(text)
    fresh = GrowingMessage(SMALL, is_web_address)
    more, rest = fresh.close(text)  # heard again after a crash
    assert ([*more, rest], fresh.take_thoughts()) == grown([text])
    if "</think>" not in text and "`" not in text:
        shown = "".join(p.text for p in grown([text])[0])
        assert "".join(shown.split()) == "".join(read_answer(text).text.split())
