from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.skills.frontmatter import (
    LIMIT,
    BadFrontMatter,
    FrontMatter,
    YamlFile,
    parse_front_matter,
    parse_yaml,
)


def fields(header: str) -> object:
    found = parse_front_matter(f"---\n{header}\n---\nbody\n")
    return found.fields if isinstance(found, FrontMatter) else found


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("a: b", "b"),
        ("a: b: c", "b: c"),
        ("a: https://x/y#z", "https://x/y#z"),
        ("a: b # said", "b"),
        ("a: [b]     # said", ["b"]),
        ("a:", None),
        ("a: true", True),
        ("a: 1.0", "1.0"),
        ('a: "q \\u00e9 # no"', "q é # no"),
        ("a: 'it''s'", "it's"),
        ('a: "two\n  lines"', "two lines"),
        ("a: more\n  words", "more words"),
        ("a: >\n  fold\n  ed\n\n  next", "fold ed\nnext\n"),
        ("a: |-\n  as\n    is", "as\n  is"),
        ("a: [x, 'y', \"z\",]", ["x", "y", "z"]),
        ("a:\n- x\n- y", ["x", "y"]),
        ("a:\n  - x\n  - k: v\n    l: w", ["x", {"k": "v", "l": "w"}]),
        ("a:\n  b:\n    c: d\n  e: f", {"b": {"c": "d"}, "e": "f"}),
        ('a: {\n"b": {"c": [1, true,],},\n}', {"b": {"c": ["1", True]}}),
        ('a:\n  {\n    "b": "c", # said\n  }', {"b": "c"}),
        ("a: {b: c d, e: }", {"b": "c d", "e": None}),
        ('"a": b', "b"),
        ('a: "\\ud800x"', "\ufffdx"),
    ],
)
def test_values(header: str, value: object) -> None:
    assert fields(header) == {"a": value}


def test_the_body_is_what_comes_after() -> None:
    found = parse_front_matter("\ufeff---\r\na: b\r\n---\r\n\r\n---\r\nx\r\n")
    assert found == FrontMatter({"a": "b"}, "\n---\nx\n")


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("# no header", 1, "header"),
        ("---\na: b\n", 1, "not closed"),
        ("---\na: b\nc: [1, 2\n---\n", 3, "not closed"),
        ("---\na: *ref\n---\n", 2, "quotes"),
        ("---\na: b\n   c: d\n  e: f\nword\n---\n", 5, "key: value"),
        ('---\na: "x" y\n---\n', 2, "unexpected"),
        ('---\na: "\\q"\n---\n', 2, "\\"),
        ("---\n- a\n---\n", 2, "key: value"),
        ("---\na: " + "[" * 100 + "\n---\n", 2, "brackets"),
        (f"---\na: {'x' * LIMIT}\n---\n", 1, "characters"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text: str, line: int, word: str) -> None:
    found = parse_front_matter(text)
    assert isinstance(found, BadFrontMatter)
    assert found.line == line
    assert word in found.message


@given(st.text(alphabet="ab:-{}[]\"'|>#&, \n\t\\~u0", max_size=200))
def test_nothing_breaks_it(text: str) -> None:
    assert isinstance(parse_front_matter(f"---\n{text}\n---\n"), FrontMatter | BadFrontMatter)


def test_a_whole_file_has_numbers_and_lines() -> None:
    read = parse_yaml("n: 3\nrate: .5\nversion: '1'\nlist:\n  - a: 1e2\n    b: {c: -4, d: x}\n  - 1_000\n")
    assert isinstance(read, YamlFile)
    assert read.fields == {
        "n": 3, "rate": 0.5, "version": "1", "list": [{"a": 100.0, "b": {"c": -4, "d": "x"}}, "1_000"],
    }  # fmt: skip
    assert read.places["$.list[0]"] == 5 and read.places["$.list[0].b"] == 6 and read.places["$.list[1]"] == 7


@pytest.mark.parametrize(
    ("text", "line"), [("a: 1\na: 2", 2), ("a: &x 1", 1), ("- a", 1), ("a:\n  b: [1\n", 2), ("x: 1\n" * 20_000, 1)]
)
def test_a_whole_file_that_cannot_be_read(text: str, line: int) -> None:
    read = parse_yaml(text)
    assert isinstance(read, BadFrontMatter) and read.line == line


@given(st.text(alphabet="ab:-{}[]\"'|>#&, \n\t\\~u01.e", max_size=200))
def test_a_whole_file_never_raises(text: str) -> None:
    parse_yaml(text)
