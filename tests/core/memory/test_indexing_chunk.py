"""Pieces of a text: bounded, overlapping, with the right lines and headings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.memory.indexing import split_chunks


def test_a_short_text_is_one_piece_with_its_headings() -> None:
    (one,) = split_chunks("# People\n## Anna\nlikes tea", "MEMORY")
    assert (one.start, one.end, one.title) == (1, 3, "MEMORY · People · Anna")
    assert one.text == "# People\n## Anna\nlikes tea"


def test_pieces_overlap_by_whole_lines_and_know_their_place() -> None:
    lines = [f"line {n:04} " + "x" * 29 for n in range(1, 101)]  # ten tokens each
    made = split_chunks("\n".join(lines), "m", 400, 80)
    assert [(c.start, c.end) for c in made] == [(1, 40), (33, 72), (65, 100)]
    for piece in made:
        assert piece.text.split("\n") == lines[piece.start - 1 : piece.end]


def test_a_piece_stands_under_the_headings_before_it() -> None:
    text = "# Top\n" + "\n".join("filler words " * 4 for _ in range(60)) + "\n## Deep\nend"
    made = split_chunks(text, "m", 100, 10)
    assert all("Top" in piece.title for piece in made)
    assert "Deep" not in made[0].title and "Deep" in made[-1].title


def test_headings_in_code_are_none() -> None:
    (one,) = split_chunks("# A\n```\n# not a heading\n```\n", "m")
    assert one.title == "m · A"


def test_one_endless_line_is_split() -> None:
    made = split_chunks("word " * 2000, "m", 400, 80)
    assert len(made) >= 6 and all((c.start, c.end) == (1, 1) and len(c.text) <= 1601 for c in made)


def test_scripts_without_spaces_count_more() -> None:
    assert len(split_chunks("記" * 900, "m", 400, 0)) == 3


@given(st.text(alphabet="ab #`\n\r記", max_size=400), st.integers(1, 30), st.integers(0, 40))
def test_nothing_is_lost_and_nothing_is_too_large(text: str, tokens: int, overlap: int) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    made = split_chunks(text, "m", tokens, overlap)
    seen = {n for piece in made for n in range(piece.start, piece.end + 1)}
    assert {n for n, line in enumerate(lines, 1) if line.strip()} <= seen
    assert all(len(piece.text) <= tokens * 4 + 1 for piece in made)
    assert [piece.start for piece in made] == sorted(piece.start for piece in made)
