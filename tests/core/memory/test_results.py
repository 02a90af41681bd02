"""Scores, snippets, citations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.memory.results import (
    SNIPPET,
    MemoryHit,
    MemoryMatch,
    cite_hit,
    cut_snippet,
    fuse_rankings,
    rank_matches,
    should_cite,
)


def test_more_of_the_question_beats_more_strength() -> None:
    some, every = MemoryMatch("a", 1, 2, "t", 0.5, 9.0), MemoryMatch("b", 1, 2, "t", 1.0, 1.0)
    hits = rank_matches([some, every], (), 6, 0.0)
    assert [hit.path for hit in hits] == ["b", "a"]
    assert all(0 <= hit.score <= 1 for hit in hits)


def test_what_scores_low_is_left_out_and_there_is_an_end() -> None:
    matches = [MemoryMatch(f"{n}", 1, 1, "t", n / 10, 1.0) for n in range(11)]
    assert [hit.path for hit in rank_matches(matches, (), 3, 0.0)] == ["10", "9", "8"]
    assert min(hit.score for hit in rank_matches(matches, (), 50, 0.35)) >= 0.35


def test_a_snippet_shows_what_was_found() -> None:
    text = "\n".join(f"line {n} of padding words" for n in range(100)) + "\nthe needle is here\nand after"
    shown = cut_snippet(text, ("needle",))
    assert "needle is here" in shown and len(shown) <= SNIPPET and shown.startswith("…")


@given(st.text(max_size=2000), st.text(min_size=1, max_size=8), st.integers(10, 700))
def test_a_snippet_is_never_too_long_and_always_of_the_text(text: str, word: str, room: int) -> None:
    shown = cut_snippet(text, (word,), room)
    assert len(shown) <= room
    assert shown.removeprefix("…").removesuffix("…") in text or shown in text


@pytest.mark.parametrize(
    ("mode", "session", "expected"),
    [
        ("auto", "agent:main:main", True),
        ("auto", "agent:main:telegram:direct:1", True),
        ("auto", "agent:main:telegram:group:1", False),
        ("auto", "agent:main:discord:channel:1:thread:2", False),
        ("auto", "", True),
        ("on", "agent:main:telegram:group:1", True),
        ("off", "agent:main:main", False),
    ],
)
def test_citations(mode: str, session: str, expected: bool) -> None:
    assert should_cite(mode, session) is expected


def test_a_citation() -> None:
    assert cite_hit(MemoryHit("memory/a.md", 3, 9, 1.0, "")) == "memory/a.md#L3-L9"
    assert cite_hit(MemoryHit("MEMORY.md", 3, 3, 1.0, "")) == "MEMORY.md#L3"


def test_what_is_high_in_both_rankings_comes_first() -> None:
    a, b, c, d = (
        MemoryHit(name, 1, 2, score, name) for name, score in (("a", 0.9), ("b", 0.8), ("c", 0.7), ("d", 0.6))
    )
    both = MemoryHit("b", 1, 2, 0.95, "other")
    assert [hit.path for hit in fuse_rankings([a, b], [c, both, d], 4)] == ["b", "a", "c", "d"]
    assert fuse_rankings([a, b], [both], 1) == [MemoryHit("b", 1, 2, 0.95, "b")]
    assert fuse_rankings([a, b], [], 9) == [a, b] and fuse_rankings([], [], 3) == []
