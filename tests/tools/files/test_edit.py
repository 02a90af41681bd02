"""Exact replacement on text alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.files.edit import SpliceResult, TextEdit, TextSpan, find_first_line, render_diff, splice_edits


def done(original: str, *edits: tuple[str, str]) -> str:
    result = splice_edits(original, [TextEdit(*e) for e in edits])
    assert isinstance(result, SpliceResult), result
    return result.text


def wrong(original: str, *edits: tuple[str, str]) -> str:
    result = splice_edits(original, [TextEdit(*e) for e in edits])
    assert isinstance(result, str), result
    return result


def test_edits_are_matched_against_the_original() -> None:
    assert done("one two three", ("three", "one"), ("one", "three")) == "three two one"


def test_line_endings_stay() -> None:
    assert done("a\r\nb\r\nc\r\n", ("b\nc", "x\ny\nz")) == "a\r\nx\r\ny\r\nz\r\n"
    assert done("a\nb\nc\n", ("b\r\nc", "x\r\ny")) == "a\nx\ny\n"
    # a mixed file keeps the other lines as they are
    assert done("a\r\nb\nc\r\nd\n", ("c", "x")) == "a\r\nb\nx\r\nd\n"
    assert done("a\r\nb\r\n", ("a\n", "")) == "b\r\n"


@pytest.mark.parametrize(
    ("original", "old", "expected"),
    [
        ("say \u201chi\u201d\nend", 'say "hi"', "X\nend"),
        ("it\u2019s", "it's", "X"),
        ("a \u2014 b", "a - b", "X"),
        ("a\u00a0b", "a b", "X"),
        ("one  \ntwo\t\nthree", "one\ntwo\n", "Xthree"),
        ("one\ntwo   \nthree", "one  \ntwo", "X\nthree"),
        ("x one\ntwo   \nthree", "one\ntwo\nthr", "x Xee"),
        ("  x  \r\n  y\u2019s \r\nz", "x\n  y's\n", "  Xz"),
    ],
)
def test_the_second_look_forgives_typography_and_trailing_blanks(original: str, old: str, expected: str) -> None:
    assert done(original, (old, "X")) == expected


def test_an_exact_match_wins_over_a_forgiving_one() -> None:
    assert done("it's it\u2019s", ("it's", "X")) == "X it\u2019s"


def test_ambiguous() -> None:
    said = wrong("a\nb\na\n", ("a", "x"))
    assert "occurs 2 times (lines 1, 3" in said and "unique" in said
    assert "edit 2: oldText occurs" in wrong("a\nb\na\n", ("b", "y"), ("a", "x"))
    assert "occurs" in wrong("aaa", ("aa", "x"))  # overlapping with itself


def test_absent() -> None:
    said = wrong("def foo():\n    return 1\n", ("def fooo():", "x"))
    assert "was not found" in said and "closest line is 1: def foo():" in said
    assert "may have been made before" in wrong("new text\n", ("old", "new text"))
    assert "Read the file again" in wrong("abc", ("zzzzzz", "x"))


def test_overlap_empty_and_nothing() -> None:
    assert wrong("abcdef", ("abc", "x"), ("cde", "y")) == "edits 1 and 2 overlap; merge them into one"
    assert "is empty" in wrong("abc", ("", "y"))
    assert "change nothing" in wrong("abc", ("b", "b"))
    assert "not found" in wrong("a b", (" \n ", "y"))
    assert done("abcd", ("ab", "x"), ("cd", "y")) == "xy"  # touching is not overlapping


def test_diff_and_first_line() -> None:
    original = "".join(f"{i}\n" for i in range(1, 21))
    result = splice_edits(original, [TextEdit("3\n4\n", "three\n"), TextEdit("18", "a\nb")])
    assert isinstance(result, SpliceResult)
    assert find_first_line(original, result.spans) == 3
    assert render_diff(original, result.spans).split("\n") == [
        "@@ -1,8 +1,7 @@",
        *(" 1", " 2", "-3", "-4", "+three", " 5", " 6", " 7", " 8"),
        "@@ -15,6 +14,7 @@",
        *(" 15", " 16", " 17", "-18", "+a", "+b", " 19", " 20"),
    ]


def test_a_huge_diff_is_cut() -> None:
    assert "further changes" in render_diff("x" * 30_000, (TextSpan(0, 1, "y"),))


TEXTS = st.text("ab\r\n \u2019'", max_size=40)


@given(head=TEXTS, old=st.text("xyz\n", min_size=1, max_size=8), new=TEXTS, tail=TEXTS)
def test_outside_the_span_nothing_changes(head: str, old: str, new: str, tail: str) -> None:
    original = head + old + tail
    result = splice_edits(original, [TextEdit(old, new)])
    if isinstance(result, SpliceResult):
        (span,) = result.spans
        assert result.text == original[: span.start] + span.new + original[span.end :]
        assert original[span.start : span.end].replace("\r\n", "\n") == old
        assert span.new.replace("\r", "") == new.replace("\r", "")
        render_diff(original, result.spans)


@given(original=TEXTS, old=TEXTS, new=TEXTS)
def test_never_raises(original: str, old: str, new: str) -> None:
    result = splice_edits(original, [TextEdit(old, new), TextEdit(new, old)])
    assert isinstance(result, str | SpliceResult)
