"""How a signal-cli daemon is spoken to: JSON-RPC over HTTP with server-sent events, or over one socket with both.

Knows the transport only. What the methods mean is in `outbound.py`, what the events say in `inbound.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec

from palinurus.errors import ConfigError, Problem

CALL = 120.0  # seconds for one call; signal-cli uploads attachments in that time
CONNECT = 10.0
SILENCE = 45.0  # the daemon sends a comment every 15 seconds
LINE = 64 * 1024 * 1024  # bytes of the longest line: a file in base64


class SignalRpcError(Exception):
    """The daemon answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class SignalUnreachable(Exception):
    """No answer. `sent`: the daemon may have got the call all the same."""

    def __init__(self, why: str, sent: bool = False) -> None:
        super().__init__(why)
        self.sent = sent


class SignalUnknownAccount(Exception):
    """The daemon does not have this account."""


class SignalLink(Protocol):
    """A way to a daemon."""

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """The result. Raises SignalRpcError, SignalUnreachable."""
        ...

    def events(self, account: str) -> AsyncGenerator[dict[str, Any], None]:
        """What is received from now on; the first is {}, once we are connected. Raises SignalUnreachable,
        SignalUnknownAccount."""
        ...

    async def close(self) -> None: ...


def make_link(url: str) -> SignalLink:
    """For http://host:port, tcp://host:port or unix:/path. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https") and parts.hostname:
        return SignalHttpLink(url.rstrip("/"))
    if parts.scheme == "tcp" and parts.hostname and parts.port:
        return SignalSocketLink(parts.hostname, parts.port)
    if parts.scheme == "unix" and parts.path:
        return SignalSocketLink(parts.path)
    hint = "http://127.0.0.1:8080, tcp://127.0.0.1:7583 or unix:/run/signal-cli/socket"
    raise ConfigError((Problem("channels.signal.httpUrl", f"{url[:80]!r} is no address of a daemon", hint=hint),))


def _result(answer: Any) -> Any:
    if not isinstance(answer, dict):
        raise SignalUnreachable("the daemon's answer is not JSON-RPC", sent=True)
    error = answer.get("error")
    if isinstance(error, dict):
        raise SignalRpcError(int(error.get("code") or 0), str(error.get("message") or ""), error.get("data"))
    return answer.get("result")


class SignalHttpLink:
    """POST /api/v1/rpc and GET /api/v1/events."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._session: aiohttp.ClientSession | None = None
        self._ids = itertools.count(1)

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT)
            # A kept connection that the daemon has just closed would look like a call that may have arrived.
            fresh = aiohttp.TCPConnector(force_close=True)
            self._session = aiohttp.ClientSession(
                connector=fresh, timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
        headers = {"Content-Type": "application/json"}
        try:
            async with asyncio.timeout(CALL):
                async with self._http().post(f"{self._base}/api/v1/rpc", data=body, headers=headers) as response:
                    data = await response.read()
        except aiohttp.ClientConnectorError as exc:
            raise SignalUnreachable(f"signal-cli is not reachable at {self._base}: {exc.strerror}") from None
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            raise SignalUnreachable(f"signal-cli did not answer: {type(exc).__name__}", sent=True) from None
        if response.status not in (200, 201):
            raise SignalUnreachable(f"signal-cli answered with status {response.status}")
        try:
            return _result(msgspec.json.decode(data) if data else {})
        except msgspec.DecodeError:
            raise SignalUnreachable("the daemon's answer is not JSON", sent=True) from None

    async def events(self, account: str) -> AsyncGenerator[dict[str, Any], None]:
        url = f"{self._base}/api/v1/events" + (f"?account={quote(account, safe='')}" if account else "")
        try:
            async with self._http().get(url, headers={"Accept": "text/event-stream"}) as response:
                if response.status == 400:
                    raise SignalUnknownAccount
                if response.status != 200:
                    raise SignalUnreachable(f"signal-cli answered with status {response.status}")
                yield {}
                async for event in _told(response.content):
                    yield event
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            words = getattr(exc, "strerror", None) or type(exc).__name__
            raise SignalUnreachable(f"signal-cli at {self._base}: {words}") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _told(content: aiohttp.StreamReader) -> AsyncGenerator[dict[str, Any], None]:
    """The data of each event. Raises TimeoutError after too long a silence."""
    held, data = bytearray(), list[bytes]()
    while True:
        async with asyncio.timeout(SILENCE):
            chunk = await content.readany()
        if not chunk:
            raise SignalUnreachable("signal-cli closed the stream")
        held += chunk
        if len(held) > LINE:
            raise SignalUnreachable("signal-cli sent a line without end")
        *lines, rest = held.split(b"\n")
        held = bytearray(rest)
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(bytes(line[5:].removeprefix(b" ")))
            elif not line and data:
                event = _object(b"\n".join(data))
                data.clear()
                if event is not None:
                    yield event


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


class SignalSocketLink:
    """One line of JSON each way, over TCP (`host`, `port`) or a Unix socket (`host` is its path). `events` is what
    connects and reads; calls wait for their answers beside it."""

    def __init__(self, host: str, port: int = 0) -> None:
        self._host = host
        self._port = port
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        writer = self._writer
        if writer is None:
            raise SignalUnreachable("signal-cli is not connected")
        ident = next(self._ids)
        answer = self._waiting[ident] = asyncio.get_running_loop().create_future()
        try:
            line = msgspec.json.encode({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
            writer.write(line + b"\n")
            await writer.drain()
            async with asyncio.timeout(CALL):
                return _result(await answer)
        except (OSError, TimeoutError) as exc:
            raise SignalUnreachable(f"signal-cli did not answer: {type(exc).__name__}", sent=True) from None
        finally:
            self._waiting.pop(ident, None)

    async def events(self, account: str) -> AsyncGenerator[dict[str, Any], None]:
        reader = await self._connect()
        assert self._writer is not None
        try:
            yield {}
            while line := await reader.readline():
                message = _object(line)
                if message is None:
                    continue
                if message.get("method") == "receive" and isinstance(message.get("params"), dict):
                    yield message["params"]
                elif (waits := self._waiting.get(message.get("id") or 0)) is not None and not waits.done():
                    waits.set_result(message)
        except (OSError, ValueError) as exc:  # ValueError: a line longer than LINE
            raise SignalUnreachable(f"signal-cli: {type(exc).__name__}") from None
        finally:
            self._drop()
        raise SignalUnreachable("signal-cli closed the connection")

    async def _connect(self) -> asyncio.StreamReader:
        try:
            async with asyncio.timeout(CONNECT):
                if self._port:
                    reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=LINE)
                else:
                    reader, self._writer = await asyncio.open_unix_connection(self._host, limit=LINE)
        except (OSError, TimeoutError) as exc:
            where = f"{self._host}:{self._port}" if self._port else self._host
            raise SignalUnreachable(
                f"signal-cli is not reachable at {where}: {getattr(exc, 'strerror', '') or 'no answer'}"
            ) from None
        return reader

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waits in self._waiting.values():
            if not waits.done():
                waits.set_exception(SignalUnreachable("the connection to signal-cli was lost", sent=True))

    async def close(self) -> None:
        self._drop()
