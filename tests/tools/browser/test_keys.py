from __future__ import annotations

import pytest

from palinurus.core.types.tool import ToolFailure
from palinurus.tools.browser.keys import parse_keys


@pytest.mark.parametrize(
    ("said", "key", "code", "text", "modifiers"),
    [
        ("Enter", "Enter", "Enter", "\r", 0),
        ("return", "Enter", "Enter", "\r", 0),
        ("a", "a", "KeyA", "a", 0),
        ("Control+Shift+T", "T", "KeyT", "", 10),
        ("Ctrl+a", "a", "KeyA", "", 2),
        ("cmd+ArrowDown", "ArrowDown", "ArrowDown", "", 4),
        ("+", "+", "", "+", 0),
        ("Control++", "+", "", "", 2),
        ("Shift+Tab", "Tab", "Tab", "", 8),
        ("F5", "F5", "F5", "", 0),
        ("é", "é", "", "é", 0),
        (" ", " ", "Space", " ", 0),
    ],
)
def test_keys_by_name(said: str, key: str, code: str, text: str, modifiers: int) -> None:
    found = parse_keys(said)
    assert (found.key, found.code, found.text, found.modifiers) == (key, code, text, modifiers)


def test_select_all_is_a_command_of_the_editor() -> None:
    assert parse_keys("Control+A").commands == ("selectAll",) and parse_keys("a").commands == ()


@pytest.mark.parametrize("said", ["", "Nothing", "Hyper+X"])
def test_a_key_that_is_none_is_told(said: str) -> None:
    with pytest.raises(ToolFailure):
        parse_keys(said)
