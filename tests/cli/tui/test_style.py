from __future__ import annotations

import pytest

from palinurus.cli.tui.style import choose_theme, is_light, is_light_colour

KNOWN = dict.fromkeys(("textual-dark", "textual-light", "ansi-dark", "ansi-light", "nord"))


@pytest.mark.parametrize(
    ("wanted", "light", "found"),
    [
        ("auto", False, "ansi-dark"),
        ("auto", True, "ansi-light"),
        ("dark", True, "textual-dark"),
        ("light", False, "textual-light"),
        ("16", False, "ansi-dark"),
        ("nord", False, "nord"),
        ("nosuch", True, "ansi-light"),
    ],
)
def test_names_of_themes(wanted: str, light: bool, found: str) -> None:
    assert choose_theme(wanted, KNOWN, light=light) == found


def test_the_background_as_terminals_tell_it() -> None:
    assert is_light({"COLORFGBG": "0;15"}) and not is_light({"COLORFGBG": "15;0"}) and is_light({"COLORFGBG": "0;7"})
    assert is_light_colour("\x1b]11;rgb:ffff/ffff/ffff\x1b\\") and not is_light_colour("\x1b]11;rgb:1e1e/1e1e/2e2e\x07")
    assert not is_light_colour("") and not is_light_colour("\x1b[?62;c") and not is_light_colour("rgb:zz/1/2")
