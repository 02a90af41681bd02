"""What a canvas answers to the browser that draws it: its document, our script, and the files beside it."""

from __future__ import annotations

import asyncio
import os
from functools import cache

import msgspec

from palinurus.beneath import read_file_beneath
from palinurus.core.canvas import POLICY, add_bridge, build_a2ui_page
from palinurus.files import NotPlainFile, read_plain_file
from palinurus.tools.canvas.board import CanvasState
from palinurus.tools.canvas.offer import BRIDGE

MAX_FILE = 8 * 1024 * 1024  # bytes
SCRIPT = "__openclaw__/canvas.js"
PAGES, SURFACES = "__openclaw__/canvas/", "__openclaw__/a2ui/"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-DNS-Prefetch-Control": "off",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=(), display-capture=(), usb=()",
}
_TYPES: dict[str, str] = {
    ".html": "text/html", ".htm": "text/html", ".css": "text/css", ".js": "text/javascript",
    ".mjs": "text/javascript", ".json": "application/json", ".txt": "text/plain", ".csv": "text/csv",
    ".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".mp4": "video/mp4", ".webm": "video/webm",
}  # fmt: skip


class CanvasFile(msgspec.Struct, frozen=True):
    """One answer; the policy goes with every one of them."""

    type: str
    body: bytes


async def answer_canvas(state: CanvasState, path: str, base: str) -> CanvasFile | None:
    """What `path` below the capability is; None: nothing. `base` is the capability's own path, without a slash."""
    script = f"{base}/{SCRIPT}"
    if path == SCRIPT:
        return CanvasFile("text/javascript", await asyncio.to_thread(_read_bridge))
    if path == SURFACES:
        return _page(build_a2ui_page(state.messages, state.title, script))
    if not path.startswith(PAGES):
        return None
    inner = path.removeprefix(PAGES)
    if state.html and inner == state.path:
        return _page(add_bridge(state.html, script))
    inner = f"{inner}index.html" if not inner or inner.endswith("/") else inner
    kind = _TYPES.get(os.path.splitext(inner)[1].lower())
    if kind is None or not state.root or ".." in inner.split("/"):  # the folder's own files, not those beside it
        return None
    try:
        data = await asyncio.to_thread(read_file_beneath, state.root, f"{state.folder}/{inner}", MAX_FILE)
    except (OSError, NotPlainFile, ValueError):
        return None
    return _page(add_bridge(data.decode("utf-8", "replace"), script)) if kind == "text/html" else CanvasFile(kind, data)


def _page(text: str) -> CanvasFile:
    return CanvasFile("text/html", text.encode("utf-8", "replace"))


@cache
def _read_bridge() -> bytes:
    return read_plain_file(BRIDGE, 1_000_000)
