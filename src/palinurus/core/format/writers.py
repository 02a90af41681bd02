"""Platforms that format with signs in the text: Slack, Discord, WhatsApp, and those that do not format at all.

Each is a row of a table. None of them can nest or escape everything, so signs stand only where they will be read as
signs: not inside words, not beside blanks. Where they could not, the text goes without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.format.tree import MARKS, MarkdownBlock, TextMark, TextRun, join_blocks, write_flat_block
from palinurus.patterns import compile_late

SpanStyle: TypeAlias = Literal["BOLD", "ITALIC", "STRIKETHROUGH", "MONOSPACE", "SPOILER"]
_STYLES: tuple[SpanStyle, ...] = ("BOLD", "ITALIC", "STRIKETHROUGH", "SPOILER")  # of MARKS
_THIN = "\u200b"  # takes apart what would end a code block
_EDGES = compile_late(r"(\s*)(.*?)(\s*)", re.DOTALL)


class MarkupDialect(msgspec.Struct, frozen=True):
    """How one platform writes."""

    marks: Mapping[TextMark, str]
    code: str  # around code in a line; "" for nothing
    fence: str  # around a block of code; "" for nothing
    language: bool  # may stand behind the fence
    link: Callable[[str, str], str]  # (label, written; address)
    escape: Callable[[str], str]
    literal: Callable[[str], str]  # inside code
    inwords: bool = False  # signs work in the middle of a word
    heading: str = "bold"  # "signs": with # up to level 3
    bullet: str = "•"


def _escape_tags(text: str) -> str:
    return escape(text, quote=False)


def _same(text: str) -> str:
    return text


_SIGNS = compile_late(r"([\\`*_~|\[\]]|^[ \t]*(?=>|#{1,3} |-# |>>> ))", re.MULTILINE)


def _backslashed(text: str) -> str:
    return _SIGNS.sub(lambda found: f"\\{found[1]}" if found[1].strip() else f"{found[1]}\\", text)


def _slack_link(label: str, url: str) -> str:
    address = _escape_tags(url).replace("|", "%7C")
    return f"<{address}>" if label == _escape_tags(url) else f"<{address}|{label.replace('|', '¦')}>"


def _discord_link(label: str, url: str) -> str:
    if label == _backslashed(url):
        return url
    return f"[{label}]({url.replace('(', '%28').replace(')', '%29')})"


def _beside(label: str, url: str) -> str:
    return url if label == url else f"{label} ({url})"


SLACK = MarkupDialect(
    {"bold": "*", "italic": "_", "strike": "~"}, "`", "```", False, _slack_link, _escape_tags, _escape_tags
)
DISCORD = MarkupDialect(
    {"bold": "**", "italic": "*", "strike": "~~", "spoiler": "||"}, "`", "```", True, _discord_link, _backslashed,
    _same, inwords=True, heading="signs", bullet="-",
)  # fmt: skip
WHATSAPP = MarkupDialect(
    {"bold": "*", "italic": "_", "strike": "~"}, "`", "```", False, _beside, _same, _same, bullet="-"
)
PLAIN = MarkupDialect({}, "", "", False, _beside, _same, _same)


def write_dialect(blocks: tuple[MarkdownBlock, ...], to: MarkupDialect) -> str:
    """The whole text."""
    return join_blocks(blocks, lambda block: _block(block, to))


def _block(block: MarkdownBlock, to: MarkupDialect) -> str:
    if block.kind == "code":
        return _fenced(block, to)
    if block.kind == "quote":
        return "\n".join(f"> {line}" for line in write_dialect(block.inner, to).split("\n"))
    if block.kind == "heading" and to.heading == "signs" and block.level <= 3:
        return f"{'#' * block.level} {_line(block.runs, to)}"
    return write_flat_block(block, lambda runs: _line(runs, to), to.bullet)


def _fenced(block: MarkdownBlock, to: MarkupDialect) -> str:
    text = block.runs[0].text
    if not to.fence:
        return text
    label = re.sub(r"[^\w+#.-]", "", block.label) if to.language else ""
    return f"{to.fence}{label}\n{to.literal(text).replace('```', f'``{_THIN}`')}\n{to.fence}"


def _line(runs: tuple[TextRun, ...], to: MarkupDialect) -> str:
    shown = "".join(run.text for run in runs)
    out: list[str] = []
    start = 0
    for run in runs:
        end = start + len(run.text)
        out.append(_run(run, to, shown[start - 1 : start] if start else "", shown[end : end + 1]))
        start = end
    return "".join(out)


def _run(run: TextRun, to: MarkupDialect, before: str, after: str) -> str:
    if run.code:
        bare = not to.code or to.code in run.text or "\n" in run.text
        return to.escape(run.text) if bare else f"{to.code}{to.literal(run.text)}{to.code}"
    if run.url:
        body = to.link(to.escape(run.text), run.url)
        before = after = ""  # a link has its own signs around it
    else:
        body = to.escape(run.text)
    signs = [to.marks[mark] for mark in MARKS if mark in run.marks and mark in to.marks]
    edges = _EDGES.fullmatch(body)
    if not signs or edges is None or not edges[2]:
        return body
    left, inner, right = edges.groups()
    free = to.inwords or not ((not left and before.isalnum()) or (not right and after.isalnum()))
    if not free or "\n" in inner:
        return body
    return f"{left}{''.join(signs)}{inner}{''.join(reversed(signs))}{right}"


# --- Signal: plain text and, beside it, which parts look how; positions count UTF-16 units ---------------------------


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
        marks = run.marks | {"bold"} if heading and not run.code else run.marks
        styles += [style for mark, style in zip(MARKS, _STYLES, strict=True) if mark in marks]
        self.spans += [StyleSpan(start, length, style) for style in styles if length]

    def _add(self, text: str) -> None:
        self.text.append(text)
        self._at += count_utf16(text)
