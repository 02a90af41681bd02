"""Markdown code in running text: which line opens a fence, which closes it, which spans of a text are code. Knows
nothing of tags, chunks or directives.

Indentation is not limited to three spaces: models put fences into list items.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from palinurus.patterns import compile_late

FENCE_LOOKAHEAD = 256  # characters of a line that decide whether it opens a fence; more are never waited for
_RUN = compile_late(r"`+")
_OPEN = compile_late(r"([ \t]*)(`{3,}|~{3,})([^\n]*)")


class CodeFence(msgspec.Struct, frozen=True):
    """An open code fence."""

    indent: str
    marker: str
    info: str = ""

    @property
    def opening(self) -> str:
        """The line that opens it again in the next chunk. Bounded, whatever stood behind the marker."""
        word = self.info.split(None, 1)[0][:32] if self.info.strip() else ""
        return f"{self.indent[:8]}{self.marker[:16]}{word}"

    @property
    def closing(self) -> str:
        return f"{self.indent[:8]}{self.marker[:16]}"


def parse_fence(line: str) -> CodeFence | None:
    """The fence this line opens. The first FENCE_LOOKAHEAD characters decide."""
    found = _OPEN.match(line[:FENCE_LOOKAHEAD])
    if found is None:
        return None
    indent, marker, info = found.groups()
    return None if marker[0] == "`" and "`" in info else CodeFence(indent, marker, info)


def is_closing_fence(line: str, fence: CodeFence) -> bool:
    """Does this line end the fence?"""
    text = line.strip(" \t\r")
    return len(text) >= len(fence.marker) and not text.strip(fence.marker[0])


class CodeSpans:
    """Fenced blocks and inline code of one whole text; `holds(position)` says whether a position is inside one."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        if "`" in text or "~~~" in text:
            self._scan(text)

    def holds(self, position: int) -> bool:
        """Is the character at `position` code?"""
        at = bisect_right(self._starts, position) - 1
        return at >= 0 and position < self._ends[at]

    def _scan(self, text: str) -> None:
        at = opened = 0
        fence: CodeFence | None = None
        for line in text.split("\n"):
            end = at + len(line)
            if fence is None:
                fence, opened = parse_fence(line), at
                if fence is None:
                    self._inline(text, at, end)
            elif is_closing_fence(line, fence):
                self._add(opened, end)
                fence = None
            at = end + 1
        if fence is not None:
            self._add(opened, len(text))

    def _inline(self, text: str, start: int, end: int) -> None:
        """Inline code of one line: a run of n backticks up to the next run of n. No backtracking."""
        runs = [found.span() for found in _RUN.finditer(text, start, end)]
        by_size: dict[int, list[int]] = {}
        for index, (first, last) in enumerate(runs):
            by_size.setdefault(last - first, []).append(index)
        index = 0
        while index < len(runs):
            first, last = runs[index]
            same = by_size[last - first]
            later = bisect_right(same, index)
            if later < len(same):
                index = same[later]
                self._add(first, runs[index][1])
            index += 1

    def _add(self, start: int, end: int) -> None:
        self._starts.append(start)
        self._ends.append(end)
