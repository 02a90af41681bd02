"""Windows of lines."""

from __future__ import annotations

from palinurus.core.memory.indexing import split_chunks
from palinurus.core.memory.results import LINE_CUT, MemoryExcerpt, cut_excerpt, write_excerpt_hint

TEXT = "\n".join(f"line {n}" for n in range(1, 301)) + "\n"


def test_a_window_says_where_to_go_on() -> None:
    part = cut_excerpt("m", TEXT, 11, 5, 12_000)
    assert part.text.split("\n") == [f"line {n}" for n in range(11, 16)]
    assert write_excerpt_hint(part) == "[Lines 11-15 of 300. Continue with from=16.]"


def test_following_the_hints_gives_the_whole() -> None:
    got, at = [], 1
    while at:
        part = cut_excerpt("m", TEXT, at, 120, 500)
        assert len(part.text) <= 500
        got.append(part.text)
        at = part.next
    assert "\n".join(got) + "\n" == TEXT


def test_a_line_too_long_is_cut_and_passed() -> None:
    part = cut_excerpt("m", "x" * 100 + "\ny\n", 1, 10, 50)
    assert part.text.endswith(LINE_CUT) and len(part.text) == 50 and part.next == 2
    assert cut_excerpt("m", "x" * 100 + "\ny\n", 2, 10, 50).text == "y"


def test_beyond_the_end_empty_and_missing() -> None:
    assert "beyond its end" in write_excerpt_hint(cut_excerpt("m", "a\n", 5, 1, 100))
    assert write_excerpt_hint(cut_excerpt("m", "", 1, 1, 100)) == "[m is empty]"
    assert "does not exist yet" in write_excerpt_hint(MemoryExcerpt("m", missing=True))
    assert write_excerpt_hint(cut_excerpt("m", "a\n", 1, 1, 100)) == ""


def test_lines_are_counted_as_the_index_counts_them() -> None:
    text = "one\rtwo\r\nthree\nfour"
    assert [cut_excerpt("m", text, line, 1, 99).text for line in (1, 2, 3, 4)] == ["one", "two", "three", "four"]
    assert [(c.start, c.end) for c in split_chunks(text, "m")] == [(1, 4)]
