"""A provider that hears: POST …/audio/transcriptions on loopback, the multipart form of OpenAI's API, one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import aiohttp
from aiohttp import web


class AudioUpload(NamedTuple):
    """One request. Header names are lower-case."""

    fields: dict[str, str]
    name: str
    data: bytes
    headers: dict[str, str]


class FakeTranscriber:
    """Hears the same words in everything, or fails with `status`; `answer` goes before both. While `gate` is not set,
    nobody is answered."""

    def __init__(self, words: str, *, status: int = 200, answer: Callable[[], web.Response] | None = None) -> None:
        self.words = words
        self.status = status
        self.asked: list[AudioUpload] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._answer = answer
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> FakeTranscriber:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/audio/transcriptions", self._hear)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _hear(self, request: web.Request) -> web.Response:
        fields: dict[str, str] = {}
        name, data = "", b""
        async for part in await request.multipart():
            assert isinstance(part, aiohttp.BodyPartReader)
            if part.filename:
                name, data = part.filename, bytes(await part.read())
            else:
                fields[part.name or ""] = await part.text()
        self.asked.append(
            AudioUpload(fields, name, data, {key.lower(): value for key, value in request.headers.items()})
        )
        await self.gate.wait()
        if self._answer is not None:
            return self._answer()
        if self.status != 200:
            return web.json_response({"error": {"message": "no ears today"}}, status=self.status)
        return web.json_response({"text": self.words})
