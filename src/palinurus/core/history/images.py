"""Images of a conversation: where a text names some, and when those of old turns give way to a mark. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, TextBlock, UserMessage
from palinurus.patterns import compile_late

FADED_IMAGE = "[image of an earlier turn, no longer included]"
KEEP = 3  # turns whose images stay
_END = compile_late(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?|heic|heif)(?![\w/])", re.I)
_START = compile_late(r"(?<![\w./~:-])(?:file://|\.{0,2}/|~/)", re.I)
# Each form takes a stretch no other of its kind can begin in, so that hostile texts take no longer than others.
_MARK = compile_late(r"\[(?:media attached|image)[^\[\]\n:]{0,40}:([^\[\]\n]{1,4096})\]", re.I)
_QUOTED = compile_late(r"[\"'`<]([^\"'`<>\n]{1,4096})(?=[\"'`>])")
_WORD = compile_late(r"[^\s\"'`<>()\[\]|]+")
_DATA = compile_late(r"data:(image/[a-z+.-]{1,40});base64,([A-Za-z0-9+/]{16,}={0,2})", re.I)


# An address counts where a person would see a picture by its name; anything else is for the tools that fetch.
_ADDRESS = compile_late(r"https?://[^\s\"'`<>()\[\]|?#]{1,1000}(?:\?[^\s\"'`<>()\[\]|#]{0,1000})?", re.I)
_SEEN = compile_late(r"\.(?:png|jpe?g|gif|webp)(?:\?|\Z)", re.I)


def find_image_addresses(text: str) -> tuple[str, ...]:
    """The web addresses of images in a text, each once, in order."""
    if "://" not in text:
        return ()
    found = (address.rstrip(".,;:!?") for address in _ADDRESS.findall(text))
    return tuple(dict.fromkeys(address for address in found if _SEEN.search(address)))


class ImageMentions(NamedTuple):
    """What a text names: `paths` as written (without file://), inline images, and the text with those taken out."""

    paths: tuple[str, ...]
    inline: tuple[ImageBlock, ...]
    text: str


def find_image_mentions(text: str) -> ImageMentions:
    """The images a text names, each once, in order."""
    inline = tuple(dict.fromkeys(ImageBlock(found[2], found[1].lower()) for found in _DATA.finditer(text)))
    bare = _DATA.sub("[image]", text) if inline else text
    found = [*_named(bare, _MARK, anywhere=True), *_named(bare, _QUOTED), *_named(bare, _WORD)]
    named = dict.fromkeys(_path(name) for _, name in sorted(found))
    named.pop("", None)
    return ImageMentions(tuple(named), inline, bare)


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


class Budget(msgspec.Struct, frozen=True):
    """What one request may carry of images. Over it the oldest give way, down to half, so that it happens rarely."""

    turns: int = KEEP
    images: int = 20
    chars: int = 16_000_000  # of base64; providers take requests of 20 to 50 MB


def find_image_border(messages: Sequence[Message], budget: Budget) -> int:
    """Where the messages begin that keep their images.

    Messages must come with all images they ever had: if those of old turns or pruned results were not counted, one that
    had given way could come back.
    """
    return max(_recent(messages, budget.turns), _over(messages, budget))


def fade_images(messages: Sequence[Message], before: int) -> tuple[Message, ...]:
    """The history with every image before that position replaced by a mark."""
    return (*map(_faded, messages[:before]), *messages[before:]) if before else tuple(messages)


def _recent(messages: Sequence[Message], keep: int) -> int:
    """Where the last `keep` turns begin."""
    turns = [at for at, message in enumerate(messages) if type(message) is UserMessage]
    return len(messages) if keep <= 0 else turns[-keep] if len(turns) > keep else 0


def _over(messages: Sequence[Message], budget: Budget) -> int:
    """Where the messages begin whose images are within the budget."""
    held: deque[tuple[int, int, int]] = deque()  # messages that have images: position, images, characters
    count = chars = begin = 0
    for at, message in enumerate(messages):
        if type(message) is AssistantMessage or type(message.content) is str:
            continue
        sizes = [len(block.data) for block in message.content if type(block) is ImageBlock]
        if not sizes:
            continue
        held.append((at, len(sizes), sum(sizes)))
        count, chars = count + len(sizes), chars + sum(sizes)
        if count <= budget.images and chars <= budget.chars:
            continue
        while len(held) > 1 and (count * 2 > budget.images or chars * 2 > budget.chars):
            last, fewer, less = held.popleft()
            begin, count, chars = last + 1, count - fewer, chars - less
    return begin


def _faded(message: Message) -> Message:
    if isinstance(message, AssistantMessage) or isinstance(message.content, str):
        return message
    if ImageBlock not in [type(block) for block in message.content]:
        return message
    content = tuple(TextBlock(FADED_IMAGE) if isinstance(block, ImageBlock) else block for block in message.content)
    return msgspec.structs.replace(message, content=content)
