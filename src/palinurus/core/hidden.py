"""Characters that are there but not seen: they hide orders from people, or split words that a filter looks for.

The one table of them, for skills, for texts from outside and for commands that somebody has to judge. Pure.
"""

from __future__ import annotations

import unicodedata

from palinurus.patterns import compile_late

_JOINERS = "\u200c\u200d"  # scripts and emoji need them
# Controls, fillers, direction marks, zero widths, tags; many selectors in a row can carry a text.
_HIDDEN = compile_late(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]|[\ufe00-\ufe0f]{2,}"
)
_UNSEEN = frozenset(("Cc", "Cf", "Co", "Cs"))
_UNCLEAR = frozenset(("Cn", "Zl", "Zp", "Zs"))


def remove_hidden(text: str) -> str:
    """`text` without them. Breaks, tabs and the joiners stay, and signs of a font's own."""
    return _HIDDEN.sub("", text)


def is_hidden(char: str) -> bool:
    """Does it show nothing, or change how others are shown? Breaks, tabs and the joiners are none of these."""
    if char in _JOINERS or char in "\n\r\t":
        return False
    return unicodedata.category(char) in _UNSEEN or _HIDDEN.match(char) is not None


def has_hidden(text: str) -> bool:
    """Is any of its characters hidden? Most texts are plain ASCII, which one look tells."""
    return not (text.isascii() and text.isprintable()) and any(map(is_hidden, text))


def needs_escape(char: str) -> bool:
    """Must it be written out where a text is judged by eye? So must breaks, joiners, odd blanks, unassigned ones."""
    if " " <= char <= "~":
        return False
    return (
        is_hidden(char)
        or char in f"{_JOINERS}\n\r\t\u2800"
        or unicodedata.category(char) in _UNCLEAR
        or "\ufe00" <= char <= "\ufe0d"  # selectors; the last two only choose between text and emoji
    )


def escape_character(char: str) -> str:
    """The character as an escape that everyone can read."""
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
