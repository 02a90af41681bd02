from __future__ import annotations

from palinurus.cli.tui.dialogs import PickerChoice, filter_choices


def test_every_word_must_be_somewhere() -> None:
    rows = [PickerChoice("a/one", "a/one", "Big model"), PickerChoice("b/two", "b/two", "small")]
    assert filter_choices(rows, "BIG one") == rows[:1]
    assert filter_choices(rows, "") == rows and filter_choices(rows, "one two") == []
