from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from palinurus.cli.tui.style import DARK, LIGHT, choose_theme, is_light, is_light_colour

KNOWN = dict.fromkeys(("pal-dark", "pal-light", "ansi-dark", "ansi-light", "nord"))


@pytest.mark.parametrize(
    ("wanted", "light", "found"),
    [
        ("auto", False, "ansi-dark"),
        ("auto", True, "ansi-light"),
        ("dark", True, "pal-dark"),
        ("light", False, "pal-light"),
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


def shine(colour: Color) -> float:
    """The light of a colour, as the guidelines for accessible pages count it."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_every_colour_can_be_read_on_every_background(theme: Theme) -> None:
    letters = [
        getattr(theme, n) for n in ("foreground", "primary", "secondary", "warning", "error", "success", "accent")
    ]
    for ground in map(Color.parse, filter(None, (theme.background, theme.surface, theme.panel))):
        muted = ground.blend(Color.parse(theme.foreground or ""), 0.66)  # as Textual dims
        for colour in (*map(Color.parse, letters), muted):
            dark, light = sorted((shine(ground), shine(colour)))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (colour.hex, ground.hex)
