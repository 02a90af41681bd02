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
    assert words.thinking(word) == level


@pytest.mark.seed(5)
def test_the_canonical_levels() -> None:
    assert set(words.LEVELS) == {"off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max"}
    assert set(words.THINKING.values()) == set(words.LEVELS)
    assert all(words.thinking(level) == level for level in words.LEVELS)


@pytest.mark.parametrize(
    "word", ["", " ", "big", "x", "extra", "5", "ultrathink++", "off off", "none", None, True, 3, "max" * 40]
)
def test_anything_else_is_no_level(word: object) -> None:
    assert words.thinking(word) is None


ROWS = [
    (words.fast, "on", "on true yes 1 enable enabled fast"),
    (words.fast, "off", "off false no 0 disable disabled normal"),
    (words.fast, "auto", "auto"),
    (words.verbose, "on", "on minimal true yes 1"),
    (words.verbose, "full", "full all everything"),
    (words.verbose, "off", "off false no 0"),
    (words.trace, "on", "on true yes 1"),
    (words.trace, "raw", "raw unfiltered"),
    (words.trace, "off", "off false no 0"),
    (words.reasoning, "on", "on true yes 1 show visible enable enabled"),
    (words.reasoning, "stream", "stream streaming draft live"),
    (words.reasoning, "off", "off false no 0 hide hidden disable disabled"),
    (words.elevated, "on", "on true yes 1"),
    (words.elevated, "ask", "ask prompt approval approve"),
    (words.elevated, "full", "full auto auto-approve autoapprove"),
    (words.elevated, "off", "off false no 0"),
]


@pytest.mark.parametrize(("read", "means", "spellings"), ROWS)
def test_the_other_directives(read, means, spellings) -> None:
    assert {read(word) for word in spellings.split()} == {means}
    assert {read(word.upper()) for word in spellings.split()} == {means}
    assert read("nonsense") is None


def test_the_booleans_of_the_config_count_for_fast_mode() -> None:
    assert (words.fast(True), words.fast(False), words.fast(None), words.fast(1)) == ("on", "off", None, None)


@pytest.mark.parametrize("word", ["default", "inherit", "inherited", "clear", "reset", "unpin", " Default "])
def test_words_that_drop_an_override(word: str) -> None:
    assert words.clears(word)
    assert words.thinking(word) is None


@given(st.text())
def test_no_text_breaks_a_table(text: str) -> None:
    for read in (words.thinking, words.fast, words.verbose, words.trace, words.reasoning, words.elevated):
        read(text)
    words.clears(text)
