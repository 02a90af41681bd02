"""Platforms that take plain text and, beside it, which parts look how: Signal. Positions count UTF-16 units."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from palinurus.core.format.tree import MARKS, MarkdownBlock, TextMark, TextRun

SpanStyle: TypeAlias = Literal["BOLD", "ITALIC", "STRIKETHROUGH", "MONOSPACE", "SPOILER"]

_STYLES: dict[TextMark, SpanStyle] = {
    "bold": "BOLD",
    "italic": "ITALIC",
    "strike": "STRIKETHROUGH",
    "spoiler": "SPOILER",
}


class StyleSpan(msgspec.Struct, frozen=True):
    """`length` units from `start` on look like `style`."""

    start: int
    length: int
    style: SpanStyle


def count_utf16(text: str) -> int:
    """How many UTF-16 units a text has."""
    return len(text) + sum(char > "\uffff" for char in text)


def write_spans(blocks: tuple[MarkdownBlock, ...]) -> tuple[str, tuple[StyleSpan, ...]]:
    """The text, and what of it is formatted."""
    maker = _Maker()
    maker.blocks(blocks, "")
    return "".join(maker.text), tuple(maker.spans)


class _Maker:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.spans: list[StyleSpan] = []
        self._at = 0

    def blocks(self, blocks: tuple[MarkdownBlock, ...], prefix: str) -> None:
        for at, block in enumerate(blocks):
            self._add("" if at == 0 else f"\n{prefix}\n" if block.gap else "\n")
            if block.kind == "quote":
                self.blocks(block.inner, "> ")
            else:
                self._block(block, prefix)

    def _block(self, block: MarkdownBlock, prefix: str) -> None:
        self._add(prefix)
        if block.kind == "rule":
            self._add("———")
        if block.kind == "item":
            self._add(f"{'  ' * block.level}{block.label} ")
        for run in block.runs:
            self._run(run, prefix, heading=block.kind == "heading")

    def _run(self, run: TextRun, prefix: str, *, heading: bool) -> None:
        start = self._at
        self._add(run.text.replace("\n", f"\n{prefix}"))
        length = self._at - start
        if run.url and run.url != run.text:
            self._add(f" ({run.url})")
        styles: list[SpanStyle] = ["MONOSPACE"] if run.code else []
        styles += [
            _STYLES[mark] for mark in MARKS if mark in run.marks or (heading and mark == "bold" and not run.code)
        ]
        self.spans += [StyleSpan(start, length, style) for style in styles if length]

    def _add(self, text: str) -> None:
        self.text.append(text)
        self._at += count_utf16(text)
