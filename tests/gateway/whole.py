"""A whole gateway: a real App behind a real socket, with a scripted model. For tests of methods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from gateway.host import TOKEN
from palinurus.app import App
from palinurus.core.types.model import Model
from palinurus.gateway.client import GatewayLink
from palinurus.gateway.rpc import MethodError
from palinurus.gateway.server import GatewayServer
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.model import ScriptedModel

KEY = "agent:main:main"


class Place:
    """A gateway that runs, and its owner's connection."""

    def __init__(self, app: App, server: GatewayServer, link: GatewayLink) -> None:
        self.app = app
        self.server = server
        self.link = link

    async def call(self, method: str, **params: Any) -> Any:
        """As the owner, with a limit on the wait."""
        return await asyncio.wait_for(self.link.call(method, params), 60)

    async def refused(self, method: str, **params: Any) -> MethodError:
        """The error of a call that must fail."""
        with pytest.raises(MethodError) as found:
            await self.call(method, **params)
        return found.value

    async def say(self, text: str, run: str, key: str = "main") -> list[dict[str, Any]]:
        """Send a message and wait for the end of its run; all frames that came meanwhile."""
        await self.call("chat.send", sessionKey=key, message=text, idempotencyKey=run)
        return await until_over(self.link, run)

    @asynccontextmanager
    async def other(self, **options: Any) -> AsyncIterator[GatewayLink]:
        """One more client."""
        async with connect_to_gateway(self.server.port, self.app.clock, token=TOKEN, **options) as link:
            yield link


@asynccontextmanager
async def place(home: Path, model: Model | None = None, **config: Any) -> AsyncIterator[Place]:
    """A gateway on a free port."""
    async with running(home, model or ScriptedModel([]), **config) as app:
        server = GatewayServer(app, app.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        try:
            async with connect_to_gateway(server.port, app.clock, token=TOKEN) as link:
                yield Place(app, server, link)
        finally:
            await server.stop()


async def until_over(link: GatewayLink, run: str) -> list[dict[str, Any]]:
    """Events up to the last one of a run's chat."""
    return await gathered(
        link,
        lambda f: f["event"] == "chat" and f["payload"]["runId"] == run and f["payload"]["state"] != "delta",
    )


async def gathered(link: GatewayLink, last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Events up to the one that `last` knows."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while not found or not last(found[-1]):
            found.append(await link.events.get())
    return found


def named(frames: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    """The payloads of one kind of event."""
    return [frame["payload"] for frame in frames if frame["event"] == event]
