"""Characters nobody sees: one table, whoever asks."""

from __future__ import annotations

import sys

import pytest

from palinurus.core.hidden import is_hidden, needs_escape, remove_hidden
from palinurus.core.policy.shell import find_deceptive_text
from palinurus.core.skills.danger import SkillFile, find_dangers
from palinurus.core.skills.skill import strip_invisible
from palinurus.core.untrusted import make_inert

HIDDEN = ["\u034f", "\u115f", "\u180b", "\u180f", "\u200b", "\u202e", "\u2065", "\u3164", "\ufeff", "\U000e0041"]


def test_who_removes_flags_and_who_flags_shows() -> None:
    empty = range(0x40000, 0xE0000, 97)  # planes of which Unicode says nothing yet: some of each
    for code in (*range(0x40000), *empty, *range(0xE0000, sys.maxunicode + 1)):
        char = chr(code)
        assert remove_hidden(char) == char or is_hidden(char), hex(code)
        assert needs_escape(char) or not is_hidden(char), hex(code)


@pytest.mark.parametrize("char", HIDDEN)
def test_everybody_sees_what_is_hidden(char: str) -> None:
    assert make_inert(f"a{char}b") == strip_invisible(f"a{char}b") == "ab"
    assert find_deceptive_text(f"rm{char} x")
    assert [found.kind for found in find_dangers([SkillFile("SKILL.md", f"read{char} it".encode())])] == ["hidden text"]


@pytest.mark.parametrize("char", ["a", "ü", "\u200d", "\n", "\t", " ", "\u00a0", "👩"])
def test_what_is_seen_or_needed_stays(char: str) -> None:
    assert not is_hidden(char) and remove_hidden(char) == char
