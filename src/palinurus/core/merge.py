"""Two changes of one text brought together where they have nothing to do with each other. Pure."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

MOST = 4_000  # lines of a text that is compared


class ChangedLines(NamedTuple):
    """Lines of the base, and what stands there instead."""

    start: int
    end: int
    new: tuple[str, ...]


def merge_texts(base: str, one: str, other: str) -> str | None:
    """`base` with the changes of both; None where they touch, or there is too much to compare."""
    lines = base.splitlines(keepends=True)
    sides = [text.splitlines(keepends=True) for text in (one, other)]
    if max(len(lines), *map(len, sides)) > MOST:
        return None
    changed = sorted({change for side in sides for change in _list_changes(lines, side)})
    if any(before.end >= after.start for before, after in pairwise(changed)):
        return None
    made, at = list[str](), 0
    for change in changed:
        made += [*lines[at : change.start], *change.new]
        at = change.end
    return "".join([*made, *lines[at:]])


def _list_changes(base: list[str], other: list[str]) -> list[ChangedLines]:
    codes = SequenceMatcher(None, base, other, autojunk=False).get_opcodes()
    return [ChangedLines(a, b, tuple(other[c:d])) for tag, a, b, c, d in codes if tag != "equal"]
