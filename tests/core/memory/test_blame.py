"""Which version brought a line."""

from __future__ import annotations

from palinurus.core.memory.blame import blame_lines, diff_versions


def test_lines_keep_their_origin() -> None:
    assert blame_lines(["a\nb\n", "a\nnew\nb\n", "a\nnew\nb changed\nlast\n"]) == [0, 1, 2, 2]


def test_a_line_that_came_back_is_new() -> None:
    assert blame_lines(["a\n", "", "a\n"]) == [2]


def test_after_an_unknown_version_all_is_new() -> None:
    assert blame_lines(["a\n", None, "a\nb\n"]) == [2, 2]
    assert blame_lines([]) == []


def test_diff_is_bounded() -> None:
    assert "-b" in diff_versions("a\nb\n", "a\n", "m")
    assert len(diff_versions("", "x\n" * 1000, "m", 20).split("\n")) == 21
