"""Every spelling of every level."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.levels import words

SPELLINGS = {
    "off": ("off", "OFF", " off "),
    "minimal": ("minimal", "min", "think", "Think"),
    "low": ("low", "on", "enable", "enabled", "thinkhard", "think-hard", "think_hard", "think hard"),
    "medium": ("medium", "mid", "med", "thinkharder", "think-harder", "think harder", "harder"),
    "high": ("high", "ultra", "ultrathink", "thinkhardest", "think hardest", "highest"),
    "xhigh": (
        "xhigh",
        "x-high",
        "x_high",
        "x high",
        "extrahigh",
        "extra-high",
        "extra high",
        "extra  high",
        "extra_high",
        "Extra High",
        "ultrathink+",
    ),
    "adaptive": ("adaptive", "auto", "Auto"),
    "max": ("max", "MAX"),
}


@pytest.mark.seed(5, 6, 7, 8, 9, 10, 14, 15)
@pytest.mark.parametrize(("word", "level"), [(w, lv) for lv, ws in SPELLINGS.items() for w in ws])
def test_every_spelling_of_a_level(word: str, level: str) -> None:
    assert words.parse_thinking(word) == level


@pytest.mark.seed(5)
def test_the_canonical_levels() -> None:
    assert set(words.THINKING_LEVELS) == {"off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max"}
    assert set(words.THINKING_WORDS.values()) == set(words.THINKING_LEVELS)
    assert all(words.parse_thinking(level) == level for level in words.THINKING_LEVELS)


@pytest.mark.parametrize(
    "word", ["", " ", "big", "x", "extra", "5", "ultrathink++", "off off", "none", None, True, 3, "max" * 40]
)
def test_anything_else_is_no_level(word: object) -> None:
    assert words.parse_thinking(word) is None


ROWS = [
    (words.parse_fast, "on", "on true yes 1 enable enabled fast"),
    (words.parse_fast, "off", "off false no 0 disable disabled normal"),
    (words.parse_fast, "auto", "auto"),
    (words.parse_verbose, "on", "on minimal true yes 1"),
    (words.parse_verbose, "full", "full all everything"),
    (words.parse_verbose, "off", "off false no 0"),
    (words.parse_trace, "on", "on true yes 1"),
    (words.parse_trace, "raw", "raw unfiltered"),
    (words.parse_trace, "off", "off false no 0"),
    (words.parse_reasoning, "on", "on true yes 1 show visible enable enabled"),
    (words.parse_reasoning, "stream", "stream streaming draft live"),
    (words.parse_reasoning, "off", "off false no 0 hide hidden disable disabled"),
    (words.parse_elevated, "on", "on true yes 1"),
    (words.parse_elevated, "ask", "ask prompt approval approve"),
    (words.parse_elevated, "full", "full auto auto-approve autoapprove"),
    (words.parse_elevated, "off", "off false no 0"),
]


@pytest.mark.parametrize(("read", "means", "spellings"), ROWS)
def test_the_other_directives(read, means, spellings) -> None:
    assert {read(word) for word in spellings.split()} == {means}
    assert {read(word.upper()) for word in spellings.split()} == {means}
    assert read("nonsense") is None


def test_the_booleans_of_the_config_count_for_fast_mode() -> None:
    assert (words.parse_fast(True), words.parse_fast(False), words.parse_fast(None), words.parse_fast(1)) == (
        "on",
        "off",
        None,
        None,
    )


@pytest.mark.parametrize("word", ["default", "inherit", "inherited", "clear", "reset", "unpin", " Default "])
def test_words_that_drop_an_override(word: str) -> None:
    assert words.is_clear_word(word)
    assert words.parse_thinking(word) is None


@given(st.text())
def test_no_text_breaks_a_table(text: str) -> None:
    for read in (
        words.parse_thinking,
        words.parse_fast,
        words.parse_verbose,
        words.parse_trace,
        words.parse_reasoning,
        words.parse_elevated,
    ):
        read(text)
    words.is_clear_word(text)
