"""Every spelling of every level."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.levels import spellings

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
    assert spellings.parse_thinking(word) == level


@pytest.mark.seed(5)
def test_the_canonical_levels() -> None:
    assert set(spellings.THINKING_LEVELS) == {"off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max"}
    assert set(spellings.THINKING_WORDS.values()) == set(spellings.THINKING_LEVELS)
    assert all(spellings.parse_thinking(level) == level for level in spellings.THINKING_LEVELS)


@pytest.mark.parametrize(
    "word", ["", " ", "big", "x", "extra", "5", "ultrathink++", "off off", "none", None, True, 3, "max" * 40]
)
def test_anything_else_is_no_level(word: object) -> None:
    assert spellings.parse_thinking(word) is None


ROWS = [
    (spellings.parse_fast, "on", "on true yes 1 enable enabled fast"),
    (spellings.parse_fast, "off", "off false no 0 disable disabled normal"),
    (spellings.parse_fast, "auto", "auto"),
    (spellings.parse_verbose, "on", "on minimal true yes 1"),
    (spellings.parse_verbose, "full", "full all everything"),
    (spellings.parse_verbose, "off", "off false no 0"),
    (spellings.parse_trace, "on", "on true yes 1"),
    (spellings.parse_trace, "on", "raw unfiltered"),
    (spellings.parse_trace, "off", "off false no 0"),
    (spellings.parse_reasoning, "on", "on true yes 1 show visible enable enabled"),
    (spellings.parse_reasoning, "stream", "stream streaming draft live"),
    (spellings.parse_reasoning, "off", "off false no 0 hide hidden disable disabled"),
    (spellings.parse_elevated, "on", "on true yes 1"),
    (spellings.parse_elevated, "ask", "ask prompt approval approve"),
    (spellings.parse_elevated, "full", "full auto auto-approve autoapprove"),
    (spellings.parse_elevated, "off", "off false no 0"),
]


@pytest.mark.parametrize(("read", "means", "spellings"), ROWS)
def test_the_other_directives(read, means, spellings) -> None:
    assert {read(word) for word in spellings.split()} == {means}
    assert {read(word.upper()) for word in spellings.split()} == {means}
    assert read("nonsense") is None


def test_the_booleans_of_the_config_count_for_fast_mode() -> None:
    assert (
        spellings.parse_fast(True),
        spellings.parse_fast(False),
        spellings.parse_fast(None),
        spellings.parse_fast(1),
    ) == (
        "on",
        "off",
        None,
        None,
    )


@pytest.mark.parametrize("word", ["default", "inherit", "inherited", "clear", "reset", "unpin", " Default "])
def test_words_that_drop_an_override(word: str) -> None:
    assert spellings.is_clear_word(word)
    assert spellings.parse_thinking(word) is None


@given(st.text())
def test_no_text_breaks_a_table(text: str) -> None:
    for read in (
        spellings.parse_thinking,
        spellings.parse_fast,
        spellings.parse_verbose,
        spellings.parse_trace,
        spellings.parse_reasoning,
        spellings.parse_elevated,
    ):
        read(text)
    spellings.is_clear_word(text)
