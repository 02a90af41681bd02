"""Words cut into the pieces of a vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.memory.wordpiece import LONGEST, Wordpiece

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "cafe", "tea", "##s", "$", ",", "北", "京"]
PIECES = Wordpiece(WORDS)


def cut(text: str) -> list[str]:
    return [WORDS[number] for number in PIECES.numbers(text)]


def test_the_longest_piece_first_and_unknown_whole() -> None:
    assert cut("unaffable teas") == ["un", "##aff", "##able", "tea", "##s"]
    assert cut("unknown tea") == ["[UNK]", "tea"]
    assert cut("tea" + "s" * LONGEST) == ["[UNK]"]


def test_case_accents_marks_and_chinese() -> None:
    assert cut("Café,TEA$\u200bs\x00") == ["cafe", ",", "tea", "$", "[UNK]"]
    assert cut("北京tea") == ["北", "京", "tea"]


def test_windows_bear_marks_and_lose_nothing() -> None:
    rows = PIECES.windows("tea " * 10, 6)
    assert [len(row) for row in rows] == [6, 6, 4]
    assert all(row[0] == PIECES.first and row[-1] == PIECES.last for row in rows)
    assert PIECES.windows("", 6) == [[PIECES.first, PIECES.last]]


def test_a_vocabulary_without_marks_is_none() -> None:
    with pytest.raises(KeyError):
        Wordpiece(["tea"])


@given(st.text(max_size=300))
def test_any_text_becomes_known_numbers(text: str) -> None:
    assert all(0 <= number < len(WORDS) for number in PIECES.numbers(text))
