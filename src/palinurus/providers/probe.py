"""Is an Ollama running here, what does it have, and how much can that read? Plain HTTP with a short deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from palinurus.providers import MOST_CONTEXT

ADDRESS = "http://127.0.0.1:11434"
MOST = 8_000_000  # bytes of an answer: what is told of a model has its whole vocabulary in it
ASKED = 16  # models whose window is asked for


class _Model(msgspec.Struct):
    name: str = ""


class OllamaFacts(msgspec.Struct):
    """What it tells of one model."""

    model_info: dict[str, Any] = {}


class _Tags(msgspec.Struct):
    models: list[_Model] = []


async def probe_ollama(address: str = ADDRESS, timeout: float = 0.3) -> tuple[str, ...]:
    """The names of its models, as it lists them; () when none answers in time. Raises nothing."""
    try:
        async with asyncio.timeout(timeout):
            body = await _ask(address, "/api/tags")
        return tuple(m.name for m in msgspec.json.decode(body, type=_Tags).models if m.name)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, msgspec.DecodeError):
        return ()


async def probe_windows(names: Sequence[str], address: str = ADDRESS, timeout: float = 1.0) -> dict[str, int]:
    """How many tokens each of these can be given; those of which nothing is known in time are not there."""
    found: dict[str, int] = {}
    try:
        async with asyncio.timeout(timeout):
            for name in names[:ASKED]:
                body = await _ask(address, "/api/show", msgspec.json.encode({"model": name}))
                facts = msgspec.json.decode(body, type=OllamaFacts) if body else OllamaFacts()
                if window := read_ollama_window(facts.model_info):
                    found[name] = window
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, msgspec.DecodeError):
        pass
    return found


def read_ollama_window(facts: Mapping[str, Any]) -> int:
    """What is asked for of a model: all it was made for, up to a limit; 0 if it does not say."""
    told = next((value for key, value in facts.items() if key.endswith(".context_length")), 0)
    return min(told, MOST_CONTEXT) if isinstance(told, int) and told > 0 else 0


async def _ask(address: str, path: str, body: bytes = b"") -> bytes:
    """The answer's body; nothing if it is not a 200."""
    parts = urlsplit(address)
    host, port = parts.hostname or "127.0.0.1", parts.port or 11434
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # HTTP/1.0: the answer is not chunked and ends with the connection.
        verb = "POST" if body else "GET"
        head = f"{verb} {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            return b""
        told = bytearray()
        while len(told) < MOST and (data := await reader.read(65536)):
            told += data
    finally:
        writer.close()
    return bytes(told)
