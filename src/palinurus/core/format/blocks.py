"""Markdown's lines -> blocks: headings, items, quotes, code, tables (which become code, with their columns in line)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from palinurus.core.format.inline import parse_runs
from palinurus.core.format.tree import MarkdownBlock, TextRun
from palinurus.core.stream.code import is_closing_fence, parse_fence
from palinurus.core.text import trim_heading
from palinurus.patterns import compile_late

_HEADING = compile_late(r" {0,3}(#{1,6})[ \t]+(\S.*)$")
_RULE = compile_late(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_QUOTE = compile_late(r" {0,3}>[ ]?")
_ITEM = compile_late(r"([ \t]*)([-*+•]|\d{1,9}[.)])[ \t]+(\S.*)$")
_UNDER = compile_late(r"[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$")
_CELL = compile_late(r"(?<!\\)\|")
_DEPTH = 8
_WIDEST = 40  # columns of a cell that are kept in line


def parse_blocks(text: str) -> tuple[MarkdownBlock, ...]:
    """The blocks of a whole text."""
    return _Lines(text.split("\n")).read()


class _Lines:
    def __init__(self, lines: Sequence[str], *, quoted: bool = False) -> None:
        self._lines = lines
        self._quoted = quoted
        self._at = 0
        self._gap = False
        self._text: list[str] = []  # the paragraph or item that is being read
        self._item: tuple[int, str] | None = None
        self._indents: list[int] = []
        self._made: list[MarkdownBlock] = []

    def read(self) -> tuple[MarkdownBlock, ...]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip():
                self._end()
                self._gap = bool(self._made)
                self._at += 1
            elif not (self._fence(line) or self._table(line) or self._short(line) or self._quote(line)):
                self._text.append(line.strip() if self._item else line.rstrip())
                self._at += 1
        self._end()
        return tuple(self._made)

    def _add(self, block: MarkdownBlock) -> None:
        self._made.append(block)
        self._gap = False

    def _end(self) -> None:
        """The paragraph or item is complete."""
        if self._text:
            inside = parse_runs("\n".join(self._text))
            if self._item is not None:
                level, label = self._item
                self._add(MarkdownBlock("item", inside, self._gap, level, label=label))
            else:
                self._indents = []
                self._add(MarkdownBlock("text", inside, self._gap))
        self._text, self._item = [], None

    def _fence(self, line: str) -> bool:
        fence = parse_fence(line)
        if fence is None:
            return False
        self._end()
        body: list[str] = []
        self._at += 1
        while self._at < len(self._lines) and not is_closing_fence(self._lines[self._at], fence):
            inner = self._lines[self._at]
            blanks = len(inner) - len(inner.lstrip(" \t"))
            body.append(inner[min(blanks, len(fence.indent)) :])
            self._at += 1
        self._at += 1
        self._code("\n".join(body), fence.opening.strip().lstrip("`~"))
        return True

    def _code(self, text: str, label: str) -> None:
        if text.strip():
            self._add(MarkdownBlock("code", (TextRun(text, code=True),), self._gap, label=label))

    def _table(self, line: str) -> bool:
        under = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
        if "|" not in line or not _UNDER.match(under) or len(_cells(under)) != len(_cells(line)):
            return False
        self._end()
        rows = [_cells(line)]
        self._at += 2
        while self._at < len(self._lines) and "|" in self._lines[self._at]:
            rows.append(_cells(self._lines[self._at]))
            self._at += 1
        self._code(_aligned(rows), "")
        return True

    def _short(self, line: str) -> bool:
        """A line that is a block of its own, or begins an item."""
        if found := _HEADING.match(line):
            self._end()
            self._indents = []
            self._add(MarkdownBlock("heading", parse_runs(trim_heading(found[2])), self._gap, len(found[1])))
        elif _RULE.match(line):
            self._end()
            self._indents = []
            self._add(MarkdownBlock("rule", (), self._gap))
        elif found := _ITEM.match(line):
            self._end()
            label = "•" if found[2] in "-*+•" else f"{found[2][:-1]}."
            self._item = (self._level(len(found[1].expandtabs(4))), label)
            self._text = [found[3].rstrip()]
        else:
            return False
        self._at += 1
        return True

    def _level(self, indent: int) -> int:
        while self._indents and self._indents[-1] > indent:
            self._indents.pop()
        if not self._indents or self._indents[-1] + 1 < indent:
            self._indents.append(indent)
        return min(len(self._indents) - 1, _DEPTH)

    def _quote(self, line: str) -> bool:
        if self._quoted or not _QUOTE.match(line):
            return False
        self._end()
        self._indents = []
        inside: list[str] = []
        while self._at < len(self._lines) and (found := _QUOTE.match(self._lines[self._at])):
            rest = self._lines[self._at][found.end() :]
            while found := _QUOTE.match(rest):  # a quote in a quote is the same quote: no platform nests them
                rest = rest[found.end() :]
            inside.append(rest)
            self._at += 1
        if inner := _Lines(inside, quoted=True).read():
            self._add(MarkdownBlock("quote", (), self._gap, inner=inner))
        return True


def _cells(line: str) -> list[str]:
    cells = _CELL.split(line.strip())
    if not cells[0].strip():
        cells = cells[1:]
    if cells and not cells[-1].strip():
        cells = cells[:-1]
    return ["".join(run.text for run in parse_runs(cell.strip().replace("\\|", "|"))) for cell in cells]


def _aligned(rows: list[list[str]]) -> str:
    """Rows of cells as lines with their columns below each other."""
    count = max(map(len, rows))
    widths = [min(_WIDEST, max(_width(row[n]) if n < len(row) else 0 for row in rows)) for n in range(count)]
    lines = []
    for at, row in enumerate(rows):
        padded = [cell + " " * max(0, width - _width(cell)) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(padded).rstrip())
        if at == 0:
            lines.append("  ".join("-" * width for width in widths).rstrip())
    return "\n".join(lines).strip("\n")


def _width(text: str) -> int:
    """Columns in a fixed-width font."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)
