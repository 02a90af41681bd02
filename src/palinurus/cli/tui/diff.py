"""What a call changes in files, as lines of a given width: one column, or before and after beside each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from palinurus.cli.tui.told import DIFF_STYLES
from palinurus.patterns import compile_late

WIDE = 160  # columns of a screen that has room for two
_HUNK = compile_late(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def draw_diff(diff: str, width: int) -> list[Content]:
    """A diff in unified form, coloured."""
    lines = diff.split("\n")
    both = any(line[:1] == "-" for line in lines) and width >= WIDE - 10
    return list(_draw_beside(lines, width)) if both else [_colour(line) for line in lines]


def _colour(line: str) -> Content:
    return Content.styled(line.expandtabs(4), DIFF_STYLES.get(line[:1], "dim"))


def _draw_beside(lines: list[str], width: int) -> Iterator[Content]:
    """What was there on the left, what is there now on the right; numbers where the diff tells them."""
    half = (width - 3) // 2
    old: list[str] = []
    new: list[str] = []
    left = right = 0

    def flush() -> Iterator[Content]:
        nonlocal left, right
        for at in range(max(len(old), len(new))):
            pair = (old[at] if at < len(old) else None, new[at] if at < len(new) else None)
            yield from _pair(pair, (left, right), half)
            left += (pair[0] is not None) * bool(left)
            right += (pair[1] is not None) * bool(right)
        old.clear()
        new.clear()

    for line in lines:
        if line[:1] in ("-", "+"):
            (old if line[0] == "-" else new).append(line)
            continue
        yield from flush()
        if (found := _HUNK.match(line)) is not None:
            left, right = int(found[1]), int(found[2])
            yield _colour(line)
        elif line[:1] in (" ", ""):
            yield from _pair((line or " ", line or " "), (left, right), half)
            left, right = left + bool(left), right + bool(right)
        else:
            yield _colour(line)
    yield from flush()


def _pair(pair: tuple[str | None, str | None], numbers: tuple[int, int], half: int) -> Iterator[Content]:
    sides = [_half(line, number, half) for line, number in zip(pair, numbers, strict=True)]
    for at in range(max(map(len, sides))):
        parts = [side[at] if at < len(side) else Content("") for side in sides]
        gap = " " * max(0, half - parts[0].cell_length)
        yield Content.assemble(parts[0], gap, Content.styled(" │ ", "dim"), parts[1])


def _half(line: str | None, number: int, half: int) -> list[Content]:
    """One side of a row, folded."""
    if line is None:
        return [Content("")]
    mark = f"{number:>4} " if number else ""
    words = Content.styled(line[:1] + line[1:].expandtabs(4), DIFF_STYLES.get(line[:1], "dim"))
    folded = words.fold(half - len(mark)) if line.strip() else [words]
    return [
        Content.assemble(Content.styled(mark if at == 0 else " " * len(mark), "dim"), part)
        for at, part in enumerate(folded)
    ]
