"""Being named in words: messages.groupChat.mentionPatterns, or the agent's name. Pure.

The patterns come from the owner, the texts from anybody: a pattern that could take for ever on some text is not used.
"""

from __future__ import annotations

import re

MAX_MENTION_TEXT = 2_000  # characters of a message that are looked at
MAX_PATTERN = 200  # characters of a pattern

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_BACK = re.compile(r"\\[1-9]|\(\?P=|\(\?\(")
_AGAIN = re.compile(r"\)\s*(?:[*+]|\{)")  # a group that repeats
_ENDLESS = re.compile(r"[*+]|\{\d*,\}")


def find_pattern_problem(pattern: str) -> str:
    """Why a pattern cannot be used; "" if it can."""
    if len(pattern) > MAX_PATTERN:
        return f"is longer than {MAX_PATTERN} characters"
    try:
        found = re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as exc:
        return f"is not a regular expression: {exc}"
    if found.match(""):
        return "fits every message"
    if _BACK.search(pattern):
        return "refers back to a group, which can take for ever"
    bare = _CLASS.sub("c", _ESCAPED.sub("e", pattern))
    if _AGAIN.search(bare) or len(_ENDLESS.findall(bare)) > 1:
        return "repeats in a way that can take for ever"
    return ""


def is_mentioned(text: str, patterns: tuple[str, ...]) -> bool:
    """Does the text name us? Patterns that have a `problem` name nobody."""
    return any(
        not find_pattern_problem(one) and re.search(one, text[:MAX_MENTION_TEXT], re.IGNORECASE) for one in patterns
    )


def make_name_patterns(name: str) -> tuple[str, ...]:
    """The patterns of an agent that has only a name."""
    name = name.strip()
    return (rf"(?<!\w)@?{re.escape(name)}(?!\w)",) if name else ()
