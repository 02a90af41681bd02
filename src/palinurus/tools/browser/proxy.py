"""The only way out of the browser's network: a proxy in the gateway that lets through what the egress guard allows.

CONNECT (https, every WebSocket) and plain http. Names are resolved here, each address that comes out is judged, and
only a judged one is connected to; the browser itself resolves nothing. Redirects come back to the browser, whose next
request is judged like the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque

import msgspec

from palinurus.core.policy.address import OpenHosts
from palinurus.tasks import TaskSet
from palinurus.tools.web.egress import EgressGuard, FetchFailure

AT_ONCE = 200  # connections of one browser
_HEAD = 64 * 1024
_CHUNK = 64 * 1024
_CONNECT = 10.0  # seconds
_ASKING = 30.0  # seconds until a request has been said
# Where Chromium speaks to its maker, whatever its flags say; no page lives there.
VENDOR_HOSTS = frozenset(
    (
        "update.googleapis.com", "clients2.google.com", "clients4.google.com", "safebrowsing.googleapis.com",
        "optimizationguide-pa.googleapis.com", "content-autofill.googleapis.com", "edgedl.me.gvt1.com",
        "redirector.gvt1.com",
    )
)  # fmt: skip
_HOP = frozenset((b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade"))


class RefusedRequest(msgspec.Struct, frozen=True):
    """What the browser was not let to."""

    host: str
    why: str


class GuardedProxy:
    """Serves a listening socket until `close`. `refused` holds what was not let through, the newest last."""

    def __init__(self, egress: EgressGuard, rules: OpenHosts) -> None:
        self._egress = egress
        self._rules = rules
        self._room = asyncio.Semaphore(AT_ONCE)
        self._server: asyncio.Server | None = None
        self._tasks = TaskSet("a browser's connection")
        self.refused: deque[RefusedRequest] = deque(maxlen=50)
        self.count = 0  # of all refusals so far

    async def serve(self, door: socket.socket) -> None:
        """Accept connections from now on."""
        door.setblocking(False)
        self._server = await asyncio.start_server(self._take, sock=door, limit=_HEAD)

    async def close(self) -> None:
        """Let go of every connection."""
        if self._server is not None:
            self._server.close()
        await self._tasks.close()

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._one(reader, writer))

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._room:
                await self._answer(reader, writer)
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            pass  # one side hung up, or spoke no HTTP
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_ASKING):
            head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        method, target, version = first.split(b" ")
        if not version.startswith(b"HTTP/1."):
            raise ValueError("not HTTP/1")
        url = target.decode("ascii")
        tunnel = method == b"CONNECT"
        if _name_host(url, tunnel=tunnel) in VENDOR_HOSTS:
            _say(writer, b"403 Forbidden", "not asked for")
            return
        try:
            at = await self._egress.open_route(f"https://{url}/" if tunnel else url, self._rules)
        except FetchFailure as failure:
            self._refuse(writer, url, str(failure))
            return
        try:
            far_reader, far_writer = await _connect(at.addresses, at.port)
        except (OSError, TimeoutError):
            _say(writer, b"502 Bad Gateway", f"{at.host} cannot be connected to")
            return
        try:
            if tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _relay_both(reader, writer, far_reader, far_writer)
            else:
                await _forward(_Request(method, at.path.encode("ascii"), lines), reader, writer, far=far_writer)
                await _answer_once(far_reader, writer)
        finally:
            far_writer.close()

    def _refuse(self, writer: asyncio.StreamWriter, url: str, why: str) -> None:
        self.count += 1
        self.refused.append(RefusedRequest(url[:200], why))
        _say(writer, b"403 Forbidden", why)


class _Request(msgspec.Struct, frozen=True):
    method: bytes
    path: bytes
    lines: list[bytes]

    def header(self, name: bytes) -> bytes:
        found = (line.partition(b":") for line in self.lines)
        return next((value.strip() for key, _, value in found if key.strip().lower() == name), b"")


def _name_host(url: str, *, tunnel: bool) -> str:
    return (url if tunnel else url.partition("://")[2].partition("/")[0]).rpartition("@")[2].partition(":")[0].lower()


def _say(writer: asyncio.StreamWriter, status: bytes, text: str) -> None:
    body = text.encode("utf-8", "replace")
    head = b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    writer.write(head % (status, len(body)) + body)


async def _connect(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first of the judged addresses that answers. Raises OSError or TimeoutError."""
    last: OSError | TimeoutError = OSError("no address")
    for address in addresses:
        try:
            async with asyncio.timeout(_CONNECT):
                return await asyncio.open_connection(address, port, limit=_HEAD)
        except (OSError, TimeoutError) as exc:
            last = exc
    raise last


async def _forward(
    request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, far: asyncio.StreamWriter
) -> None:
    """One request and its body, and nothing after it: what follows on the connection may be meant for another host."""
    kept = [line for line in request.lines if line.partition(b":")[0].strip().lower() not in _HOP]
    if request.header(b"transfer-encoding"):
        raise ValueError("a body without a length is not sent on")
    far.write(b"\r\n".join((b"%s %s HTTP/1.1" % (request.method, request.path), *kept, b"Connection: close", b"", b"")))
    if request.header(b"expect"):
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    left = int(request.header(b"content-length") or b"0")
    while left > 0:
        data = await reader.read(min(_CHUNK, left))
        if not data:
            raise EOFError
        left -= len(data)
        far.write(data)
        await far.drain()


async def _answer_once(far: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The response, marked as the last one of its connection, whatever the server says."""
    while True:
        head = await far.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        status = first.split(b" ")[1]
        if status == b"100":
            continue
        kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _HOP]
        if status.startswith(b"1"):
            writer.write(b"\r\n".join((first, *kept, b"", b"")))
            continue
        writer.write(b"\r\n".join((first, *kept, b"Connection: close", b"", b"")))
        await _relay(far, writer)
        return


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def _relay_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Until both sides have said all they have to say, or one of them breaks."""

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await _relay(source, target)
            if target.can_write_eof():
                target.write_eof()

    await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))
