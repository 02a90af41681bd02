"""Marks leave the text and say how it is sent."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.stream.marks import NO_REPLY_MARKS, MarkReader, ReplyMarks, allow_beneath, is_web_address

URL = "https://example.org/a.png"
CASES = {
    "[[reply_to_current]] hello": ("hello", ReplyMarks(current=True)),
    "[[reply_to_current]]\nhello": ("hello", ReplyMarks(current=True)),
    "[[ Reply_To : 42 ]]hello": ("hello", ReplyMarks(reply_to="42")),
    "[[reply_to:42]][[reply_to:43]][[reply_to_current]]x": ("x", ReplyMarks("42", True)),
    f"look [[media:{URL}]] here": ("look here", ReplyMarks(media=(URL,))),
    f"look\n[[media:{URL}]]\nhere": ("look\nhere", ReplyMarks(media=(URL,))),
    "[[audio_as_voice]]hi": ("hi", ReplyMarks(voice=True)),
    f"look\nMEDIA: {URL}\nhere": ("look\nhere", ReplyMarks(media=(URL,))),
    f"MEDIA:`{URL}` 'http://b.org/x'": ("", ReplyMarks(media=(URL, "http://b.org/x"))),
    f"MEDIA: {URL}\nMEDIA: {URL}\n": ("", ReplyMarks(media=(URL,))),
    # stays
    "[[Some Page]] and [a](b) and x[[1]]": ("[[Some Page]] and [a](b) and x[[1]]", NO_REPLY_MARKS),
    "[[media:/etc/passwd]]": ("[[media:/etc/passwd]]", NO_REPLY_MARKS),
    "MEDIA: is a word\nx": ("MEDIA: is a word\nx", NO_REPLY_MARKS),
    f"see MEDIA: {URL}": (f"see MEDIA: {URL}", NO_REPLY_MARKS),
    "`[[reply_to_current]]`": ("`[[reply_to_current]]`", NO_REPLY_MARKS),
    f"```\nMEDIA: {URL}\n[[audio_as_voice]]\n```": (f"```\nMEDIA: {URL}\n[[audio_as_voice]]\n```", NO_REPLY_MARKS),
    "[[reply_to_cur": ("[[reply_to_cur", NO_REPLY_MARKS),
}


def read(deltas: Iterable[str]) -> tuple[str, ReplyMarks]:
    marks = MarkReader()
    text = "".join(marks.feed(d) for d in deltas) + marks.close()
    return text, marks.found


@pytest.mark.seed(311, 312, 313)
@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_marks(text: str, expected: tuple[str, ReplyMarks]) -> None:
    assert read([text]) == expected


@pytest.mark.seed(314)
@pytest.mark.parametrize("text", CASES)
def test_every_cut_gives_the_same(text: str) -> None:
    whole = read([text])
    assert read(text) == whole
    for at in range(len(text)):
        assert read([text[:at], text[at:]]) == whole


TOKENS = ["[[reply_to_current]]", "[[", "]]", "[[reply_to: 1]]", f"MEDIA: {URL}\n", "MEDIA:", "M", "\n", " ", "`", "a"]


@given(st.lists(st.sampled_from(TOKENS), max_size=10), st.data())
def test_generated_cuts(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    at = data.draw(st.integers(0, len(text)))
    assert read([text[:at], text[at:]]) == read([text]) == read(text)


def test_other_brackets_do_not_wait() -> None:
    marks = MarkReader()
    assert marks.feed("a [[Wi") == "a [[Wi"
    assert marks.feed(" [li") == " [li"
    assert marks.feed(" [[rep") == " "
    assert marks.feed("eat]]") == "[[repeat]]"


def test_files_only_from_where_they_may_come() -> None:
    allowed = allow_beneath(["/home/me/media/"])
    assert allowed(URL) and allowed("/home/me/media/a.png") and allowed("file:///home/me/media/a.png")
    for path in ("/home/me/media/../.ssh/id", "/home/me/mediax/a", "a.png", "/etc/passwd", "https://"):
        assert not allowed(path)
    assert not is_web_address("javascript:alert(1)")
