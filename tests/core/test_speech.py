"""What is said of a text, and what a model's directives come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.format.speakable import make_speakable
from palinurus.core.media import read_loudness
from palinurus.core.speech import SpokenText, allow_options, cut_speech, merge_speech, parse_speech_options
from palinurus.core.stream.answer import read_answer
from palinurus.core.stream.marks import MarkReader
from palinurus.testing.speech import make_opus


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("**Hello** _there_, `Ann`.", "Hello there, Ann."),
        ("# Plan\n\n- one\n- two", "Plan\none\ntwo"),
        ("See [the page](https://a.example/x) or https://b.example/y now", "See the page or now"),
        ("Before\n```py\nprint(1)\n```\nAfter", "Before\nAfter"),
        ("> quoted\n\nDone \U0001f389 → ok", "quoted\nDone ok"),
        ("```\nonly code\n```", ""),
    ],
)
def test_what_ears_get(written: str, said: str) -> None:
    assert make_speakable(written) == said


def test_options_of_a_directive() -> None:
    found = parse_speech_options("speakerVoiceId=abc model=m1 Speed=1.1 evil=x similarity_boost=0.2 voice=later")
    assert found == {"voice": "abc", "model": "m1", "speed": "1.1", "similarityBoost": "0.2"}
    may = {"voice": False, "tuning": True}
    assert allow_options(found, may) == {"model": "m1", "speed": "1.1", "similarityBoost": "0.2"}
    assert allow_options({"provider": "x", "style": "1"}, {"provider": False, "tuning": False}) == {}
    merged = merge_speech([SpokenText("a", {"voice": "x"}), SpokenText("b", {"voice": "y", "speed": "2"})])
    assert merged == SpokenText("a\nb", {"voice": "x", "speed": "2"}) and merge_speech([]) is None


def test_texts_are_cut_where_a_sentence_ends() -> None:
    assert cut_speech("One two. Three four. Five six seven.", 24) == "One two. Three four."
    assert cut_speech("x" * 50, 10) == "x" * 10 and cut_speech("short", 10) == "short"


@pytest.mark.parametrize(
    ("text", "shown", "speech"),
    [
        ("Hi [[tts:voice=x]]there", "Hi there", SpokenText("", {"voice": "x"})),
        ("A [[tts:text]]hear me[[/tts:text]] B", "A B", SpokenText("hear me")),
        ("[[tts:text]]one[[/tts:text]] and [[tts:text]]two[[/tts:text]]", "and", SpokenText("one\ntwo")),
        ("[[tts]]all of it", "all of it", SpokenText()),
        ("[[TTS:TEXT]]only ears[[/TTS:TEXT]]", "only ears", SpokenText("only ears")),  # who cannot hear reads
        ("never [[tts:text]]closed", "never closed", SpokenText()),
        ("stray [[/tts:text]] stays", "stray [[/tts:text]] stays", None),
        ("`[[tts:text]]` is a mark", "`[[tts:text]]` is a mark", None),
    ],
)
def test_marks_of_speech_leave_the_text(text: str, shown: str, speech: SpokenText | None) -> None:
    found = read_answer(text)
    assert (found.text, found.found.speech) == (shown, speech)


@given(
    st.lists(st.sampled_from(["a ", "[[tts:text]]", "[[/tts:text]]", "[[tts:voice=x]]", "[[", "]]", "`", "\n", "tts"]))
)
def test_the_same_wherever_the_deltas_were_cut(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole, letters = MarkReader(), MarkReader()
    one = whole.feed(text) + whole.close()
    other = "".join(letters.feed(char) for char in text) + letters.close()
    assert (one, whole.found) == (other, letters.found)


def test_how_loud_a_recording_is() -> None:
    assert read_loudness(make_opus(1, (10, 100, 50)), 3) == bytes((25, 255, 127))
    assert len(read_loudness(make_opus(1, tuple(range(1, 200))), 64)) == 64
    assert read_loudness(b"nothing", 5) == b"\xff" and read_loudness(b"OggS", 5) == b"\xff"
