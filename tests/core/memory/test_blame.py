"""Which version brought a line."""

from __future__ import annotations

from palinurus.core.memory.blame import blame, diff


def test_lines_keep_their_origin() -> None:
    assert blame(["a\nb\n", "a\nnew\nb\n", "a\nnew\nb changed\nlast\n"]) == [0, 1, 2, 2]


def test_a_line_that_came_back_is_new() -> None:
    assert blame(["a\n", "", "a\n"]) == [2]


def test_after_an_unknown_version_all_is_new() -> None:
    assert blame(["a\n", None, "a\nb\n"]) == [2, 2]
    assert blame([]) == []


def test_diff_is_bounded() -> None:
    assert "-b" in diff("a\nb\n", "a\n", "m")
    assert len(diff("", "x\n" * 1000, "m", 20).split("\n")) == 21
