"""Platforms that take plain text and, beside it, which parts look how: Signal. Positions count UTF-16 units."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from palinurus.core.format.tree import MARKS, Block, Mark, Run

Style: TypeAlias = Literal["BOLD", "ITALIC", "STRIKETHROUGH", "MONOSPACE", "SPOILER"]

_STYLES: dict[Mark, Style] = {"bold": "BOLD", "italic": "ITALIC", "strike": "STRIKETHROUGH", "spoiler": "SPOILER"}


class Span(msgspec.Struct, frozen=True):
    """`length` units from `start` on look like `style`."""

    start: int
    length: int
    style: Style


def utf16(text: str) -> int:
    """How many UTF-16 units a text has."""
    return len(text) + sum(char > "\uffff" for char in text)


def written(blocks: tuple[Block, ...]) -> tuple[str, tuple[Span, ...]]:
    """The text, and what of it is formatted."""
    maker = _Maker()
    maker.blocks(blocks, "")
    return "".join(maker.text), tuple(maker.spans)


class _Maker:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.spans: list[Span] = []
        self._at = 0

    def blocks(self, blocks: tuple[Block, ...], prefix: str) -> None:
        for at, block in enumerate(blocks):
            self._add("" if at == 0 else f"\n{prefix}\n" if block.gap else "\n")
            if block.kind == "quote":
                self.blocks(block.inner, "> ")
            else:
                self._block(block, prefix)

    def _block(self, block: Block, prefix: str) -> None:
        self._add(prefix)
        if block.kind == "rule":
            self._add("———")
        if block.kind == "item":
            self._add(f"{'  ' * block.level}{block.label} ")
        for run in block.runs:
            self._run(run, prefix, heading=block.kind == "heading")

    def _run(self, run: Run, prefix: str, *, heading: bool) -> None:
        start = self._at
        self._add(run.text.replace("\n", f"\n{prefix}"))
        length = self._at - start
        if run.url and run.url != run.text:
            self._add(f" ({run.url})")
        styles: list[Style] = ["MONOSPACE"] if run.code else []
        styles += [
            _STYLES[mark] for mark in MARKS if mark in run.marks or (heading and mark == "bold" and not run.code)
        ]
        self.spans += [Span(start, length, style) for style in styles if length]

    def _add(self, text: str) -> None:
        self.text.append(text)
        self._at += utf16(text)
