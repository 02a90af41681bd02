"""Connections to models: opened, kept for the next request, closed.

Uses aiohttp's protocol and parser, not its client: importing that reads the machine's certificates twice, and its
requests cost more (docs/decisions/0129). Knows no proxies, cookies or redirects.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from aiohappyeyeballs import AddrInfoType, start_connection
from aiohttp import client_exceptions
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict
from yarl import URL

KEEP = 15.0  # seconds that a connection waits for the next request
NAMES = 60.0  # seconds for which an address is remembered
STAGGER = 0.25  # seconds after which the next address of a host is tried beside the first
DEFAULTS = {
    "user-agent": "palinurus",
    "accept": "text/event-stream, application/json",
    "accept-encoding": "gzip, deflate",
}


class HttpOrigin(msgspec.Struct, frozen=True):
    """Whom a connection leads to."""

    host: str
    port: int
    tls: bool


class HttpExchange(msgspec.Struct, frozen=True):
    """A request under way: the head of its answer, what reads the rest, and the connection it came over."""

    head: RawResponseMessage
    content: StreamReader
    origin: HttpOrigin
    line: ResponseHandler


class ConnectionPool:
    """All connections to models."""

    def __init__(self) -> None:
        self._idle: dict[HttpOrigin, list[tuple[float, ResponseHandler]]] = {}
        self._names: dict[HttpOrigin, tuple[float, Sequence[AddrInfoType]]] = {}
        self._trust: asyncio.Future[ssl.SSLContext] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], connect: float | None) -> HttpExchange:
        """Send; returns when the head of the answer is there. Raises ClientError kinds, HttpProcessingError, OSError
        kinds of connecting, ValueError for what cannot be sent."""
        origin, head = write_head(url, len(body), headers)
        line = self._take(origin)
        if line is None:  # one that waits has no answers in it: as a queue it is empty, and false
            line = await self._connect(origin, connect)
        try:
            line.set_response_params(read_until_eof=True)
            if line.transport is None:
                raise client_exceptions.ServerDisconnectedError
            line.transport.write(head + body)
            while True:
                message, content = await line.read()
                if message.code >= 200 or message.code == 101:  # before it come words like "100 Continue"
                    return HttpExchange(message, content, origin, line)
        except BaseException:
            line.close()
            raise

    def give_back(self, done: HttpExchange) -> None:
        """An exchange is over: another may have its connection, if all of it was read."""
        line = done.line
        if not done.content.at_eof() or line.should_close or not line.is_connected():
            line.close()
            return
        loop = asyncio.get_running_loop()
        self._idle.setdefault(done.origin, []).append((loop.time(), line))
        if self._timer is None:
            self._timer = loop.call_later(KEEP, self._sweep)

    def close(self) -> None:
        """End what waits. Those under way end with their exchange."""
        for kept in self._idle.values():
            for _, line in kept:
                line.close()
        self._idle.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self, origin: HttpOrigin) -> ResponseHandler | None:
        kept, late = self._idle.get(origin, []), asyncio.get_running_loop().time() - KEEP
        while kept:
            since, line = kept.pop()
            if since > late and line.is_connected() and not line.should_close:
                return line
            line.close()
        return None

    def _sweep(self) -> None:
        """End those that have waited too long; come again while some wait."""
        loop = asyncio.get_running_loop()
        self._timer, late = None, loop.time() - KEEP
        for origin, kept in list(self._idle.items()):
            for since, line in kept:
                if since <= late:
                    line.close()
            self._idle[origin] = [pair for pair in kept if pair[0] > late]
            if not self._idle[origin]:
                del self._idle[origin]
        if self._idle:
            self._timer = loop.call_later(KEEP, self._sweep)

    async def _connect(self, origin: HttpOrigin, seconds: float | None) -> ResponseHandler:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                trusted = await self._load_trusted() if origin.tls else None
                addresses = await self._look_up(origin)
                sock = await start_connection(addresses, happy_eyeballs_delay=STAGGER, interleave=1, loop=loop)
                name = origin.host if origin.tls else None
                make = partial(ResponseHandler, loop)
                return (await loop.create_connection(make, sock=sock, ssl=trusted, server_hostname=name))[1]
        except TimeoutError as error:
            if error.errno:  # the system's own limit
                raise client_exceptions.ClientOSError(*error.args) from None
            raise client_exceptions.ConnectionTimeoutError from None

    async def _load_trusted(self) -> ssl.SSLContext:
        """What says whom to trust, read once for all: it takes as long as ten requests."""
        if self._trust is None:
            self._trust = asyncio.ensure_future(asyncio.to_thread(_make_trusted))
        return await asyncio.shield(self._trust)

    async def _look_up(self, origin: HttpOrigin) -> Sequence[AddrInfoType]:
        loop = asyncio.get_running_loop()
        until, found = self._names.get(origin, (0.0, []))
        if until < loop.time():
            try:
                found = _ask_system(origin, socket.AI_NUMERICHOST)  # nobody is asked
            except socket.gaierror:
                found = await loop.run_in_executor(None, _ask_system, origin)
            self._names[origin] = (loop.time() + NAMES, found)
        return found


def write_head(url: str, size: int, headers: Mapping[str, str]) -> tuple[HttpOrigin, bytes]:
    """Whom to ask, and the first bytes to send. Raises InvalidURL; ValueError for headers that would be several."""
    try:
        at = URL(url)
    except ValueError:
        raise client_exceptions.InvalidURL(url) from None
    if at.scheme not in ("http", "https") or not at.raw_host or not at.port:
        raise client_exceptions.InvalidURL(url)
    sent = CIMultiDict(DEFAULTS)
    if at.user or at.password:
        secret = b64encode(f"{at.user or ''}:{at.password or ''}".encode())
        sent["authorization"] = f"Basic {secret.decode()}"
    sent.update(headers)
    sent.update({"host": at.host_port_subcomponent or "", "content-length": str(size)})
    lines = [f"POST {at.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    if any("\r" in line or "\n" in line or "\0" in line for line in lines):
        raise ValueError("a header of several lines")
    return HttpOrigin(at.raw_host, at.port, at.scheme == "https"), "\r\n".join([*lines, "", ""]).encode()


def _ask_system(origin: HttpOrigin, flags: int = 0) -> Sequence[AddrInfoType]:
    return socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, flags=flags)


def _make_trusted() -> ssl.SSLContext:
    made = ssl.create_default_context()
    made.set_alpn_protocols(["http/1.1"])
    return made
