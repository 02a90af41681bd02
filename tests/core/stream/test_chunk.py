"""The chunker: where blocks end, and that it does not matter how the text came."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.stream.chunk import BlockSettings, BreakKind, Chunker

FENCE = 2 * 57  # a fence closed and opened again: the most a block may be longer


def blocks(deltas: Iterable[str], chosen: BlockSettings) -> list[str]:
    chunker = Chunker(chosen)
    return [b for d in deltas for b in chunker.feed(d)] + chunker.close()


def bare(text: str) -> str:
    """Without blanks, and without what fences are made of."""
    return re.sub(r"[`~\s]|py$|js$", "", text, flags=re.MULTILINE)


@pytest.mark.seed(307, 320)
def test_the_usual_size() -> None:
    sentence = "Nine words make up this plain sentence for us. "
    text = "\n\n".join(sentence * 6 for _ in range(12))
    made = blocks(text, BlockSettings())
    assert len(made) > 2
    assert all(800 <= len(b) <= 1200 for b in made[:-1])
    assert all(b.rstrip().endswith(".") for b in made)
    assert bare("".join(made)) == bare(text)


def test_nothing_comes_before_the_minimum() -> None:
    chunker = Chunker()
    assert chunker.feed("a paragraph\n\n" * 61) == []  # 793 characters
    assert len(chunker.feed("a paragraph\n\nnext")) == 1


@pytest.mark.seed(308, 320)
@pytest.mark.parametrize(
    ("prefer", "text", "first"),
    [
        ("paragraph", "One two.\nthree four.\n\nfive six seven eight", "One two.\nthree four."),
        ("paragraph", "One two.\nthree four\nfive six seven eight nine ten eleven", "One two.\nthree four"),
        ("paragraph", "One two three. Four five six seven eight nine ten", "One two three."),
        ("paragraph", "one two three four five six seven eight nine ten", "one two three four five"),
        ("paragraph", "onetwothreefourfivesixseveneightnineten!", "onetwothreefourfivesixsev"),
        ("newline", "One two.\nthree four.\n\nfive six seven eight", "One two.\nthree four."),
        ("newline", "One two three. Four five six seven eight nine ten", "One two three."),
        ("sentence", "One two three. Four. Five six seven eight nine ten", "One two three."),
        ("sentence", "一二三四五六七八九十。一二三四五六七八九十一二三四五六七八", "一二三四五六七八九十。"),
    ],
)
def test_breaks(prefer: BreakKind, text: str, first: str) -> None:
    assert blocks([text], BlockSettings(10, 25, prefer))[0] == first


def test_a_fence_stays_in_one_piece() -> None:
    text = "Some words first.\n```py\na = 1\n\nb = 2\n```\nAnd some words behind it."
    assert blocks([text], BlockSettings(10, 60)) == [
        "Some words first.\n```py\na = 1\n\nb = 2\n```",
        "And some words behind it.",
    ]


def test_a_fence_longer_than_a_block_is_closed_and_opened_again() -> None:
    text = "```py\n" + "\n".join(f"line_{n} = {n}" for n in range(12)) + "\n```\nDone."
    made = blocks([text], BlockSettings(20, 60))
    assert len(made) > 2
    for block in made[:-1]:
        assert block.startswith("```py\n") and block.rstrip().endswith("\n```")
        assert all(re.fullmatch(r"line_\d+ = \d+", line) for line in block.strip().split("\n")[1:-1])
    assert bare("\n".join(made)) == bare(text)


def test_one_visible_character_is_not_split() -> None:
    family = "👩\u200d👩\u200d👧"
    made = blocks([family * 10], BlockSettings(5, 12))
    assert "".join(made) == family * 10
    assert all(b.count("👧") * len(family) == len(b) for b in made)


TOKENS = [
    "word ",
    "A sentence. ",
    "\n",
    "\n\n",
    "```js\n",
    "\n```\n",
    "~~~\n",
    "```",
    "  ",
    "longlonglong",
    "é",
    "e\u0301",
    "`x`",
    "。",
]
SETTINGS = st.builds(
    BlockSettings, st.integers(1, 40), st.integers(1, 80), st.sampled_from(["paragraph", "newline", "sentence"])
)


def test_the_blank_at_a_cut_is_dropped_also_if_it_comes_later() -> None:
    small = BlockSettings(min_chars=1, max_chars=2, prefer="sentence")
    assert blocks("。  word ", small) == blocks(["。  word "], small)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=150), SETTINGS, st.data())
def test_how_the_text_came_does_not_matter(parts: list[str], chosen: BlockSettings, data: st.DataObject) -> None:
    text = "".join(parts)
    whole = blocks([text], chosen)
    assert blocks(text, chosen) == whole  # letter by letter
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    assert blocks([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)], chosen) == whole
    if "```" not in parts:  # any word behind it is said again where the fence is opened again
        assert bare("\n".join(whole)).replace("js", "") == bare(text).replace("js", "")
    limit = max(chosen.min_chars, chosen.max_chars)
    assert all(b.strip() and len(b) <= limit + FENCE for b in whole)


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("ab .\n"), max_size=400), SETTINGS)
def test_no_text_is_lost(text: str, chosen: BlockSettings) -> None:
    assert "".join("".join(blocks([text], chosen)).split()) == "".join(text.split())


def test_clear_forgets() -> None:
    chunker = Chunker(BlockSettings(5, 10))
    chunker.feed("abc")
    assert chunker.pending
    chunker.clear()
    assert not chunker.pending and chunker.close() == []


def test_millions_of_characters_without_a_line_are_cut_like_any_others() -> None:
    """Issue 20, fault 19: each block looked through all that follows it, which held everybody for an hour."""
    text = "It never ends. " * 270_000
    chunker = Chunker(BlockSettings(3000, 4000, "paragraph"))
    made = [*chunker.feed(text), *chunker.close()]
    assert max(map(len, made)) <= 4000 and " ".join(block.strip() for block in made) == text.strip()
