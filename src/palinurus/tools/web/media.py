"""The image and pdf tools: what pictures show, asked of a model that sees, and the text of PDFs, read by a child.

Both take files the tools may read, which go through `paths` and `handles` like those of the read tool, addresses of the
web, which go through the egress guard, and data: URLs. Knows no provider.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Protocol, TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from palinurus.config.sections.web import PdfSettings
from palinurus.core.media import IMAGES_EXTRA_HINT, MAX_IMAGE_SOURCE, is_large_image, read_dimensions
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput
from palinurus.core.untrusted import clean_label, wrap_untrusted
from palinurus.patterns import compile_late
from palinurus.tools.define import bind_tools, define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.paths import ResolvedPath, resolve_path, shorten_path
from palinurus.tools.files.read import detect_image_type
from palinurus.tools.web.egress import EgressGuard, FetchLimits, FetchRequest
from palinurus.tools.web.reader import FormatReader

MAX_PDFS = 10  # papers of one call
PAGES = PdfSettings().pages  # of one paper
_SECONDS = 60.0
_PART = compile_late(r"(\d{1,6})(?:\s*-\s*(\d{1,6})?)?")

MAX_IMAGES = 20
SIZE_MB = 5.0  # of one image: what providers take
PIXELS = 64_000_000
# Bytes and how many are allowed -> a smaller image, or why there is none. `shrink.shrink_image` is one.
ImageShrinker: TypeAlias = Callable[[bytes, int], bytes | str]
PROMPT = "Describe the image."


class MediaBytes(msgspec.Struct, frozen=True):
    """`source` is where it came from, as taint names it."""

    name: str
    data: bytes
    source: str


async def load_media(raw: str, ctx: ToolContext, egress: EgressGuard, size: int) -> MediaBytes:
    """What `raw` names, at most `size` bytes. Raises ToolFailure."""
    given = raw.strip().removeprefix("@")
    low = given[:8].lower()
    if low.startswith("data:"):
        return MediaBytes("inline data", _inline(given, size), "file")
    if low.startswith(("http://", "https://")):
        came = await egress.get(FetchRequest(given), FetchLimits(size))
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
    data = handles.read_whole(place, size + 1)
    if len(data) > size:
        raise ToolFailure(f"{clean_label(place.given)} is larger than {_mb(size)}")
    return data


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


def collect_references(one: str, many: Iterable[str], most: int, what: str) -> list[str]:
    """The references of a call, each once. Raises ToolFailure for none and for too many."""
    found = list(dict.fromkeys(text.strip() for text in (one, *many) if text.strip()))
    if not found:
        raise ToolFailure(f"name at least one {what}")
    if len(found) > most:
        raise ToolFailure(f"{len(found)} of them are too many: at most {most}")
    return found


class PaperReader(Protocol):
    """A model that answers questions about papers. `providers.vision.VisionModel` is one."""

    @property
    def reads(self) -> bool: ...

    async def answer(self, text: str, prompt: str, agent: str, session: str) -> tuple[str, str]: ...


class PaperSource(msgspec.Struct, frozen=True):
    """What the pdf tool reads with."""

    papers: FormatReader
    egress: EgressGuard
    rules: PdfSettings = PdfSettings()
    reader: PaperReader | None = None


@define_tool(
    "pdf",
    description="",  # says how many pages are read at once: `make_pdf_tool`
    effect="pure",
    summary=lambda args: shorten_path(str(args.get("pdf") or next(iter(args.get("pdfs") or ()), ""))),
    aliases={"pdf": "path url file_path file", "pdfs": "paths"},
)
async def _pdf(
    source: PaperSource,
    /,
    ctx: ToolContext,
    pdf: Annotated[str, "Path or address"] = "",
    pdfs: Annotated[tuple[str, ...], f"Several, at most {MAX_PDFS}"] = (),
    pages: Annotated[str, "Such as 1-3,7 or 10-"] = "",
    prompt: Annotated[str, "What you want to know; the text comes back, you answer"] = "",
) -> ToolOutput:
    names = collect_references(pdf, pdfs, MAX_PDFS, "PDF")
    rules, wanted = source.rules, parse_pages(pages, source.rules.pages)
    room = max((ctx.settings.result_chars - 600) // len(names), 500)
    texts, details, sources = list[str](), list[dict[str, Any]](), set[str]()
    for name in names:
        found = await load_media(name, ctx, source.egress, rules.size)
        if not found.data[:1024].lstrip().startswith(b"%PDF-"):
            raise ToolFailure(f"{found.name} is not a PDF")
        told = {"wanted": wanted, "most": rules.pages, "chars": room}
        read = await source.papers.ask("extract", told, found.data, _SECONDS)
        shown = [one["page"] for one in read["pages"]]
        sources.add(found.source)
        details.append({"pdf": found.name, "pages": shown, "total": read["total"], "title": clean_label(read["title"])})
        texts.append(_laid(found.name, read, wanted))
    text, told = "\n\n".join(texts), {"documents": details}
    if prompt.strip() and source.reader is not None and source.reader.reads:
        text, told["model"] = await source.reader.answer(text, prompt, ctx.agent, ctx.session)
    text = wrap_untrusted(text, "pdf", secrets.token_hex(16))
    return ToolOutput((TextBlock(text),), told, source="web" if "web" in sources else "file")


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


def parse_pages(text: str, most: int = PAGES) -> list[int]:
    """`1-3, 7, 10-` as page numbers, at most `most`; [] = from the first on. Raises ToolFailure."""
    found: dict[int, None] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None or int(match[1]) < 1:
            raise ToolFailure(f"pages {text[:40]!r} cannot be read; write it as 1-3,7 or 10-")
        first = int(match[1])
        last = int(match[2]) if match[2] else first + most - 1 if "-" in part else first
        if last < first:
            raise ToolFailure(f"pages {text[:40]!r}: {part} runs backwards")
        found |= dict.fromkeys(range(first, min(last, first + most - 1) + 1))
    return list(found)[:most]


class ImageDescriber(Protocol):
    """A model that sees. `providers.vision.VisionModel` is one."""

    async def describe(
        self, images: tuple[ImageBlock, ...], prompt: str, model: str, agent: str, session: str
    ) -> tuple[str, str]:
        """The answer and which model gave it; `model` "" = the one for images. Raises ToolFailure when none could."""
        ...


class ImageArguments(msgspec.Struct, frozen=True):
    """The arguments of a call."""

    prompt: Annotated[str, "What to find out; without it the image is described"] = ""
    image: Annotated[str, "Path, address or data: URL"] = ""
    images: Annotated[tuple[str, ...], f"Several, at most {MAX_IMAGES}"] = ()
    model: Annotated[str, "provider/model to ask instead of the usual one"] = ""
    maxBytesMb: Annotated[float, f"Refuse larger images ({SIZE_MB:g})"] = 0
    maxImages: Annotated[int, Meta(ge=1, description="Refuse more than this many")] = MAX_IMAGES


@define_tool(
    "image",
    effect="pure",
    summary=lambda args: shorten_path(str(args.get("image") or next(iter(args.get("images") or ()), ""))),
    aliases={"image": "path url file_path", "prompt": "question", "images": "paths"},
)
async def _image(
    vision: ImageDescriber,
    egress: EgressGuard,
    shrink: ImageShrinker | None,
    /,
    ctx: ToolContext,
    args: ImageArguments,
) -> ToolOutput:
    """Ask a model that sees about one or more images: files of the workspace, http(s) addresses or data: URLs (png,
    jpg, gif, webp). Not needed for images you already see in the conversation."""
    size = int(max(args.maxBytesMb, 0.01) * (1 << 20)) if args.maxBytesMb else MAX_IMAGE_SOURCE
    names = collect_references(args.image, args.images, min(args.maxImages, MAX_IMAGES), "image")
    images, sources = list[ImageBlock](), set[str]()
    for name in names:
        found = await load_media(name, ctx, egress, min(size, MAX_IMAGE_SOURCE))
        images.append(_checked(found.name, await asyncio.to_thread(_fitting, found.name, found.data, shrink)))
        sources.add(found.source)
    prompt = args.prompt.strip() or PROMPT
    text, model = await vision.describe(tuple(images), prompt, args.model, ctx.agent, session=ctx.session)
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


def make_pdf_tool(source: PaperSource | None) -> dict[str, Tool]:
    """The tool, by name; empty when what reads PDFs is not installed."""
    if source is None:
        return {}
    said = (
        "Read the text of PDFs: files of the workspace or http(s) addresses. At most "
        f"{source.rules.pages} pages at a time; choose them with `pages`."
    )
    return bind_tools((msgspec.structs.replace(_pdf, description=said),), source)


def make_image_tool(
    vision: ImageDescriber | None, egress: EgressGuard, shrink: ImageShrinker | None = None
) -> dict[str, Tool]:
    """The tool, by name; empty without a model that sees. Without `shrink` large images are refused."""
    return bind_tools((_image,), vision, egress, shrink) if vision is not None else {}
