"""What Markdown is read into: flat blocks of flat runs. Nothing nests, so nothing can be left open."""

from __future__ import annotations

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
