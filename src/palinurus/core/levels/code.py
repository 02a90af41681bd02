"""Where the code is in a message: fenced blocks and inline code. Pure, one pass, no backtracking.

What people quote as code is not meant as an instruction, so the directive parser leaves these spans alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})([^\n]*)")
_RUN = re.compile(r"`+")


class CodeSpans:
    """The spans of one text; `holds(position)` says whether a position is inside one."""

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
        at, fence, opened = 0, "", 0
        while at < len(text):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            mark = _FENCE.match(text, at, end)
            if fence:
                if mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
                    self._add(opened, end)
                    fence = ""
            elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
                fence, opened = mark[1], at
            else:
                self._inline(text, at, end)
            at = end + 1
        if fence:
            self._add(opened, len(text))

    def _inline(self, text: str, start: int, end: int) -> None:
        """Inline code of one line: a run of n backticks up to the next run of n."""
        runs = [(m.start(), m.end()) for m in _RUN.finditer(text, start, end)]
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
