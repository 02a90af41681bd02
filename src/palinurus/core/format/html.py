"""Platforms that take HTML: Telegram's few tags, and Matrix's org.matrix.custom.html.

Every run opens and closes its own tags, so what is written is balanced by construction; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from palinurus.core.format.tree import MARKS, MarkdownBlock, TextMark, TextRun, join_blocks, write_flat_block


class HtmlTags(msgspec.Struct, frozen=True):
    """How one platform names things. `lines`: what ends a line outside of code."""

    marks: Mapping[TextMark, tuple[str, str]]
    lines: str
    rich: bool  # real lists, headings and rules; otherwise they are text


def _tags(bold: str, italic: str, strike: str, spoiler: str, spoiler_end: str) -> dict[TextMark, tuple[str, str]]:
    pairs = [(f"<{tag}>", f"</{tag}>") for tag in (bold, italic, strike)]
    return dict(zip(MARKS, [*pairs, (f"<{spoiler}>", f"</{spoiler_end}>")], strict=True))


TELEGRAM = HtmlTags(_tags("b", "i", "s", "tg-spoiler", "tg-spoiler"), "\n", False)
MATRIX = HtmlTags(_tags("strong", "em", "del", "span data-mx-spoiler", "span"), "<br>", True)


def escape_html(text: str) -> str:
    """As text between tags, or inside a quoted attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def write_html(blocks: tuple[MarkdownBlock, ...], to: HtmlTags, *, inside: bool = False) -> str:
    """The whole text. `inside` a quote, where Telegram allows neither code nor links."""
    return _rich(blocks, to) if to.rich else join_blocks(blocks, lambda block: _flat(block, to, inside))


def _flat(block: MarkdownBlock, to: HtmlTags, inside: bool) -> str:
    if block.kind == "code":
        text = escape_html(block.runs[0].text)
        label = f'<code class="language-{escape_html(block.label)}">{text}</code>' if block.label else text
        return text if inside else f"<pre>{label}</pre>"
    if block.kind == "quote":
        return f"<blockquote>{write_html(block.inner, to, inside=True)}</blockquote>"
    return write_flat_block(block, lambda runs: _line(runs, to, inside))


def _line(runs: tuple[TextRun, ...], to: HtmlTags, inside: bool = False) -> str:
    return "".join(_run(run, to, inside) for run in runs)


def _run(run: TextRun, to: HtmlTags, inside: bool) -> str:
    text = escape_html(run.text).replace("\n", to.lines)
    if run.code:
        return text if inside else f"<code>{text}</code>"
    if run.url and inside and run.url != run.text:
        text = f"{text} ({escape_html(run.url)})"
    elif run.url and not inside and (to.rich or run.url != run.text):
        text = f'<a href="{escape_html(run.url)}">{text}</a>'
    for mark in MARKS:
        if mark in run.marks and mark in to.marks and run.text.strip():
            before, after = to.marks[mark]
            text = f"{before}{text}{after}"
    return text


def _rich(blocks: tuple[MarkdownBlock, ...], to: HtmlTags) -> str:
    out: list[str] = []
    lists: list[str] = []  # the closing tags of the lists that are open
    last = ""
    for block in blocks:
        if block.kind == "item":
            _item(block, to, lists, out)
        else:
            out += reversed(lists)
            lists = []
            out.append(_block(block, to, last))
        last = block.kind
    return "".join([*out, *reversed(lists)])


def _item(block: MarkdownBlock, to: HtmlTags, lists: list[str], out: list[str]) -> None:
    """One item: lists are opened and closed so that it stands as deep as it should."""
    tag = "ul" if block.label == "•" else "ol"
    while len(lists) > block.level + 1 or (len(lists) == block.level + 1 and lists[-1] != f"</{tag}>"):
        out.append(lists.pop())
    while len(lists) <= block.level:
        start = f' start="{int(block.label[:-1])}"' if tag == "ol" and block.label != "1." else ""
        out.append(f"<{tag}{start}>")
        lists.append(f"</{tag}>")
    out.append(f"<li>{_line(block.runs, to)}</li>")


def _block(block: MarkdownBlock, to: HtmlTags, last: str) -> str:
    if block.kind == "code":
        text = escape_html(block.runs[0].text)
        language = f' class="language-{escape_html(block.label)}"' if block.label else ""
        return f"<pre><code{language}>{text}\n</code></pre>"
    if block.kind == "rule":
        return "<hr>"
    if block.kind == "quote":
        return f"<blockquote>{_rich(block.inner, to)}</blockquote>"
    line = _line(block.runs, to)
    if block.kind == "heading":
        return f"<h{block.level}>{line}</h{block.level}>"
    return f"{'<br>' if last == 'text' and not block.gap else ''}<p>{line}</p>"
