"""The bytes an argument names: a file the tools may read, an address of the web, or a data: URL.

Files go through `paths` and `files` like those of the read tool, addresses through the door.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from typing import NamedTuple
from urllib.parse import unquote

from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.core.untrusted import clean_label
from palinurus.tools import files
from palinurus.tools.paths import ResolvedPath, resolve_path
from palinurus.tools.web.door import EgressGuard, FetchLimits, FetchRequest

_CHUNK = 1 << 20


class MediaBytes(NamedTuple):
    """`source` is where it came from, as taint names it."""

    name: str
    data: bytes
    source: str


async def load_media(raw: str, ctx: ToolContext, door: EgressGuard, size: int) -> MediaBytes:
    """What `raw` names, at most `size` bytes. Raises ToolFailure."""
    given = raw.strip().removeprefix("@")
    low = given[:8].lower()
    if low.startswith("data:"):
        return MediaBytes("inline data", _inline(given, size), "file")
    if low.startswith(("http://", "https://")):
        came = await door.get(FetchRequest(given), FetchLimits(size))
        if came.status != 200:
            raise ToolFailure(f"{clean_label(given)} cannot be had (status {came.status})")
        if came.cut:
            raise ToolFailure(f"{clean_label(given)} is larger than {_mb(size)}")
        return MediaBytes(clean_label(given), came.data, "web")
    if low.startswith("file://"):
        given = unquote(given[7:])
    elif "://" in given[:40]:
        raise ToolFailure(f"{clean_label(given)}: only files, http and https addresses and data: URLs are read")
    place = resolve_path(given, ctx, reading=True)
    return MediaBytes(clean_label(given), await asyncio.to_thread(_file, place, size), "file")


def _file(place: ResolvedPath, size: int) -> bytes:
    with files.open_file(place) as (handle, status):
        if status.st_size > size:
            raise ToolFailure(f"{clean_label(place.given)} is larger than {_mb(size)}")
        data = bytearray()
        while len(data) <= size and (more := os.read(handle, _CHUNK)):
            data += more
    return bytes(data[:size])


def _inline(text: str, size: int) -> bytes:
    head, _, body = text.partition(",")
    if not head.lower().endswith(";base64"):
        raise ToolFailure("a data: URL must be base64")
    if len(body) > size * 4 // 3 + 4:
        raise ToolFailure(f"the inline data is larger than {_mb(size)}")
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error:
        raise ToolFailure("the inline data is not base64") from None


def _mb(size: int) -> str:
    return f"{size / (1 << 20):g} MB"


def collect_references(one: str | None, many: list[str] | None, most: int, what: str) -> list[str]:
    """The references of a call, each once. Raises ToolFailure for none and for too many."""
    found = list(dict.fromkeys(text.strip() for text in (one or "", *(many or ())) if text.strip()))
    if not found:
        raise ToolFailure(f"name at least one {what}")
    if len(found) > most:
        raise ToolFailure(f"{len(found)} of them are too many: at most {most}")
    return found
