"""The image tool: asks a model that sees about images from files, addresses or inline data. Knows no provider."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

import msgspec

from palinurus.core.pictures import IMAGES_EXTRA_HINT, MAX_IMAGE_SOURCE, is_large_image, read_dimensions
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput
from palinurus.core.untrusted import wrap_untrusted
from palinurus.tools.paths import shorten_path
from palinurus.tools.read import detect_image_type
from palinurus.tools.web.door import EgressGuard
from palinurus.tools.web.material import collect_references, load_media

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
