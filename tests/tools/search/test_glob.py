"""Globs over paths."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.search.glob import GlobPattern, expand_braces, widen_pattern


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("src/**/*.py", "other/src/a.py", False),
        ("**/x/**", "a/x/b/c", True),
        ("**/x/**", "a/x", False),
        ("src/**", "src/a/b", True),
        ("**", "a/b", True),
        ("/top", "top", True),
        ("/top", "a/top", False),
        ("./a", "a", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a?c", "a/c", False),
        ("[ab]1", "a1", True),
        ("[!ab]1", "a1", False),
        ("[^ab]1", "c1", True),
        ("[a-c]x", "bx", True),
        ("[]]", "]", True),
        ("[a", "[a", True),
        ("[z-a]", "[z-a]", True),
        ("*.{py,ts}", "x/a.ts", True),
        ("*.{py,ts}", "a.js", False),
        ("{a,b}/{c,d}", "b/c", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "abbbc", True),
        ("a*b*c", "acb", False),
        ("*", ".hidden", True),
        ("dir/", "dir", True),
        ("a.c", "abc", False),
        ("*b", "a\nb", True),
    ],
)
def test_matching(pattern: str, path: str, expected: bool) -> None:
    assert GlobPattern(widen_pattern(pattern)).match(path.split("/")) is expected


def test_case() -> None:
    assert GlobPattern("**/*.PY", ignore_case=True).match(["a.py"])
    assert not GlobPattern("**/*.PY").match(["a.py"])


def test_braces_are_bounded() -> None:
    assert len(expand_braces("{a,b}" * 5)) == 32
    assert expand_braces("{a,b}" * 40) == ["{a,b}" * 40]
    assert expand_braces("{a}") == ["{a}"]


def test_patterns_that_make_others_explode() -> None:
    assert not GlobPattern("*a" * 60 + "b").match(["a" * 255])
    assert not GlobPattern("**/a/" * 40 + "b").match(["a"] * 200)
    assert GlobPattern("*" * 1000).match(["x" * 255])


@given(st.text("ab*?", max_size=8), st.text("ab", min_size=1, max_size=10))
def test_agrees_with_fnmatch_on_one_name(pattern: str, name: str) -> None:
    if pattern != "**" and pattern:
        assert GlobPattern(pattern).match([name]) == fnmatch.fnmatchcase(name, pattern)


@given(st.text("ab*?[]{},!\\/-", max_size=16), st.lists(st.text("ab-", min_size=1, max_size=4), max_size=4))
def test_never_raises(pattern: str, segments: list[str]) -> None:
    GlobPattern(widen_pattern(pattern)).match(segments)
