"""Images a message names, loaded for models that see. Only from the workspace and roots the owner allowed; what is
not loaded is said in a note. Nothing is fetched from the network, and nothing is resized.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from palinurus.core.history.images import mentions
from palinurus.core.types.messages import Image
from palinurus.workspace.texts import inside, whole


class ImageLimits(NamedTuple):
    """`roots` besides the workspace; `home` is what ~ means. Sizes in bytes."""

    roots: tuple[str, ...] = ()
    home: str = ""
    each: int = 5 * 1024 * 1024
    total: int = 20 * 1024 * 1024
    most: int = 8  # images of one message


class Found(NamedTuple):
    """What was loaded, what was not and why, and the text without the data of inline images."""

    images: tuple[Image, ...]
    notes: tuple[str, ...]
    text: str


# First bytes -> what models read. Other formats would need converting.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


async def found(text: str, workspace: str, limits: ImageLimits, vision: bool = True) -> Found:
    """The images `text` names. A model without eyes gets the text as it is."""
    if not vision or ("/" not in text and "[" not in text):
        return Found((), (), text)
    named = mentions(text)
    if not named.paths and not named.inline:
        return Found((), (), text)
    return await asyncio.to_thread(_load, named.paths, named.inline, named.text, workspace, limits)


def _load(paths: Iterable[str], inline: Iterable[Image], text: str, workspace: str, limits: ImageLimits) -> Found:
    images: dict[str, Image] = {}
    notes: list[str] = []
    used = 0
    given = [(f"an inline image ({image.mimeType})", _decoded(image.data, limits.each)) for image in inline]
    allowed = [os.path.realpath(root) for root in (workspace, *limits.roots)]
    real = dict.fromkeys(_real(path, workspace, limits.home) for path in paths)
    for name, data in (*given, *((path, _read(path, allowed, limits.each)) for path in real)):
        if isinstance(data, str):
            notes.append(f"{name}: {data}")
        elif (kind := sniff(data)) is None:
            notes.append(f"{name}: not a PNG, JPEG, GIF or WebP image")
        elif len(images) >= limits.most or used + len(data) > limits.total:
            notes.append(f"{name}: left out, this message has too many images")
        else:
            encoded = base64.b64encode(data).decode()
            used += len(data) if encoded not in images else 0
            images[encoded] = Image(encoded, kind)
    return Found(tuple(images.values()), tuple(notes), text)


def _real(path: str, workspace: str, home: str) -> str:
    if path.startswith("~/"):
        path = os.path.join(home, path[2:]) if home else path
    return os.path.realpath(os.path.join(workspace, path.replace("\x00", "")))


def _read(real: str, allowed: Iterable[str], cap: int) -> bytes | str:
    """The bytes, or why not. The same answer for what is outside, whether it is there or not."""
    if not any(inside(real, root) for root in allowed):
        return "outside the workspace"
    try:
        handle = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as exc:
        return exc.strerror or "cannot be read"
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return "not a file"
        data = whole(handle, cap + 1)
    except OSError as exc:
        return exc.strerror or "cannot be read"
    finally:
        os.close(handle)
    return f"larger than {cap // 1024} KiB" if len(data) > cap else data


def _decoded(data: str, cap: int) -> bytes | str:
    if len(data) > cap * 4 // 3 + 4:
        return f"larger than {cap // 1024} KiB"
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return "is not base64"


def sniff(data: bytes) -> str | None:
    """What kind of image these bytes are, by the bytes; None if models do not read it."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
