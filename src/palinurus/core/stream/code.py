"""Markdown code in running text: which line opens a fence, which closes it. Knows nothing of tags or chunks.

Indentation is not limited to three spaces: models put fences into list items.
"""

from __future__ import annotations

import re

import msgspec

FENCE_LOOKAHEAD = 256  # characters of a line that decide whether it opens a fence; more are never waited for
_OPEN = re.compile(r"([ \t]*)(`{3,}|~{3,})([^\n]*)")


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
    """The fence this line opens. The first LOOK characters decide."""
    found = _OPEN.match(line[:FENCE_LOOKAHEAD])
    if found is None:
        return None
    indent, marker, info = found.groups()
    return None if marker[0] == "`" and "`" in info else CodeFence(indent, marker, info)


def is_closing_fence(line: str, fence: CodeFence) -> bool:
    """Does this line end the fence?"""
    text = line.strip(" \t\r")
    return len(text) >= len(fence.marker) and not text.strip(fence.marker[0])
