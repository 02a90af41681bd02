"""The image tool: asks a model that sees about images from files, addresses or inline data. Knows no provider."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote

import msgspec

from palinurus.core.media import IMAGES_EXTRA_HINT, MAX_IMAGE_SOURCE, is_large_image, read_dimensions
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput
from palinurus.core.untrusted import clean_label, wrap_untrusted
from palinurus.tools.files import handles
from palinurus.tools.files.paths import ResolvedPath, resolve_path, shorten_path
from palinurus.tools.files.read import detect_image_type
from palinurus.tools.web.egress import EgressGuard, FetchLimits, FetchRequest
from palinurus.tools.web.reader import FormatReader

# The bytes an argument names: a file the tools may read, an address of the web, or a data: URL.
#
# Files go through `paths` and `files` like those of the read tool, addresses through the door.

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
    with handles.open_file(place) as (handle, status):
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


# The pdf tool: the text of PDFs, page by page, from files or addresses. The reading itself is done by a child.

MAX_PDFS = 10  # papers of one call
PAGES = 20  # of one paper
MAX_PDF_BYTES = 10 << 20
_SECONDS = 60.0
_PART = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6})?)?")


def make_pdf_tool(papers: FormatReader | None, door: EgressGuard) -> dict[str, Tool]:
    """The tool, by name; empty when what reads PDFs is not installed."""
    if papers is None:
        return {}
    return {_pdf_TOOL.name: msgspec.structs.replace(_pdf_TOOL, run=partial(_pdf, papers, door))}


async def _pdf(papers: FormatReader, door: EgressGuard, ctx: ToolContext, **args: Any) -> ToolOutput:
    """Raises ToolFailure."""
    names = collect_references(args.get("pdf"), args.get("pdfs"), MAX_PDFS, "PDF")
    wanted = parse_pages(str(args.get("pages") or ""))
    room = max((ctx.settings.result_chars - 600) // len(names), 500)
    texts, details, sources = list[str](), list[dict[str, Any]](), set[str]()
    for name in names:
        found = await load_media(name, ctx, door, MAX_PDF_BYTES)
        if not found.data[:1024].lstrip().startswith(b"%PDF-"):
            raise ToolFailure(f"{found.name} is not a PDF")
        told = {"wanted": wanted, "most": PAGES, "chars": room}
        read = await papers.ask("extract", told, found.data, _SECONDS)
        shown = [one["page"] for one in read["pages"]]
        sources.add(found.source)
        details.append({"pdf": found.name, "pages": shown, "total": read["total"], "title": clean_label(read["title"])})
        texts.append(_laid(found.name, read, wanted))
    text = wrap_untrusted("\n\n".join(texts), "pdf", secrets.token_hex(16))
    source = "web" if "web" in sources else "file"
    return ToolOutput((TextBlock(text),), {"documents": details}, source=source)


def _laid(name: str, read: dict[str, Any], wanted: list[int]) -> str:
    total, parts = int(read["total"]), []
    for one in read["pages"]:
        parts.append(f"[Page {one['page']} of {total}]\n{one['text'] or '(no text on this page: it may be a picture)'}")
    if not parts:
        parts.append(f"(none of the pages asked for exists; there are {total})" if wanted else "(no pages)")
    last = read["pages"][-1]["page"] if read["pages"] else 0
    if last < total and not wanted:
        parts.append(f"[{total - last} more pages; continue with pages={last + 1}-]")
    return f"{name}\n" + "\n\n".join(parts)


def parse_pages(text: str) -> list[int]:
    """`1-3, 7, 10-` as page numbers, at most `PAGES`; [] = from the first on. Raises ToolFailure."""
    found: dict[int, None] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None or int(match[1]) < 1:
            raise ToolFailure(f"pages {text[:40]!r} cannot be read; write it as 1-3,7 or 10-")
        first = int(match[1])
        last = int(match[2]) if match[2] else first + PAGES - 1 if "-" in part else first
        if last < first:
            raise ToolFailure(f"pages {text[:40]!r}: {part} runs backwards")
        found |= dict.fromkeys(range(first, min(last, first + PAGES - 1) + 1))
    return list(found)[:PAGES]


async def _nothing(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("PDFs cannot be read here: pip install 'palinurus[pdf]'")


_pdf_TOOL = Tool(
    name="pdf",
    description=(
        f"Read the text of PDFs: files of the workspace or http(s) addresses. At most {PAGES} pages at a time; choose "
        "them with `pages`."
    ),
    parameters={
        "type": "object",
        "properties": {
            "pdf": {"type": "string", "description": "Path or address"},
            "pdfs": {"type": "array", "items": {"type": "string"}, "description": f"Several, at most {MAX_PDFS}"},
            "pages": {"type": "string", "description": "Such as 1-3,7 or 10-"},
            "prompt": {"type": "string", "description": "What you want to know; the text comes back, you answer"},
        },
    },
    run=_nothing,
    effect="pure",
    summary=lambda args: shorten_path(str(args.get("pdf") or next(iter(args.get("pdfs") or ()), ""))),
    aliases={"path": "pdf", "url": "pdf", "file_path": "pdf", "file": "pdf", "paths": "pdfs"},
)


MAX_IMAGES = 20
SIZE_MB = 5.0  # of one image: what providers take
PIXELS = 64_000_000
# Bytes and how many are allowed -> a smaller image, or why there is none. `workspace.shrink.shrunk` is one.
ImageShrinker: TypeAlias = Callable[[bytes, int], bytes | str]
PROMPT = "Describe the image."


class ImageDescriber(Protocol):
    """A model that sees. `providers.vision.Eyes` is one."""

    async def describe(
        self, images: tuple[ImageBlock, ...], prompt: str, model: str, agent: str, session: str
    ) -> tuple[str, str]:
        """The answer and which model gave it; `model` "" = the one for images. Raises ToolFailure when none could."""
        ...


def make_image_tool(
    vision: ImageDescriber | None, door: EgressGuard, shrink: ImageShrinker | None = None
) -> dict[str, Tool]:
    """The tool, by name; empty without a model that sees. Without `shrink` large images are refused."""
    if vision is None:
        return {}
    return {_TOOL.name: msgspec.structs.replace(_TOOL, run=partial(_image, vision, door, shrink))}


async def _image(
    vision: ImageDescriber, door: EgressGuard, shrink: ImageShrinker | None, ctx: ToolContext, **args: Any
) -> ToolOutput:
    """Raises ToolFailure."""
    most = min(max(int(args.get("maxImages") or MAX_IMAGES), 1), MAX_IMAGES)
    asked = float(args.get("maxBytesMb") or 0)
    size = int(max(asked, 0.01) * (1 << 20)) if asked else MAX_IMAGE_SOURCE
    names = collect_references(args.get("image"), args.get("images"), most, "image")
    images, sources = list[ImageBlock](), set[str]()
    for name in names:
        found = await load_media(name, ctx, door, min(size, MAX_IMAGE_SOURCE))
        images.append(_checked(found.name, await asyncio.to_thread(_fitting, found.name, found.data, shrink)))
        sources.add(found.source)
    prompt = str(args.get("prompt") or "").strip() or PROMPT
    text, model = await vision.describe(tuple(images), prompt, str(args.get("model") or ""), ctx.agent, ctx.session)
    # What stands in a picture is said by whoever made the picture.
    source = "web" if "web" in sources else "file"
    details = {"model": model, "images": [name[:200] for name in names]}
    return ToolOutput((TextBlock(wrap_untrusted(text, "image", secrets.token_hex(16))),), details, source=source)


def _fitting(name: str, data: bytes, shrink: ImageShrinker | None) -> bytes:
    """The image as providers take it. Raises ToolFailure."""
    size = int(SIZE_MB * (1 << 20))
    kind = detect_image_type(data[:32])
    if not kind or not is_large_image(data, kind, size):
        return data
    made = shrink(data, size) if shrink is not None else f"is larger than {SIZE_MB:g} MB: {IMAGES_EXTRA_HINT}"
    if isinstance(made, str) and len(data) > size:
        raise ToolFailure(f"{name} {made}")
    return data if isinstance(made, str) else made


def _checked(name: str, data: bytes) -> ImageBlock:
    kind = detect_image_type(data[:32])
    if not kind:
        raise ToolFailure(f"{name} is not a PNG, JPEG, GIF or WebP image")
    wide, high = read_dimensions(data, kind)
    if wide * high > PIXELS:
        raise ToolFailure(f"{name} has {wide} x {high} pixels; at most {PIXELS // 1_000_000} million are looked at")
    return ImageBlock(base64.b64encode(data).decode(), kind)


async def _blind(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("there is no model that sees")


_TOOL = Tool(
    name="image",
    description=(
        "Ask a model that sees about one or more images: files of the workspace, http(s) addresses or data: URLs "
        "(png, jpg, gif, webp). Not needed for images you already see in the conversation."
    ),
    parameters={
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "What to find out; without it the image is described"},
            "image": {"type": "string", "description": "Path, address or data: URL"},
            "images": {"type": "array", "items": {"type": "string"}, "description": f"Several, at most {MAX_IMAGES}"},
            "model": {"type": "string", "description": "provider/model to ask instead of the usual one"},
            "maxBytesMb": {"type": "number", "description": f"Refuse larger images ({SIZE_MB:g})"},
            "maxImages": {"type": "integer", "minimum": 1, "description": "Refuse more than this many"},
        },
    },
    run=_blind,
    effect="pure",
    summary=lambda args: shorten_path(str(args.get("image") or next(iter(args.get("images") or ()), ""))),
    aliases={"path": "image", "url": "image", "file_path": "image", "question": "prompt", "paths": "images"},
)
