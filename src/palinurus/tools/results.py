"""What leaves a tool: text that can be stored and fits, binary described, images of a size that providers take.

A text that does not fit is kept whole beside the transcript, under a handle that `read` pages, before the shortened
one is handed on: who has seen the mark will find the file. Such files are named after the transcript and their
content, so a session reaches only its own; upkeep removes them. The rules are `core.history.truncate`'s.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import msgspec

from palinurus.core.history import truncate
from palinurus.core.text import repair_surrogates
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.files import write_whole_file
from palinurus.patterns import compile_late

log = logging.getLogger(__name__)

MAX_KEPT = 16_000_000  # characters
MAX_IMAGE = 7_000_000  # base64 characters; providers refuse more
_INLINE = 100_000  # characters handled on the event loop; more goes to a thread
MAX_DETAILS = 64_000  # bytes of JSON kept beside a result
_NAME = compile_late(r"result:\s*([0-9a-f]{16})")


def keep_result(results: str, text: str) -> str:
    """Keep `text`, whole or not at all, 0600. Returns its handle; "" where nothing is kept, or the disk refuses.

    To be called before anybody is told of the handle. The same text is kept once.
    """
    if not results or len(text) > MAX_KEPT:
        return ""
    handle = truncate.make_result_handle(text)
    file = results + handle
    try:
        if os.path.exists(file):
            os.utime(file)  # young again: upkeep goes by age
            return handle
        os.makedirs(os.path.dirname(file), 0o700, exist_ok=True)
        write_whole_file(file, text.encode())
    except OSError as exc:
        log.warning("a whole tool result is not kept: %s", exc.strerror)
        return ""
    return handle


def parse_handle(path: str) -> str:
    """The handle that `path` is; "" if it is a path."""
    found = _NAME.fullmatch(path.strip())
    return found[1] if found else ""


async def read_result_page(ctx: ToolContext, handle: str, wanted: tuple[int, int, int]) -> ToolOutput:
    """`wanted`: first line, how many, and characters at most. Raises ToolFailure."""
    name = f"{truncate.HANDLE_PREFIX}{handle}"
    if not ctx.settings.results:
        raise ToolFailure(f"{name}: no results are kept here")
    try:
        text = await asyncio.to_thread(_load, ctx.settings.results + handle)
    except FileNotFoundError:
        raise ToolFailure(f"{name} is not kept (any more) in this session; call the tool again") from None
    except OSError as exc:
        raise ToolFailure(f"{name} cannot be read: {exc.strerror}") from None
    first, count, room = wanted
    lines = truncate.split_pages(text)
    if first > len(lines):
        raise ToolFailure(f"offset {first} is beyond the end: {name} has {len(lines)} lines")
    last, size = first - 1, 0
    while last < len(lines) and last - first + 1 < count and size + len(lines[last]) <= max(room, truncate.PAGE_WIDTH):
        size += len(lines[last])
        last += 1
    shown = "".join(lines[first - 1 : last])
    if last < len(lines):
        gap = "" if shown.endswith("\n") else "\n"
        shown += f"{gap}\n[Lines {first}-{last} of {len(lines)}. Continue with offset={last + 1}.]"
    return make_output(shown, {"handle": handle, "lines": last - first + 1, "total": len(lines)})


def _load(file: str) -> str:
    fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb") as data:
        return data.read().decode("utf-8", "replace")


async def fit_content(
    content: tuple[TextBlock | ImageBlock, ...], limit: int, results: str = ""
) -> tuple[TextBlock | ImageBlock, ...]:
    """The blocks with `limit` characters of text altogether. Small clean results come back as they are.

    `results` is how the names of kept files begin (`ToolSettings.results`). If the disk does not take one, the text is
    shortened all the same and names no file.
    """
    clean = tuple(_clean(block) for block in content)
    texts = [block.text for block in clean if isinstance(block, TextBlock)]
    if sum(map(len, texts)) <= limit:
        return clean
    text = "\n".join(texts)
    short = (
        await asyncio.to_thread(_short, text, limit, results) if len(text) > _INLINE else _short(text, limit, results)
    )
    return (TextBlock(short), *(block for block in clean if isinstance(block, ImageBlock)))


def _short(text: str, limit: int, results: str) -> str:
    text = truncate.indent_json(text)
    return truncate.shorten_result(text, limit, keep_result(results, text))


def fit_rows(body: dict[str, Any], name: str, room: int) -> dict[str, Any]:
    """`body` with as many of its rows under `name` as fit as JSON into `room` characters; `leftOut` counts the others.

    A cut in the middle would be no JSON any more."""
    total = len(body[name])
    while (rows := body[name]) and len(msgspec.json.encode(body).decode()) > room:
        body = {**body, name: rows[:-1], "leftOut": total - len(rows) + 1}
    return body


def limit_details(value: Any) -> Any:
    """Details as JSON can hold them, or a note of what they were when they are too large or no JSON at all."""
    if value is None:
        return None
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return {"omitted": f"not storable: {type(value).__name__}"}
    return value if size <= MAX_DETAILS else {"omitted": f"{size} bytes"}


def _clean(block: TextBlock | ImageBlock) -> TextBlock | ImageBlock:
    if isinstance(block, ImageBlock):
        return block if len(block.data) <= MAX_IMAGE else TextBlock(f"[image left out: {len(block.data)} characters]")
    text = repair_surrogates(block.text)
    if truncate.is_binary(text):
        return TextBlock(f"[binary data, {len(text)} characters, not shown]")
    return block if text is block.text else TextBlock(text)
