"""Markdown for ears: the words without code, addresses, marks and pictures made of characters. Pure."""

from __future__ import annotations

import re

from palinurus.core.format.blocks import parse_blocks
from palinurus.core.format.tree import MarkdownBlock
from palinurus.patterns import compile_late

_ADDRESS = compile_late(r"<?(?:https?://|www\.)[^\s<>]+>?", re.IGNORECASE)
_GLYPHS = compile_late("[\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\ufe0f\u200d\u20e3\U0001f000-\U0001faff]+")
_BLANKS = compile_late(r"[ \t]{2,}")
_SILENT = ("code", "rule")


def make_speakable(markdown: str) -> str:
    """What somebody would read out of it; "" if there is nothing."""
    return "\n".join(filter(None, (_say(block) for block in parse_blocks(markdown))))


def _say(block: MarkdownBlock) -> str:
    if block.kind in _SILENT:
        return ""
    if block.inner:
        return "\n".join(filter(None, (_say(one) for one in block.inner)))
    words = "".join(run.text for run in block.runs)
    return _BLANKS.sub(" ", _GLYPHS.sub("", _ADDRESS.sub("", words))).strip()
