"""Looking for an Ollama: found, absent, slow, or something else on its port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from palinurus.providers.probe import probe_ollama


@asynccontextmanager
async def listening(answer: bytes, hang: bool = False) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if hang:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_found_over_a_real_http_server() -> None:
    async def tags(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"models": [{"name": "qwen3:4b", "size": 1}, {"name": "llama"}, {}]})

    runner = web.ServerRunner(web.Server(tags))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        assert await probe_ollama(f"http://127.0.0.1:{runner.addresses[0][1]}", timeout=60) == ("qwen3:4b", "llama")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.0 404 no\r\n\r\n{}",
        b"HTTP/1.0 200 ok\r\n\r\n<html>",
        b'HTTP/1.0 200 ok\r\n\r\n{"models": 3}',
    ],
)
async def test_something_else(answer: bytes) -> None:
    async with listening(answer) as url:
        assert await probe_ollama(url, timeout=5) == ()


async def test_slow_or_absent() -> None:
    async with listening(b"HTTP/1.0 200 ok\r\n\r\n{", hang=True) as url:
        assert await probe_ollama(url, timeout=0.05) == ()
    assert await probe_ollama(url, timeout=5) == ()
