"""Servers on loopback: one that answers what a test says, one that must never be reached; and a resolver of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from palinurus.core.policy.address import OpenHosts

Handler = Callable[[web.Request], Any]


def moved(where: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": where})


class Site:
    """A server on loopback; `seen` are the requests it got. `routes` path -> handler or text."""

    def __init__(self) -> None:
        self.routes: dict[str, Any] = {}
        self.seen: list[web.Request] = []
        self._server: TestServer

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 20)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._server = TestServer(app)
        await self._server.start_server()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.seen.append(request)
        found = self.routes.get(request.path, "nothing here")
        if callable(found):
            found = found(request)
            found = await found if asyncio.iscoroutine(found) else found
        return web.Response(text=found, content_type="text/html") if isinstance(found, str) else found

    @property
    def port(self) -> int:
        assert self._server.port is not None
        return self._server.port

    @property
    def entry(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/") -> str:
        return f"http://{self.entry}{path}"

    @property
    def rules(self) -> OpenHosts:
        return OpenHosts(frozenset({self.entry}))

    async def stop(self) -> None:
        await self._server.close()


class Canary:
    """Listens on loopback, IPv4 and IPv6 where there is one; `hits` must stay 0."""

    def __init__(self) -> None:
        self.hits = 0
        self.port = 0
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        async def hit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.hits += 1
            writer.close()

        self._servers.append(await asyncio.start_server(hit, "0.0.0.0", 0))
        self.port = self._servers[0].sockets[0].getsockname()[1]
        try:
            self._servers.append(await asyncio.start_server(hit, "::1", self.port))
        except OSError:
            pass  # a machine without IPv6

    async def stop(self) -> None:
        for server in self._servers:
            server.close()


class Names:
    """A name server of our own: each name a list of answers, given in turn; the last one stays. Counts questions."""

    def __init__(self, **names: list[list[str]]) -> None:
        self._names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if answers is None:
            raise OSError(-2, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]
