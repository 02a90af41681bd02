"""The one entrance of this folder: Markdown and a platform's way of formatting -> what is sent, and how long it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec

from palinurus.core.format import html, writers
from palinurus.core.format.blocks import parse_blocks
from palinurus.core.format.tree import MarkdownBlock
from palinurus.core.format.writers import StyleSpan, count_utf16
from palinurus.core.types.channel import ChannelAbilities, Markup
from palinurus.patterns import compile_late

_CONTROLS = compile_late(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")  # no platform takes them


class RenderedText(msgspec.Struct, frozen=True):
    """`text` is what is sent. `html` only for Matrix (its formatted_body; "" if there is nothing to format), `spans`
    only for Signal."""

    text: str
    html: str = ""
    spans: tuple[StyleSpan, ...] = ()


def _matrix(tree: tuple[MarkdownBlock, ...]) -> RenderedText:
    body = writers.write_dialect(tree, writers.PLAIN)
    rich = html.write_html(tree, html.MATRIX)
    if len(tree) == 1 and tree[0].kind == "text":
        rich = rich.removeprefix("<p>").removesuffix("</p>")
    return RenderedText(body, "" if rich == html.escape_html(body) else rich)


def _signal(tree: tuple[MarkdownBlock, ...]) -> RenderedText:
    text, found = writers.write_spans(tree)
    return RenderedText(text, "", found)


_WRITERS: dict[Markup, Callable[[tuple[MarkdownBlock, ...]], RenderedText]] = {
    "telegram": lambda tree: RenderedText(html.write_html(tree, html.TELEGRAM)),
    "slack": lambda tree: RenderedText(writers.write_dialect(tree, writers.SLACK)),
    "discord": lambda tree: RenderedText(writers.write_dialect(tree, writers.DISCORD)),
    "whatsapp": lambda tree: RenderedText(writers.write_dialect(tree, writers.WHATSAPP)),
    "matrix": _matrix,
    "signal": _signal,
    "irc": lambda tree: RenderedText(writers.write_dialect(tree, writers.PLAIN)),
    "plain": lambda tree: RenderedText(writers.write_dialect(tree, writers.PLAIN)),
}
_ESCAPED: dict[Markup, Callable[[str], str]] = {
    "telegram": html.escape_html,
    "slack": writers.SLACK.escape,
    "discord": writers.DISCORD.escape,
}


@lru_cache(maxsize=64)
def render_markdown(text: str, markup: Markup) -> RenderedText:
    """What the platform is sent for `text`. Something that can be read goes out for all that could be read."""
    text = _CONTROLS.sub(_control, text)
    if markup == "markdown":
        return RenderedText(text)
    tree = parse_blocks(text)
    made = _WRITERS[markup](tree)
    if not tree and text.strip():  # nothing but marks
        return RenderedText(_ESCAPED.get(markup, str)(text.strip()))
    return made


def _control(found: re.Match[str]) -> str:
    return "\n" if found.group() in "\x0b\x0c" else "" if found.group() < "\x80" else "\ufffd"


_UNITS: dict[str, Callable[[str], int]] = {
    "characters": len,
    "utf16": count_utf16,
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
}


def measure_plain(text: str, abilities: ChannelAbilities) -> int:
    """How long the platform finds a text that goes as it is."""
    return _UNITS[abilities.unit](text)


def measure_markdown(text: str, abilities: ChannelAbilities) -> int:
    """How long the platform finds `text` (Markdown), in its own unit: Telegram counts what is read, Matrix both forms
    of a message, others what is sent."""
    count = _UNITS[abilities.unit]
    if abilities.markup == "telegram":
        return count(render_markdown(text, "signal").text)
    made = render_markdown(text, abilities.markup)
    return count(made.text) + count(made.html)
