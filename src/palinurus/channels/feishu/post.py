"""Markdown -> Feishu's rich text (`post`): paragraphs of elements that say themselves what they are. Nothing is
escaped, and whatever a text says, nobody is called by it: in Feishu's plain messages `<at user_id="all">` would call
everybody. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from palinurus.core.format.blocks import parse_blocks
from palinurus.core.format.tree import MarkdownBlock, TextMark, TextRun

Paragraph: TypeAlias = list[dict[str, Any]]

_STYLES: dict[TextMark, str] = {"bold": "bold", "italic": "italic", "strike": "lineThrough"}
_RULE = "———"
_WEB = ("https://", "http://")


def write_post(text: str, *, plain: bool) -> str:
    """The `content` of a message of the type `post`."""
    blocks = () if plain else parse_blocks(text)
    rows = _blocks(blocks) if blocks else _lines((TextRun(text),))
    # One language stands for all: people see whichever there is.
    return json.dumps({"zh_cn": {"content": rows}}, ensure_ascii=False, separators=(",", ":"))


def _blocks(blocks: Iterable[MarkdownBlock]) -> list[Paragraph]:
    made: list[Paragraph] = []
    for block in blocks:
        if block.gap and made:
            made.append(_blank())
        made += _block(block)
    return made


def _block(block: MarkdownBlock) -> list[Paragraph]:
    if block.kind == "code":
        language = {"language": block.label} if block.label else {}
        return [[{"tag": "code_block", **language, "text": block.runs[0].text}]]
    if block.kind == "quote":
        return [[_text("> "), *row] for row in _blocks(block.inner)]
    if block.kind == "rule":
        return [[_text(_RULE)]]
    if block.kind == "heading":
        return _lines(tuple(TextRun(run.text, run.marks | {"bold"}, run.code, run.url) for run in block.runs))
    rows = _lines(block.runs)
    if block.kind == "item" and rows:
        blanks = "  " * block.level
        rows = [[_text(f"{blanks}{'  ' if at else f'{block.label} '}"), *row] for at, row in enumerate(rows)]
    return rows


def _lines(runs: tuple[TextRun, ...]) -> list[Paragraph]:
    """A paragraph for each line."""
    made: list[Paragraph] = [[]]
    for run in runs:
        for at, line in enumerate(run.text.split("\n")):
            if at:
                made.append([])
            if line:
                made[-1].append(_element(line, run))
    return [row or _blank() for row in made]


def _element(text: str, run: TextRun) -> dict[str, Any]:
    style = [_STYLES[mark] for mark in sorted(run.marks) if mark in _STYLES]
    made = _text(text)
    if run.url.startswith(_WEB):
        made = {"tag": "a", "text": text, "href": run.url}
    elif run.url and run.url != text:
        made = _text(f"{text} ({run.url})")
    return {**made, "style": style} if style else made


def _text(text: str) -> dict[str, Any]:
    return {"tag": "text", "text": text}


def _blank() -> Paragraph:
    return [_text("")]
