"""What Telegram makes of parse_mode=HTML: the text people read, or the error it gives. Pure."""

from __future__ import annotations

import html
import re

TAGS = frozenset(
    ("b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "span", "tg-spoiler", "a", "code", "pre",
     "blockquote", "tg-emoji")
)  # fmt: skip

_TAG = re.compile(r"<(/?)([a-z-]*)((?:\s[^<>]*)?)>", re.IGNORECASE)
_ENTITY = re.compile(r"&(lt|gt|amp|quot|#\d{1,7}|#x[0-9a-fA-F]{1,6});")


class TelegramHtmlError(ValueError):
    """The description that Telegram answers with."""


def strip_html(source: str) -> str:
    """The text without its tags. Raises Unreadable as Telegram refuses."""
    out: list[str] = []
    stack: list[str] = []
    at = 0
    while (start := source.find("<", at)) >= 0:
        out.append(_plain(source[at:start]))
        tag = _TAG.match(source, start)
        offset = len(source[:start].encode())
        if tag is None:
            raise TelegramHtmlError(f'can\'t parse entities: Unsupported start tag "" at byte offset {offset}')
        closing, name, rest = tag[1], tag[2].lower(), tag[3]
        if closing:
            if not stack:
                raise TelegramHtmlError(f"can't parse entities: Unexpected end tag at byte offset {offset}")
            expected = stack.pop()
            if name and name != expected:
                raise TelegramHtmlError(
                    f"can't parse entities: Unmatched end tag at byte offset {offset}, "
                    f'expected "</{expected}>", found "</{name}>"'
                )
        elif name not in TAGS or (name == "span" and "tg-spoiler" not in rest):
            raise TelegramHtmlError(f'can\'t parse entities: Unsupported start tag "{name}" at byte offset {offset}')
        else:
            stack.append(name)
        at = tag.end()
    out.append(_plain(source[at:]))
    if stack:
        raise TelegramHtmlError(f"can't parse entities: Can't find end tag corresponding to start tag \"{stack[-1]}\"")
    return "".join(out)


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)
