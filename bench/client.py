"""The measuring client: one request on a fresh connection, bytes stamped as they arrive and read after the end.

It does nothing while the system works that could be taken for the system's work. Times are monotonic nanoseconds.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import NamedTuple

NOW = time.monotonic_ns


@dataclass
class Turn:
    sent: int = 0  # before connecting
    text0: int = 0  # first visible text
    done: int = 0  # [DONE], or the end of the answer
    text: str = ""
    events: int = 0  # events with text
    status: int = 0
    error: str = ""


class _Raw(asyncio.Protocol):
    """Collects (arrival, bytes) until the last chunk, the announced length, or the end of the connection."""

    def __init__(self) -> None:
        self.got: list[tuple[int, bytes]] = []
        self.tail = b""
        self.head: bytes | None = None
        self.left = -1  # body bytes still to come, -1 when chunked
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        now = NOW()
        if self.head is None:
            self.tail += data
            head, found, data = self.tail.partition(b"\r\n\r\n")
            if not found:
                return
            self.head, self.tail = head.lower(), b""
            _, length, rest = self.head.partition(b"\r\ncontent-length:")
            self.left = int(rest.split(b"\r\n")[0]) if length else -1
        self.got.append((now, data))
        self.tail = (self.tail + data)[-7:]
        if self.left >= 0:
            self.left -= len(data)
            if self.left <= 0:
                self._finish(now)
        elif self.tail.endswith(b"\r\n0\r\n\r\n") or self.tail == b"0\r\n\r\n":
            self._finish(now)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(NOW())

    def _finish(self, now: int) -> None:
        if not self.ended.done():
            self.ended.set_result(now)

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1]) if self.head else 0


async def http(
    port: int, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"", timeout: float = 60.0
) -> tuple[int, list[tuple[int, bytes]], int, int]:
    """(status, [(arrival, bytes)], time before connecting, time of the end). Raises OSError, TimeoutError."""
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    data = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    before = NOW()
    transport, raw = await asyncio.get_running_loop().create_connection(_Raw, "127.0.0.1", port)
    try:
        transport.write(data)
        end = await asyncio.wait_for(raw.ended, timeout)
        return raw.status, raw.got, before, end
    finally:
        transport.abort()


def unchunked(got: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The body pieces of a chunked answer, each with the time its last byte came."""
    out, buffer = [], b""
    for at, data in got:
        buffer += data
        while True:
            size, found, rest = buffer.partition(b"\r\n")
            if not found:
                break
            length = int(size.split(b";")[0] or b"0", 16)
            if not length or len(rest) < length + 2:
                break
            out.append((at, rest[:length]))
            buffer = rest[length + 2 :]
    return out


class Fetched(NamedTuple):
    """An answer not yet looked into. Reading many of them while others still arrive would distort the times."""

    turn: Turn
    got: list[tuple[int, bytes]]

    def read(self) -> Turn:
        """What it says. Errors are in `.error`."""
        out = self.turn
        if out.error:
            return out
        if out.status != 200:
            out.error = f"HTTP {out.status} {b''.join(data for _, data in self.got)[:200]!r}"
            return out
        _read(out, unchunked(self.got))
        if not out.done and not out.error:
            out.error = "the stream ended without [DONE]"
        return out


async def fetch(port: int, headers: dict[str, str], body: dict[str, object], timeout: float = 120.0) -> Fetched:
    """One streaming chat-completions turn."""
    out = Turn(NOW())
    got: list[tuple[int, bytes]] = []
    data = json.dumps(body).encode()
    try:
        sent = {"content-type": "application/json", **headers}
        out.status, got, out.sent, _ = await http(port, "POST", "/v1/chat/completions", sent, data, timeout)
    except (OSError, TimeoutError) as exc:
        out.error = f"{type(exc).__name__}: {exc}"
    return Fetched(out, got)


def _read(out: Turn, parts: list[tuple[int, bytes]]) -> None:
    """Fill in text and times from the server-sent events."""
    buffer, texts = b"", []
    for at, data in parts:
        buffer += data
        *events, buffer = buffer.split(b"\n\n")
        for one in events:
            if not one.startswith(b"data: "):
                continue
            if one == b"data: [DONE]":
                out.done = at
                continue
            decoded = json.loads(one[6:])
            if decoded.get("error"):
                out.error = str(decoded["error"])[:200]
            for choice in decoded.get("choices") or ():
                text = (choice.get("delta") or {}).get("content")
                if text:
                    out.text0 = out.text0 or at
                    out.events += 1
                    texts.append(text)
    out.text = "".join(texts)
