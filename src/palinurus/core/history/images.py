"""Images of a conversation: where a text names some, and when those of old turns give way to a mark. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from palinurus.core.types.messages import Image, Message, Text, ToolResult, User

FADED = "[image of an earlier turn, no longer included]"
KEEP = 3  # turns whose images stay
_END = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?|heic|heif)(?![\w/])", re.I)
_START = re.compile(r"(?<![\w./~:-])(?:file://|\.{0,2}/|~/)", re.I)
# Each form takes a stretch no other of its kind can begin in, so that hostile texts take no longer than others.
_MARK = re.compile(r"\[(?:media attached|image)[^\[\]\n:]{0,40}:([^\[\]\n]{1,4096})\]", re.I)
_QUOTED = re.compile(r"[\"'`<]([^\"'`<>\n]{1,4096})(?=[\"'`>])")
_WORD = re.compile(r"[^\s\"'`<>()\[\]|]+")
_DATA = re.compile(r"data:(image/[a-z+.-]{1,40});base64,([A-Za-z0-9+/]{16,}={0,2})", re.I)


class Mentions(NamedTuple):
    """What a text names: `paths` as written (without file://), inline images, and the text with those taken out."""

    paths: tuple[str, ...]
    inline: tuple[Image, ...]
    text: str


def mentions(text: str) -> Mentions:
    """The images a text names, each once, in order."""
    inline = tuple(dict.fromkeys(Image(found[2], found[1].lower()) for found in _DATA.finditer(text)))
    bare = _DATA.sub("[image]", text) if inline else text
    found = [*_named(bare, _MARK, anywhere=True), *_named(bare, _QUOTED), *_named(bare, _WORD)]
    named = dict.fromkeys(_path(name) for _, name in sorted(found))
    named.pop("", None)
    return Mentions(tuple(named), inline, bare)


def _named(text: str, form: re.Pattern[str], *, anywhere: bool = False) -> Iterator[tuple[int, str]]:
    """Position and name of each image in stretches of this form. A mark may hold any path, other texts must show
    that it is one by how it begins.
    """
    if _END.search(text) is None:
        return
    for match in form.finditer(text):
        group = 1 if form.groups else 0
        inner = match[group]
        start = None if anywhere else _START.match(inner) if group else _START.search(inner)
        end = _END.search(inner, start.end() if start else 0)
        while (start or anywhere) and end:
            begin = start.start() if start else 0
            yield match.start(group) + begin, inner[begin : end.end()]
            start = None if group else _START.search(inner, end.end())
            end = _END.search(inner, start.end()) if start else None
            if not start:
                break


def _path(name: str) -> str:
    name = name.strip()
    if name.lower().startswith("source:"):
        name = name[len("source:") :].strip()
    if name.lower().startswith("file://"):
        host, slash, rest = name[len("file://") :].partition("/")
        return unquote(f"/{rest}") if slash and host in ("", "localhost") else ""
    return "" if "://" in name else name


def fade(messages: Sequence[Message], keep: int = KEEP) -> tuple[Message, ...]:
    """The history with the images of all but the last `keep` turns replaced by a mark."""
    turns = [at for at, message in enumerate(messages) if isinstance(message, User)]
    border = len(messages) if keep <= 0 else turns[-keep] if len(turns) > keep else 0
    return tuple(_faded(m) if at < border else m for at, m in enumerate(messages))


def _faded(message: Message) -> Message:
    if not isinstance(message, User | ToolResult) or isinstance(message.content, str):
        return message
    if not any(isinstance(block, Image) for block in message.content):
        return message
    content = tuple(Text(FADED) if isinstance(block, Image) else block for block in message.content)
    return msgspec.structs.replace(message, content=content)
