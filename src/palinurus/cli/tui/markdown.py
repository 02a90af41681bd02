"""Markdown as lines of a given width, and where the last block that may still grow begins. Pure.

Textual's own widget makes a widget of every paragraph and cell, which costs a long answer a second per 6 kB; a line
costs a fraction of that. Nothing in a text acts: markup and HTML are letters, a link is copied by a click.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len
from textual.content import Content
from textual.highlight import HighlightTheme, highlight
from textual.style import Style

from palinurus.cli.tui.told import DIFF_STYLES

Lines = list[Content]

LONG_FENCE = 60  # lines of code that are drawn once for all before the fence is closed
NARROW = 8  # columns a cell of a table gets at least


_CODE = {
    "Token.Comment": "dim italic",
    "Token.Keyword": "bold $accent",
    "Token.Literal.Number": "$warning",
    "Token.Literal.String": "$success",
    "Token.Name.Attribute": "$warning",
    "Token.Name.Builtin": "$primary",
    "Token.Name.Class": "bold",
    "Token.Name.Decorator": "$primary",
    "Token.Name.Function": "$primary",
    "Token.Name.Tag": "$primary",
    "Token.Operator.Word": "bold $accent",
}


class CodeColours(HighlightTheme):
    """Few colours, which every theme has, also one of 16."""

    STYLES: dict[tuple[str, ...], str] = {  # noqa: RUF012 - as its parent declares it
        kind: _CODE[repr(kind)] for kind in HighlightTheme.STYLES if repr(kind) in _CODE
    }


@cache
def _parser() -> MarkdownIt:
    """GitHub's Markdown, but a bare `NOTES.md` is a file and no address."""
    return MarkdownIt("gfm-like", {"linkify": False}).disable("linkify")


def draw_markdown(text: str, width: int) -> Lines:
    """The whole of it, wrapped to `width`."""
    root = SyntaxTreeNode(_parser().parse(text))
    return _stack(root.children, max(10, width), tight=False)


class OpenBlock(NamedTuple):
    """The part of a text that more text may change: where it begins, what has to stand before it when it is drawn alone
    (the first line of a fence that was cut in two), and whether a blank line parts it from what is above."""

    start: int = 0
    before: str = ""
    apart: bool = False


def find_open_block(text: str) -> OpenBlock:
    """The last block; of a list its last row, of a long fence its last lines."""
    tokens = _parser().parse(text)
    last = next((token for token in reversed(tokens) if token.level == 0 and token.map is not None), None)
    if last is None or last.map is None:
        return OpenBlock()
    lines, start = text.splitlines(keepends=True), last.map[0]
    if last.type == "fence" and (fresh := len(lines) - start - 2) > LONG_FENCE:
        return OpenBlock(sum(map(len, lines[: start + 1 + fresh // LONG_FENCE * LONG_FENCE])), lines[start])
    apart = start > 0
    if last.type.endswith("list_open"):  # rows that are whole do not change any more
        start = next(
            (t.map[0] for t in reversed(tokens) if t.type == "list_item_open" and t.level == 1 and t.map), start
        )
        apart = start > 0 and not lines[start - 1].strip()
    return OpenBlock(sum(map(len, lines[:start])), "", apart)


def _stack(nodes: Iterable[SyntaxTreeNode], width: int, *, tight: bool) -> Lines:
    """Blocks one below the other, a blank line between them."""
    found: Lines = []
    for node in nodes:
        lines = _draw(node, width)
        if found and lines and not tight:
            found.append(Content(""))
        found += lines
    return found


def _draw(node: SyntaxTreeNode, width: int) -> Lines:
    kind = node.type
    if kind == "paragraph":
        return _wrap(_inline(node.children), width)
    if kind == "heading":
        style = "bold underline" if node.tag == "h1" else "bold $primary" if node.tag == "h2" else "bold"
        return _wrap(_inline(node.children).stylize(style), width)
    if kind in ("fence", "code_block"):
        return draw_code(node.content, node.info.split()[0] if node.info.strip() else "", width)
    if kind in ("bullet_list", "ordered_list"):
        return _list(node, width)
    if kind == "blockquote":
        bar = Content.styled("▌ ", "$primary")
        return [Content.assemble(bar, line.stylize("italic")) for line in _stack(node.children, width - 2, tight=False)]
    if kind == "table":
        return _table(node, width)
    if kind == "hr":
        return [Content.styled("─" * min(width, 40), "dim")]
    return _wrap(Content(node.content), width) if node.content else _stack(node.children, width, tight=False)


def _wrap(content: Content, width: int) -> Lines:
    if not content.plain:
        return []
    if not content.plain.isascii() or "\t" in content.plain:
        return content.wrap(width)
    return [part for line in content.split(allow_blank=True) for part in _wrap_letters(line, width)]


def _wrap_letters(line: Content, width: int) -> Lines:
    """As Textual does it, by places instead of words, which is many times faster: every letter is one column wide."""
    text, at, cuts = line.plain.rstrip(), 0, []
    while len(text) - at > width:
        space = text.rfind(" ", at, at + width + 1)
        at = at + width if space < at else len(text) - len(text[space:].lstrip(" "))
        cuts.append(at)
    return [part.rstrip() for part in line.divide(cuts)]


def draw_code(code: str, language: str, width: int) -> Lines:
    """Code, two columns in; a line that is too long goes on below, and a diff has its colours."""
    code = code.rstrip("\n").expandtabs(4)
    if language == "diff":
        lines = [Content.styled(line, DIFF_STYLES.get(line[:1], "")) for line in code.split("\n")]
    elif language:
        lines = highlight(code, language=language, theme=CodeColours).split("\n", allow_blank=True)
    else:
        lines = [Content(line) for line in code.split("\n")]
    return [Content.assemble("  ", part) for line in lines for part in (line.fold(width - 2) if line else [line])]


def _list(node: SyntaxTreeNode, width: int) -> Lines:
    number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
    found: Lines = []
    for item in node.children:
        mark = f"{number}. " if node.type == "ordered_list" else "• "
        number += 1
        tight = all(child.hidden for child in item.children if child.type == "paragraph")
        lines = _stack(item.children, max(10, width - len(mark)), tight=tight) or [Content("")]
        if found and not tight:
            found.append(Content(""))
        found += [
            Content.assemble(Content.styled(mark, "$primary") if at == 0 else " " * len(mark), line)
            for at, line in enumerate(lines)
        ]
    return found


# --- tables: as narrow as what is in them


def _table(node: SyntaxTreeNode, width: int) -> Lines:
    rows = [list(row.children) for part in node.children for row in part.children]
    cells = [[_inline(cell.children) for cell in row] for row in rows]
    ends = ["right" if "right" in str(c.attrs.get("style", "")) else "left" for c in rows[0]]
    room = _share([max(_widest(row[at]) for row in cells) for at in range(len(ends))], width - 3 * len(ends) + 3)
    found: Lines = []
    for at, row in enumerate(cells):
        found += _row([cell.stylize("bold") for cell in row] if at == 0 else row, room, ends)
        if at == 0:
            found.append(Content.styled("─┼─".join("─" * one for one in room), "dim"))
    return found


def _widest(cell: Content) -> int:
    return max((cell_len(line) for line in cell.plain.split("\n")), default=0)


def _share(wanted: list[int], room: int) -> list[int]:
    """Widths of columns that fit into `room`: the widest give first."""
    found = [max(1, one) for one in wanted]
    while sum(found) > room and max(found) > NARROW:
        found[found.index(max(found))] -= 1
    return found


def _row(cells: Sequence[Content], room: Sequence[int], ends: Sequence[str]) -> Lines:
    drawn = [cell.wrap(wide) if cell.plain else [Content("")] for cell, wide in zip(cells, room, strict=False)]
    height = max(map(len, drawn), default=0)
    found: Lines = []
    for at in range(height):
        parts: list[Content] = []
        for lines, wide, end in zip(drawn, room, ends, strict=False):
            line = lines[at] if at < len(lines) else Content("")
            gap = " " * max(0, wide - line.cell_length)
            parts.append(Content.assemble(gap, line) if end == "right" else Content.assemble(line, gap))
        found.append(Content.styled(" │ ", "dim").join(parts))
    return found


# --- words


def _inline(nodes: Iterable[SyntaxTreeNode]) -> Content:
    return Content.assemble(
        *(_word(child) for node in nodes for child in (node.children if node.type == "inline" else [node]))
    )


_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


def _word(node: SyntaxTreeNode) -> Content:
    kind = node.type
    if kind in ("softbreak", "hardbreak"):
        return Content("\n")
    if kind == "code_inline":
        return Content.styled(node.content, "$accent")
    if kind in _STYLES:
        return _inline(node.children).stylize(_STYLES[kind])
    if kind == "link":
        href = str(node.attrs.get("href") or "")
        words = _inline(node.children)
        told = "" if href.removeprefix("mailto:") == words.plain else f" ({href})"
        return Content.assemble(words.stylize("underline"), told).stylize(
            Style.from_meta({"@click": ("app.copy_address", (href,))})
        )
    if kind == "image":
        return Content(f"[{node.content or 'picture'}] ({node.attrs.get('src') or ''})")
    return Content(node.content)
