"""Is an Ollama running here, and what does it have? One plain HTTP question with a short deadline."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec

ADDRESS = "http://127.0.0.1:11434"
MOST = 1_000_000


class _Model(msgspec.Struct):
    name: str = ""


class _Tags(msgspec.Struct):
    models: list[_Model] = []


async def probe_ollama(address: str = ADDRESS, timeout: float = 0.3) -> tuple[str, ...]:
    """The names of its models, as it lists them; () when none answers in time. Raises nothing."""
    parts = urlsplit(address)
    try:
        async with asyncio.timeout(timeout):
            return await _ask(parts.hostname or "127.0.0.1", parts.port or 11434)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, msgspec.DecodeError):
        return ()


async def _ask(host: str, port: int) -> tuple[str, ...]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # HTTP/1.0: the answer is not chunked and ends with the connection.
        writer.write(f"GET /api/tags HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            return ()
        body = bytearray()
        while len(body) < MOST and (data := await reader.read(65536)):
            body += data
    finally:
        writer.close()
    return tuple(m.name for m in msgspec.json.decode(body, type=_Tags).models if m.name)
