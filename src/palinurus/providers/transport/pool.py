"""Connections to models: opened, kept for the next request, closed.

Not with aiohttp's client: importing that reads the machine's certificates twice, and each chunk of a stream takes it a
dozen calls (docs/decisions/0129). Knows no proxies, cookies or redirects.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast
from urllib.parse import quote, unquote, urlsplit

import msgspec
from aiohappyeyeballs import AddrInfoType, start_connection

from palinurus.providers.transport.answer import BadAnswer, HttpAnswerParser

KEEP = 15.0  # seconds that a connection waits for the next request
NAMES = 60.0  # seconds for which an address is remembered
STAGGER = 0.25  # seconds after which the next address of a host is tried beside the first
MOST_HELD = 1 << 18  # bytes of a connection that nobody reads; the system holds the rest back
PORTS = {"http": 80, "https": 443}
SAFE = "/%:@!$&'()*+,;=?[]~"  # what a path or a query may hold as it is
DEFAULTS = {
    "user-agent": "palinurus",
    "accept": "text/event-stream, application/json",
    "accept-encoding": "gzip",  # servers disagree about what deflate is
}


class HttpOrigin(msgspec.Struct, frozen=True):
    """Whom a connection leads to."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """As a request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


class ConnectTimeout(Exception):
    """Nobody took the connection in time."""


class BadUrl(Exception):
    """That leads nowhere."""


class NoAnswer(ConnectionError):
    """The other side has closed the connection."""


class HttpConnection(asyncio.Protocol):
    """A connection that carries one answer after the other. Closed by who holds it."""

    def __init__(self, origin: HttpOrigin) -> None:
        self.origin = origin
        self.answer = HttpAnswerParser()
        self.closed = False
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._held = 0  # bytes of the body that nobody has read; too many: the other side has to wait

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self.answer.feed(data)
        except BadAnswer as error:
            self._error = error
            self.close()
        self._held += len(data)
        if self._held > MOST_HELD and not self.closed:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if not self.answer.end() and self._error is None:
            self._error = exc or NoAnswer("closed before the end")
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self) -> None:
        """Until something has come. Raises OSError, BadAnswer."""
        if self._error is not None or self.closed:
            raise self._error or NoAnswer("closed")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def send(self, data: bytes) -> None:
        """A request; returns when the head of the answer is there. Raises OSError, BadAnswer."""
        self.answer, self._held = HttpAnswerParser(), 0
        self._transport.write(data)
        while not self.answer.status:
            await self._more()

    async def read(self) -> bytes:
        """What has come of the body, b"" at its end. Raises OSError, BadAnswer."""
        while True:
            data = self.answer.take()
            if self._held > MOST_HELD and not self.closed:
                self._transport.resume_reading()
            self._held = 0
            if data or (self.answer.done and not self.answer.waiting):
                return data
            if not self.answer.waiting:
                await self._more()

    @property
    def is_free(self) -> bool:
        """Has all been read, and may another request be sent?"""
        answer, gone = self.answer, self.closed or self._transport.is_closing()
        return answer.done and answer.keeps and not answer.waiting and not gone

    def close(self) -> None:
        self.closed = True
        if self.answer.done:
            self._transport.close()
        else:
            self._transport.abort()  # nobody waits for what has not been sent yet


class ConnectionPool:
    """All connections to models."""

    def __init__(self) -> None:
        self._idle: dict[HttpOrigin, list[tuple[float, HttpConnection]]] = {}
        self._names: dict[HttpOrigin, tuple[float, Sequence[AddrInfoType]]] = {}
        self._trust: asyncio.Future[ssl.SSLContext] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], connect: float | None) -> HttpConnection:
        """Send; returns when the head of the answer is there. Raises BadUrl, ConnectTimeout, BadAnswer,
        OSError kinds; ValueError for headers that cannot be sent."""
        origin, head = write_head(url, len(body), headers)
        line = self._take(origin) or await self._connect(origin, connect)
        try:
            await line.send(head + body)
            return line
        except BaseException:
            line.close()
            raise

    def give_back(self, line: HttpConnection) -> None:
        """An exchange is over: another may have its connection, if all of it was read."""
        if not line.is_free:
            line.close()
            return
        loop = asyncio.get_running_loop()
        self._idle.setdefault(line.origin, []).append((loop.time(), line))
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

    def _take(self, origin: HttpOrigin) -> HttpConnection | None:
        kept, late = self._idle.get(origin, []), asyncio.get_running_loop().time() - KEEP
        while kept:
            since, line = kept.pop()
            if since > late and line.is_free:
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

    async def _connect(self, origin: HttpOrigin, seconds: float | None) -> HttpConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                trusted = await self._load_trusted() if origin.tls else None
                addresses = await self._look_up(origin)
                sock = await start_connection(addresses, happy_eyeballs_delay=STAGGER, interleave=1, loop=loop)
                name = origin.host if origin.tls else None
                made = loop.create_connection(
                    lambda: HttpConnection(origin), sock=sock, ssl=trusted, server_hostname=name
                )
                return (await made)[1]
        except TimeoutError as error:
            if error.errno:  # the system's own limit
                raise ConnectionAbortedError(error.errno, error.strerror) from None
            raise ConnectTimeout from None

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
    """Whom to ask, and the first bytes to send. Raises BadUrl; ValueError for headers that would be several."""
    origin, path, secret = parse_target(url)
    sent = {**DEFAULTS, **secret, **{name.lower(): value for name, value in headers.items()}}
    sent |= {"host": origin.authority, "content-length": str(size)}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    text = "\r\n".join([*lines, "", ""])
    if text.count("\n") != len(lines) + 1 or text.count("\r") != len(lines) + 1 or "\0" in text:
        raise ValueError("a header of several lines")
    return origin, text.encode()


@lru_cache(64)  # of the few servers there are, with every request
def parse_target(url: str) -> tuple[HttpOrigin, str, Mapping[str, str]]:
    """Whom to ask, for what path, and what the URL itself says about who asks. Raises BadUrl."""
    try:
        at = urlsplit(url)
        host, port = at.hostname or "", at.port or PORTS.get(at.scheme, 0)
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        raise BadUrl from None
    if not host or at.scheme not in PORTS:
        raise BadUrl
    path = quote(at.path or "/", SAFE) + (f"?{quote(at.query, SAFE)}" if at.query else "")
    secret = {}
    if at.username or at.password:
        pair = f"{unquote(at.username or '')}:{unquote(at.password or '')}"
        secret["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return HttpOrigin(host, port, at.scheme == "https"), path, secret


def _ask_system(origin: HttpOrigin, flags: int = 0) -> Sequence[AddrInfoType]:
    return socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, flags=flags)


def _make_trusted() -> ssl.SSLContext:
    made = ssl.create_default_context()
    made.set_alpn_protocols(["http/1.1"])
    return made
