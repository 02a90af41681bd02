"""The wire to a browser: Chromium's DevTools protocol over a pipe (ours) or a WebSocket (a person's own). Knows frames,
requests and events; nothing of pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol, TypeAlias

import aiohttp
import msgspec

from palinurus.core.types.tool import ToolFailure

SECONDS = 30.0  # for one answer
_LONGEST = 96 << 20  # bytes of one message: a large picture
_END = b"\0"

# Method, session and parameters of something the browser tells.
EventHandler: TypeAlias = Callable[[str, str, dict[str, Any]], None]


class BrowserFault(ToolFailure):
    """The browser did not do it: the text says why."""


class FrameSender(Protocol):
    """How messages get out."""

    def send(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class DevtoolsLink:
    """`send` asks and waits; `on_event` hears what happens. Whoever is connected feeds it with `receive`."""

    def __init__(self) -> None:
        self.on_event: EventHandler = _ignore
        self.ended = asyncio.Event()
        self._way: FrameSender | None = None
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def attach(self, way: FrameSender) -> None:
        """Before anything is sent."""
        self._way = way

    async def send(
        self, method: str, params: dict[str, Any] | None = None, session: str = "", seconds: float = SECONDS
    ) -> dict[str, Any]:
        """The answer. Raises BrowserFault."""
        if self._way is None or self.ended.is_set():
            raise BrowserFault("the browser has ended; the next action starts it again")
        number = next(self._numbers)
        told = {"id": number, "method": method, "params": params or {}}
        if session:
            told["sessionId"] = session
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = waiting
        try:
            self._way.send(msgspec.json.encode(told))
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            raise BrowserFault(f"the browser did not answer {method} within {seconds:g} seconds") from None
        finally:
            self._asked.pop(number, None)

    def receive(self, data: bytes) -> None:
        """One message of the browser."""
        try:
            told = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return
        if "id" not in told:
            self.on_event(told.get("method", ""), told.get("sessionId", ""), told.get("params") or {})
            return
        waiting = self._asked.get(told["id"])
        if waiting is None or waiting.done():
            return
        if "error" in told:
            waiting.set_exception(BrowserFault(str(told["error"].get("message", "it failed"))[:300]))
        else:
            waiting.set_result(told.get("result") or {})

    def end(self) -> None:
        """Nothing more comes: whoever waits is told."""
        self.ended.set()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(BrowserFault("the browser ended in the middle of it"))
        if self._way is not None:
            self._way.close()


def _ignore(method: str, session: str, params: dict[str, Any]) -> None:
    return None


class PipeReader(asyncio.Protocol):
    """Cuts what comes out of the pipe at its zero bytes."""

    def __init__(self, link: DevtoolsLink) -> None:
        self._link = link
        self._kept = bytearray()

    def data_received(self, data: bytes) -> None:
        *whole, rest = data.split(_END)
        for part in whole:
            self._kept += part
            message, self._kept = bytes(self._kept), bytearray()
            self._link.receive(message)
        self._kept += rest
        if len(self._kept) > _LONGEST:
            self._link.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.end()


class PipeSender:
    """Writes messages into the pipe."""

    def __init__(self, pipe: asyncio.WriteTransport) -> None:
        self._pipe = pipe

    def send(self, data: bytes) -> None:
        self._pipe.write(data + _END)

    def close(self) -> None:
        self._pipe.close()


class SocketSender:
    """Messages over a WebSocket, in order."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: aiohttp.ClientSession) -> None:
        self._socket = socket
        self._session = session
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(self, data: bytes) -> None:
        self._queue.put_nowait(data)

    def close(self) -> None:
        self._queue.put_nowait(None)

    async def work(self, link: DevtoolsLink) -> None:
        """Until one of the two sides ends."""
        reading = asyncio.create_task(self._read(link))
        try:
            while (data := await self._queue.get()) is not None:
                await self._socket.send_str(data.decode())
        except (aiohttp.ClientError, OSError):
            pass
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            link.end()
            await self._socket.close()
            await self._session.close()

    async def _read(self, link: DevtoolsLink) -> None:
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                link.receive(message.data.encode())
        link.end()


async def open_socket(url: str) -> tuple[DevtoolsLink, SocketSender]:
    """A link to a browser that listens at `url` (http or ws). Raises BrowserFault."""
    session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS), trust_env=False)
    try:
        target = url
        if url.lower().startswith("http"):
            async with session.get(url.rstrip("/") + "/json/version", allow_redirects=False) as response:
                target = str((await response.json(content_type=None))["webSocketDebuggerUrl"])
        socket = await session.ws_connect(target, max_msg_size=_LONGEST)
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TimeoutError) as exc:
        await session.close()
        raise BrowserFault(f"no browser answers there ({type(exc).__name__})") from None
    link = DevtoolsLink()
    sender = SocketSender(socket, session)
    link.attach(sender)
    return link, sender
