"""Servers on 127.0.0.1 for the fakes: HTTP and plain TCP, both on the same port again after a stop, and what else a
fake needs to break a connection or to wake who waits. Knows no platform.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from ssl import SSLContext
from typing import Any

from aiohttp import web

HOST = "127.0.0.1"
LARGEST = 128 * 1024 * 1024  # bytes of a request, or of a line
EVERY_REQUEST = "* /{path:.*}"


class LoopbackHttp:
    """`routes`: "METHOD /path" and who answers. `cancels`: a handler ends when its client goes."""

    def __init__(self, routes: Mapping[str, Any], *, middleware: Any = None, cancels: bool = False) -> None:
        self.port = 0
        self._routes = routes
        self._middlewares = [middleware] if middleware else []
        self._cancels = cancels
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Listen, on the port of last time. Raises OSError when it is taken."""
        if self._runner is not None:
            return
        app = web.Application(middlewares=self._middlewares, client_max_size=LARGEST)
        for route, handler in self._routes.items():
            method, _, path = route.partition(" ")
            app.router.add_route(method, path, handler)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, access_log=None, handler_cancellation=self._cancels)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self.port, reuse_address=True).start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Cut every connection and take no new ones."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def abort_connection(request: web.BaseRequest, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """The connection breaks: the client sees it end before the response does."""
    if request.transport is not None:
        request.transport.abort()
    return response or web.Response()


class LoopbackTcp:
    """`serve` speaks to one client until it returns, or the connection breaks."""

    def __init__(
        self,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        tls: SSLContext | None = None,
    ) -> None:
        self.port = 0
        self._serve = serve
        self._tls = tls
        self._open: dict[asyncio.StreamWriter, Any] = {}  # the task of each connection
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, on the port of last time."""
        if self._server is not None:
            return
        self._server = await asyncio.start_server(self._connection, HOST, self.port, ssl=self._tls, limit=LARGEST)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._open[writer]
            writer.close()

    def drop(self) -> None:
        """Connections break; new ones are taken."""
        for writer in list(self._open):
            writer.transport.abort()

    async def stop(self) -> None:
        """Cut every connection and take no new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop()
        if left := set(self._open.values()) - {asyncio.current_task()}:
            await asyncio.wait(left, timeout=1)


class NewsBell:
    """`wake` ends every `wait` that has begun."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, seconds: float | None = None) -> None:
        """Something happens, or the time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
