"""Images a message names, loaded for models that see. Only from the workspace and roots the owner allowed; what is
not loaded is said in a note. Addresses are asked of whoever may fetch them, or left alone. What is larger than helps is
made smaller where that can be done, and refused where it is too large otherwise.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from palinurus.beneath import read_file_beneath, resolve_beneath
from palinurus.core.history.images import ImageMentions, find_image_addresses, find_image_mentions
from palinurus.core.media import IMAGES_EXTRA_HINT, MAX_IMAGE_SIDE, MAX_IMAGE_SOURCE, is_large_image
from palinurus.core.types.messages import ImageBlock
from palinurus.files import NotPlainFile

# An address and how many bytes at most -> what is there, or why not.
FetchImage: TypeAlias = Callable[[str, int], Awaitable[bytes | str]]


def keep_large(data: bytes, size: int, side: int) -> str:
    """Nobody makes images smaller here."""
    return IMAGES_EXTRA_HINT


class ImageLimits(msgspec.Struct, frozen=True):
    """`roots` besides the workspace; `home` is what ~ means. Sizes in bytes."""

    roots: tuple[str, ...] = ()
    home: str = ""
    each: int = 5 * 1024 * 1024
    total: int = 20 * 1024 * 1024
    most: int = 8  # images of one message
    side: int = MAX_IMAGE_SIDE  # pixels
    # A smaller one, by size and side, or why there is none.
    shrink: Callable[[bytes, int, int], bytes | str] = keep_large  # in a process of its own (tools/web/shrink.py)
    fetch: FetchImage | None = None  # None: addresses are only text


class LoadedImages(NamedTuple):
    """What was loaded, what was not and why, and the text without the data of inline images."""

    images: tuple[ImageBlock, ...]
    notes: tuple[str, ...]
    text: str
    fetched: tuple[str, ...] = ()  # the addresses that were asked


_CONVERTED = (b"BM", b"II*\x00", b"MM\x00*")  # BMP and TIFF: models do not read them, our decoder does
# First bytes -> what models read.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


async def find_images(text: str, workspace: str, limits: ImageLimits, vision: bool = True) -> LoadedImages:
    """The images `text` names. A model without eyes gets the text as it is."""
    if not vision or ("/" not in text and "[" not in text):
        return LoadedImages((), (), text)
    named = find_image_mentions(text)
    asked = find_image_addresses(named.text)[: limits.most] if limits.fetch is not None else ()
    if not named.paths and not named.inline and not asked:
        return LoadedImages((), (), text)
    got = await asyncio.gather(*(limits.fetch(url, MAX_IMAGE_SOURCE) for url in asked)) if limits.fetch else []
    seen = await asyncio.to_thread(_load, named, list(zip(asked, got, strict=True)), workspace, limits)
    return seen._replace(fetched=asked)


async def resize_images(images: tuple[ImageBlock, ...], limits: ImageLimits) -> LoadedImages:
    """The images a message came with, as they can be sent."""
    if not images:
        return LoadedImages((), (), "")
    return await asyncio.to_thread(_resized, images, limits)


def _resized(images: tuple[ImageBlock, ...], limits: ImageLimits) -> LoadedImages:
    kept: list[ImageBlock] = []
    notes: list[str] = []
    for image in images:
        raw = _decoded(image.data, MAX_IMAGE_SOURCE)
        data = raw if isinstance(raw, str) else _fitting(raw, limits)
        if isinstance(data, str):
            notes.append(f"an image that came with the message: {data}")
        else:
            made = ImageBlock(base64.b64encode(data).decode(), sniff_image(data) or image.mimeType)
            kept.append(image if data is raw else made)
    return LoadedImages(tuple(kept), tuple(notes), "")


def _load(
    named: ImageMentions, fetched: list[tuple[str, bytes | str]], workspace: str, limits: ImageLimits
) -> LoadedImages:
    images: dict[str, ImageBlock] = {}
    notes: list[str] = []
    used = 0
    given = [(f"an inline image ({image.mimeType})", _decoded(image.data, MAX_IMAGE_SOURCE)) for image in named.inline]
    allowed = (workspace, *limits.roots)
    real = dict.fromkeys(_real(path, workspace, limits.home) for path in named.paths)
    for name, raw in (*given, *fetched, *((path, _read(path, allowed, MAX_IMAGE_SOURCE)) for path in real)):
        data = raw if isinstance(raw, str) else _fitting(raw, limits)
        if isinstance(data, str):
            notes.append(f"{name}: {data}")
        elif (kind := sniff_image(data)) is None:
            notes.append(f"{name}: not a PNG, JPEG, GIF or WebP image")
        elif len(images) >= limits.most or used + len(data) > limits.total:
            notes.append(f"{name}: left out, this message has too many images")
        else:
            encoded = base64.b64encode(data).decode()
            used += len(data) if encoded not in images else 0
            images[encoded] = ImageBlock(encoded, kind)
    return LoadedImages(tuple(images.values()), tuple(notes), named.text)


def _fitting(data: bytes, limits: ImageLimits) -> bytes | str:
    """The image as it can be sent, or why not."""
    kind = sniff_image(data)
    foreign = kind is None and data.startswith(_CONVERTED)
    if not foreign and (kind is None or not is_large_image(data, kind, limits.each, limits.side)):
        return data
    made = limits.shrink(data, limits.each, limits.side)
    if isinstance(made, bytes):
        return made
    if kind is not None and len(data) <= limits.each:
        return data  # many pixels, but providers take it
    return f"{'not a PNG, JPEG, GIF or WebP image' if foreign else _over(limits.each)}; {made}"


def _over(cap: int) -> str:
    return f"larger than {cap // 1024} KiB"


def _real(path: str, workspace: str, home: str) -> str:
    if path.startswith("~/"):
        path = os.path.join(home, path[2:]) if home else path
    return os.path.realpath(os.path.join(workspace, path.replace("\x00", "")))


def _read(real: str, allowed: Iterable[str], cap: int) -> bytes | str:
    """The bytes, or why not. The same answer for what is outside, whether it is there or not."""
    root, inner = next(((root, inner) for root in allowed if (inner := resolve_beneath(root, real))), ("", ""))
    if not inner:
        return "outside the workspace"
    try:
        return read_file_beneath(root, inner, cap)
    except NotPlainFile:
        return _over(cap) if os.path.isfile(real) else "not a file"
    except OSError as exc:
        return exc.strerror or "cannot be read"


def _decoded(data: str, cap: int) -> bytes | str:
    if len(data) > cap * 4 // 3 + 4:
        return _over(cap)
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return "is not base64"


def sniff_image(data: bytes) -> str | None:
    """What kind of image these bytes are, by the bytes; None if models do not read it."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
