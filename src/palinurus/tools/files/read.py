"""The read tool: a window of a text file, an image, or what a binary file is.

Bounded by lines and bytes whatever the file's size; says where to go on. Knows files, not the model.
"""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from typing import Annotated

import msgspec

from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.buffers import view_buffer
from palinurus.tools.files.paths import ResolvedPath, resolve_path, shorten_path
from palinurus.tools.results import parse_handle, read_result_page

LINES = 2000
BYTES = 50 * 1024
MAX_IMAGE = 3_750_000  # bytes; 5 MB as base64, what providers take
_CHUNK = 1 << 20
_COUNT = 64 << 20  # bytes read on to learn the number of lines
_HINT = 300  # characters kept free for the continuation hint
_BOM = b"\xef\xbb\xbf"

_IMAGES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FORMATS: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "zip archive (or docx, xlsx, jar)"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\xff\xfe", "UTF-16 text (convert it with iconv)"),
    (b"\xfe\xff", "UTF-16 text (convert it with iconv)"),
)


class LineWindow(msgspec.Struct, frozen=True):
    """Lines of a file. `total` is None when the end was too far away to count."""

    data: bytes
    lines: int
    total: int | None
    more: bool
    long: int  # size of a first line that alone is over the limit, else 0


@define_tool(
    "read",
    description=(
        f"Read a file. Text comes from line `offset` on, at most {LINES} lines or {BYTES // 1024} KB, with the offset "
        "to continue at. Images (jpg, png, gif, webp) are shown. A path `result:…` is a tool result shown only in part."
    ),
    effect="pure",
    summary=("path", "file_path"),
    aliases={"path": "file_path file filename", "offset": "start_line line"},
)
async def read_file(
    ctx: ToolContext,
    path: Annotated[str, "File, relative to the workspace or absolute; or result:…"],
    offset: Annotated[int, "First line to read, counted from 1"] = 1,
    limit: Annotated[int, "How many lines at most"] = LINES,
) -> ToolOutput:
    room = max(min(BYTES, ctx.settings.result_chars - _HINT), 200)
    first, count = max(offset, 1), min(max(limit, 1), LINES)
    if handle := parse_handle(path):
        return await read_result_page(ctx, handle, (first, count, room))
    place = resolve_path(path, ctx, reading=True)
    with handles.open_file(place) as (opened, status):
        seen = await view_buffer(ctx, place, opened)
        if seen.text is None:
            return _annotate(await _shown(place, opened, status.st_size, (first, count, room)), seen.note)
        with seen.open() as other:
            return _annotate(await _shown(place, other, len(seen.text), (first, count, room)), seen.note)


def _annotate(output: ToolOutput, note: str) -> ToolOutput:
    if not note:
        return output
    return msgspec.structs.replace(output, content=(*output.content, TextBlock(f"\n\n{note}")))


async def _shown(place: ResolvedPath, opened: int, size: int, wanted: tuple[int, int, int]) -> ToolOutput:
    stop = threading.Event()
    if size < handles.SMALL_FILE:
        return _contents(place, opened, size, wanted, stop=stop)
    work = asyncio.ensure_future(asyncio.to_thread(_contents, place, opened, size, wanted, stop))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        # the thread still holds the handle: it must leave before that is closed
        stop.set()
        await asyncio.wait({work})
        raise


def _contents(
    place: ResolvedPath, handle: int, size: int, wanted: tuple[int, int, int], stop: threading.Event
) -> ToolOutput:
    head = os.read(handle, 8192)
    mime = detect_image_type(head)
    if mime:
        return _picture(place, handle, head, mime, size=size)
    if b"\x00" in head:
        return make_output(_described(place, head, size), {"path": place.real, "binary": True, "bytes": size})
    first, count, room = wanted
    window = read_lines(handle, head, wanted, stop)
    if window.long:
        return make_output(
            f"[Line {first} of {shorten_path(place.given)} is {window.long} bytes or more, over the limit of {room}. "
            f"Use exec to see a part, e.g. sed -n '{first}p' FILE | head -c {room}]"
        )
    if window.lines == 0 and (window.total or 0) < first and not (first == 1 and not window.total):
        raise ToolFailure(f"offset {first} is beyond the end: {shorten_path(place.given)} has {window.total} lines")
    text = window.data.decode("utf-8", "replace").replace("\r\n", "\n")
    if not text and first == 1 and not window.more:
        return make_output("(empty file)", {"path": place.real, "lines": 0})
    return make_output(
        text + _hint(window, first, count), {"path": place.real, "lines": window.lines, "total": window.total}
    )


def _hint(window: LineWindow, first: int, count: int) -> str:
    if not window.more:
        return ""
    last = first + window.lines - 1
    whole = f" of {window.total}" if window.total is not None else ""
    gap = "" if window.data.endswith(b"\n") else "\n"
    return f"{gap}\n[Lines {first}-{last}{whole}. Continue with offset={last + 1}.]"


def read_lines(handle: int, head: bytes, wanted: tuple[int, int, int], stop: threading.Event) -> LineWindow:
    """The lines from `first`, at most `count` and `room` bytes. `head` is what was read already."""
    first, count, room = wanted
    chunk = head[3:] if head.startswith(_BOM) else head
    skip, kept, at, tail = first - 1, bytearray(), 0, b""
    while chunk and not stop.is_set():
        if skip:
            newlines = chunk.count(b"\n")
            if newlines < skip:
                skip -= newlines
                tail, chunk = chunk[-1:], os.read(handle, _CHUNK)
                continue
            for _ in range(skip):
                at = chunk.index(b"\n", at) + 1
            skip, chunk, at = 0, chunk[at:], 0
        kept += chunk
        if len(kept) > room or kept.count(b"\n") > count:
            break
        tail, chunk = chunk[-1:], os.read(handle, _CHUNK)
    if skip:
        return LineWindow(b"", 0, first - 1 - skip + (tail not in (b"", b"\n")), False, long=0)
    return _window(handle, bytes(kept), wanted, stop)


def _window(handle: int, kept: bytes, wanted: tuple[int, int, int], stop: threading.Event) -> LineWindow:
    first, count, room = wanted
    end = lines = 0
    while lines < count and end < len(kept):
        newline = kept.find(b"\n", end)
        after = newline + 1 if newline >= 0 else len(kept)
        if after - (newline >= 0) > room:
            break
        end, lines = after, lines + 1
    if lines == 0 and kept:
        return LineWindow(b"", 0, None, True, long=len(kept) if kept.find(b"\n") < 0 else kept.find(b"\n"))
    rest = _remaining(handle, kept[end:], stop)
    total = None if rest is None else first - 1 + lines + rest
    return LineWindow(kept[:end], lines, total, rest is None or rest > 0, long=0)


def _remaining(handle: int, chunk: bytes, stop: threading.Event) -> int | None:
    """How many lines follow; None when that is too much to read."""
    newlines, seen, last = 0, 0, b""
    while chunk:
        newlines += chunk.count(b"\n")
        seen += len(chunk)
        last = chunk[-1:]
        if seen > _COUNT or stop.is_set():
            return None
        chunk = os.read(handle, _CHUNK)
    return newlines + (last not in (b"", b"\n"))


def detect_image_type(head: bytes) -> str:
    """The mime type by the file's first bytes; names lie. "" if it is no image we can show."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _IMAGES if head.startswith(magic)), "")


def _picture(place: ResolvedPath, handle: int, head: bytes, mime: str, size: int) -> ToolOutput:
    label = f"[{mime}, {size} bytes: {shorten_path(place.given)}]"
    details = {"path": place.real, "mimeType": mime, "bytes": size}
    if size > MAX_IMAGE:
        return make_output(f"{label} Too large to show: at most {MAX_IMAGE} bytes. Make a smaller copy first.", details)
    data = head + handles.read_bytes(handle, MAX_IMAGE)
    return ToolOutput((TextBlock(label), ImageBlock(base64.b64encode(data).decode(), mime)), details)


def _described(place: ResolvedPath, head: bytes, size: int) -> str:
    name = next((words for magic, words in _FORMATS if head.startswith(magic)), "unknown format")
    return f"[binary file {shorten_path(place.given)}: {name}, {size} bytes; begins {head[:24].hex(' ')}]"
