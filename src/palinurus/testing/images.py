"""A fake of those who make pictures, on 127.0.0.1: OpenAI's `/v1/images/generations` and `/v1/images/edits`, Gemini's
`/v1beta/models/MODEL:generateContent`. Every picture is the same small PNG; or it fails with `status`.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from palinurus.testing.loopback import LoopbackHttp


def make_png(side: int = 8) -> bytes:
    """A grey square."""
    rows = b"".join(b"\x00" + b"\x80" * side for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


class ImageServerRequest(msgspec.Struct, frozen=True):
    """One request: JSON, or a form with files. Header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    files: tuple[bytes, ...] = ()


class FakeImages:
    """`asked` are the requests so far."""

    def __init__(self, *, status: int = 200, words: str = "") -> None:
        self.status = status
        self.words = words  # Gemini says this instead of making a picture
        self.asked: list[ImageServerRequest] = []
        self._http = LoopbackHttp({"POST /{path:.*}": self._answer}, cancels=True)

    @property
    def url(self) -> str:
        return self._http.url

    async def __aenter__(self) -> FakeImages:
        await self._http.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.stop()

    async def _answer(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = {}
        files: list[bytes] = []
        if request.content_type == "multipart/form-data":
            async for part in await request.multipart():
                assert isinstance(part, aiohttp.BodyPartReader)
                if part.filename:
                    files.append(bytes(await part.read()))
                else:
                    body[part.name or ""] = await part.text()
        else:
            body = await request.json()
        headers = {key.lower(): value for key, value in request.headers.items()}
        self.asked.append(ImageServerRequest(request.path, headers, body, tuple(files)))
        if self.status != 200:
            return web.json_response({"error": {"message": "no paint today"}}, status=self.status)
        picture = base64.b64encode(make_png()).decode()
        if request.path.endswith(":generateContent"):
            drawn = {"inlineData": {"mimeType": "image/png", "data": picture}}
            said = {"text": self.words} if self.words else drawn
            usage = {"promptTokenCount": 12, "candidatesTokenCount": 1290, "totalTokenCount": 1302}
            return web.json_response({"candidates": [{"content": {"parts": [said]}}], "usageMetadata": usage})
        rows = [{"b64_json": picture} for _ in range(int(body.get("n") or 1))]
        used = {"input_tokens": 20, "output_tokens": 1000 * len(rows), "total_tokens": 20 + 1000 * len(rows)}
        return web.json_response({"created": 1, "data": rows, "usage": used})
