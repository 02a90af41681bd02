from __future__ import annotations

from palinurus.cli.tui.pick import Choice, matching


def test_every_word_must_be_somewhere() -> None:
    rows = [Choice("a/one", "a/one", "Big model"), Choice("b/two", "b/two", "small")]
    assert matching(rows, "BIG one") == rows[:1]
    assert matching(rows, "") == rows and matching(rows, "one two") == []
