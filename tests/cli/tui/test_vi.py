from __future__ import annotations

import pytest

from palinurus.cli.tui.vi import ViState, press_vi


def play(text: str, keys: str, at: int = 0) -> str:
    """The text after the keys, the place marked with |; typed letters are not part of it."""
    state = ViState(text, at, insert=False)
    for key in keys:
        state = press_vi(state, key) or state
    return f"{state.text[: state.at]}|{state.text[state.at :]}" + ("+" if state.insert else "")


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        ("w", "one |two\nthree"),
        ("wb", "|one two\nthree"),
        ("e", "on|e two\nthree"),
        ("$", "one tw|o\nthree"),
        ("j", "one two\n|three"),
        ("jk", "|one two\nthree"),
        ("G", "one two\nthre|e"),
        ("Ggg", "|one two\nthree"),
        ("x", "|ne two\nthree"),
        ("dw", "|two\nthree"),
        ("dd", "|three"),
        ("wD", "one| \nthree"),
        ("cw", "|two\nthree+"),
        ("wC", "one |\nthree+"),
        ("A", "one two|\nthree+"),
        ("o", "one two\n|\nthree+"),
        ("O", "|\none two\nthree+"),
        ("wi", "one |two\nthree+"),
        ("ywP", "|one two\nthree"),
        ("xp", "n|oe two\nthree"),
        ("q", "|one two\nthree"),
    ],
)
def test_keys(keys: str, seen: str) -> None:
    assert play("one two\nthree", keys) == seen


def test_while_text_is_typed_only_escape_is_ours() -> None:
    state = ViState("abc", 3)
    assert press_vi(state, "x") is None and press_vi(state, "left") is None
    assert press_vi(state, "escape") == ViState("abc", 2, insert=False)
    assert press_vi(ViState("", 0, insert=False), "x") == ViState("", 0, insert=False)
