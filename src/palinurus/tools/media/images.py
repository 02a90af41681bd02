"""The image_generate tool: pictures made or changed by a model, kept in the workspace and sent along. The port asks the
model; pictures to go by are read like those of the image tool."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from palinurus.core.media import MAX_IMAGE_SOURCE, read_dimensions
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.model import ImageOrder, SourceImage
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.patterns import compile_late
from palinurus.tasks import finish_in_thread
from palinurus.tools.define import bind_tools, define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path
from palinurus.tools.files.read import detect_image_type
from palinurus.tools.web.egress import EgressGuard
from palinurus.tools.web.media import ImageShrinker, load_media

FOLDER = "images"  # of the workspace
MOST = 4  # pictures of one call
SOURCES = 5  # to go by
PREVIEW = 256 << 10  # bytes of what the model sees of it
_UNSAFE = compile_late(r"[^a-z0-9]+")


class MadePictures(msgspec.Struct, frozen=True):
    """The pictures and who made them; `spent` is the ledger's, `notes` are for the model."""

    images: tuple[bytes, ...]
    model: str
    spent: dict[str, Any]
    notes: tuple[str, ...] = ()


class PicturePort(Protocol):
    """Who makes pictures (`app/media.py` makes one)."""

    def list_models(self, agent: str) -> list[str]: ...

    async def draw(self, order: ImageOrder, agent: str, session: str) -> MadePictures:
        """Raises ToolFailure when nobody could."""
        ...


class GenerateArguments(msgspec.Struct, frozen=True):
    """The arguments of a call."""

    prompt: Annotated[str, "What the picture shows, in detail"] = ""
    action: Annotated[Literal["generate", "list", "status"], "list: which models there are"] = "generate"
    image: Annotated[str, "A picture to change or go by: path, address or data: URL"] = ""
    images: Annotated[tuple[str, ...], f"Several of them, at most {SOURCES}"] = ()
    model: Annotated[str, "provider/model to ask instead of the usual one"] = ""
    count: Annotated[int, Meta(ge=1, le=MOST, description="How many")] = 1
    size: Annotated[str, Meta(pattern=r"^(auto|\d{2,5}x\d{2,5})?$", description="Such as 1536x1024")] = ""
    aspectRatio: Annotated[str, Meta(pattern=r"^(\d{1,2}:\d{1,2})?$", description="Such as 16:9")] = ""
    resolution: Literal["", "1K", "2K", "4K"] = ""
    quality: Literal["", "low", "medium", "high", "auto"] = ""
    outputFormat: Literal["", "png", "jpeg", "webp"] = ""
    background: Literal["", "transparent", "opaque", "auto"] = ""
    filename: Annotated[str, "What to call the file"] = ""
    timeoutMs: Annotated[int, Meta(ge=0, le=600_000)] = 0


@define_tool("image_generate", summary=("prompt", "action"), aliases={"prompt": "description text", "images": "paths"})
async def _generate(
    port: PicturePort, egress: EgressGuard, shrink: ImageShrinker | None, /, ctx: ToolContext, args: GenerateArguments
) -> ToolOutput:
    """Make a picture from a description, or change pictures you name. The files are kept in the workspace and sent to
    the person along with your answer."""
    if args.action != "generate":
        models = port.list_models(ctx.agent)
        running = "" if args.action == "list" else "Nothing is under way: a call answers when its pictures are there. "
        return make_output(f"{running}Models: {', '.join(models) or 'none'}.", {"models": models})
    if not args.prompt.strip():
        raise ToolFailure("prompt is empty: say what the picture shows")
    made = await port.draw(await _order(args, ctx, egress), ctx.agent, ctx.session)
    files: list[str] = []
    shown: list[ImageBlock] = []
    for at, data in enumerate(made.images[:MOST]):
        kind = detect_image_type(data[:32])
        if not kind:
            raise ToolFailure(f"{made.model} answered with something that is no picture")
        files.append(await _keep(args, ctx, data, kind, number=at))
        if (small := await asyncio.to_thread(_preview, data, kind, shrink)) is not None:
            shown.append(small)
    places = ", ".join(os.path.relpath(path, ctx.workspace) for path in files)
    text = "\n".join((f"Made with {made.model}: {places}. Sent to the person; do not send it again.", *made.notes))
    details = {"media": files, "model": made.model, "spent": made.spent}
    return ToolOutput((TextBlock(text), *shown), details)


async def _order(args: GenerateArguments, ctx: ToolContext, egress: EgressGuard) -> ImageOrder:
    names = list(dict.fromkeys(name.strip() for name in (args.image, *args.images) if name.strip()))
    if len(names) > SOURCES:
        raise ToolFailure(f"{len(names)} pictures to go by are too many: at most {SOURCES}")
    sources: list[SourceImage] = []
    for name in names:
        found = await load_media(name, ctx, egress, MAX_IMAGE_SOURCE)
        if not (kind := detect_image_type(found.data[:32])):
            raise ToolFailure(f"{found.name} is not a PNG, JPEG, GIF or WebP image")
        sources.append(SourceImage(kind, found.data))
    return ImageOrder(
        args.prompt.strip(),
        args.count,
        args.size,
        args.aspectRatio,
        resolution=args.resolution,
        quality=args.quality,
        format=args.outputFormat,
        background=args.background,
        images=tuple(sources),
        model=args.model.strip(),
        timeout=args.timeoutMs / 1000 or None,
    )


async def _keep(args: GenerateArguments, ctx: ToolContext, data: bytes, kind: str, number: int) -> str:
    """Under a name of its own: of the call and what it holds."""
    stem, _ = os.path.splitext(os.path.basename(args.filename.replace("\\", "/")))
    words = _UNSAFE.sub("-", (stem or args.prompt).lower()).strip("-")[:40].strip("-") or "picture"
    mark = hashlib.blake2s(f"{ctx.item}\0{ctx.call}\0{number}".encode(), digest_size=4).hexdigest()
    place = resolve_path(f"{FOLDER}/{words}-{mark}.{kind[6:].replace('jpeg', 'jpg')}", ctx)
    async with handles.lock_path(place):
        await finish_in_thread(handles.replace_file, place, data)
    return place.real


def _preview(data: bytes, kind: str, shrink: ImageShrinker | None) -> ImageBlock | None:
    """What the model and the page see of it; None where it cannot be made small."""
    small: bytes | str = data if len(data) <= PREVIEW and max(read_dimensions(data, kind)) <= 2048 else ""
    if not small and shrink is not None:
        small = shrink(data, PREVIEW)
    if not isinstance(small, bytes) or not (found := detect_image_type(small[:32])):
        return None
    return ImageBlock(base64.b64encode(small).decode(), found)


def make_image_generation_tool(
    port: PicturePort | None, egress: EgressGuard, shrink: ImageShrinker | None
) -> dict[str, Tool]:
    """The tool, by its name; empty where nobody makes pictures."""
    return bind_tools((_generate,), port, egress, shrink) if port is not None else {}
