"""What Markdown is read into: flat blocks of flat runs. Nothing nests, so nothing can be left open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

TextMark: TypeAlias = Literal["bold", "italic", "strike", "spoiler"]
BlockKind: TypeAlias = Literal["text", "heading", "item", "code", "quote", "rule"]

MARKS: tuple[TextMark, ...] = ("bold", "italic", "strike", "spoiler")  # the order in which writers open them
NO_MARKS: frozenset[TextMark] = frozenset()


class TextRun(msgspec.Struct, frozen=True):
    """Characters that look the same. `code` has no marks; `url` is where they lead, "" for nowhere."""

    text: str
    marks: frozenset[TextMark] = NO_MARKS
    code: bool = False
    url: str = ""


class MarkdownBlock(msgspec.Struct, frozen=True):
    """`runs` is the text (newlines in it are kept); a code block has one run; a quote has `inner` instead."""

    kind: BlockKind
    runs: tuple[TextRun, ...] = ()
    gap: bool = False  # a blank line stood before it
    level: int = 0  # of a heading (1-6); of an item: how deep (from 0)
    label: str = ""  # of an item: "•" or "3."; of code: its language
    inner: tuple[MarkdownBlock, ...] = ()


def join_blocks(blocks: tuple[MarkdownBlock, ...], write: Callable[[MarkdownBlock], str]) -> str:
    """The blocks as one text, blank lines where they stood."""
    return "".join(("" if at == 0 else "\n\n" if block.gap else "\n") + write(block) for at, block in enumerate(blocks))


def write_flat_block(block: MarkdownBlock, line: Callable[[tuple[TextRun, ...]], str], bullet: str = "•") -> str:
    """A rule, heading, item or text where a platform has no such things; `line` writes runs."""
    if block.kind == "rule":
        return "———"
    if block.kind == "heading":
        bold = (run if run.code else TextRun(run.text, run.marks | {"bold"}, False, run.url) for run in block.runs)
        return line(tuple(bold))
    if block.kind == "item":
        blanks, label = "  " * block.level, bullet if block.label == "•" else block.label
        return f"{blanks}{label} " + line(block.runs).replace("\n", f"\n{blanks}  ")
    return line(block.runs)
