"""A node for tests: logged in over the protocol, answering what the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.host import TOKEN
from gateway.whole import Place
from palinurus.gateway.client import DeviceIdentity, GatewayLink
from palinurus.gateway.rpc import ClientDescription
from palinurus.testing.client import connect_to_gateway

COMMANDS = ("system.run", "system.which", "system.notify", "camera.snap")
HOST = ClientDescription("node-host", "1.0", "linux", "node", display_name="Shed")


def describe(name: str = "Shed", platform: str = "linux") -> ClientDescription:
    return ClientDescription("node-host", "1.0", platform, "node", display_name=name)


@asynccontextmanager
async def node(
    site: Place, who: DeviceIdentity, commands: tuple[str, ...] = COMMANDS, **options: Any
) -> AsyncIterator[GatewayLink]:
    """A node that has logged in, with the shared token unless something else is said."""
    given = {"client": HOST, "role": "node", "scopes": (), "caps": ("system",), "commands": commands}
    known = {"token": TOKEN} if not {"device_token", "code"} & set(options) else {}
    async with connect_to_gateway(
        site.server.port, site.app.clock, identity=who, **known, **{**given, **options}
    ) as link:
        yield link


async def pair(site: Place, who: DeviceIdentity, **params: Any) -> dict[str, Any]:
    waiting = (await site.call("node.pair.list"))["pending"]
    request = next(row for row in waiting if row["nodeId"] == who.id)
    done: dict[str, Any] = await site.call("node.pair.approve", requestId=request["requestId"], **params)
    return done["node"]


async def answer(link: GatewayLink, payload: Any, **more: Any) -> dict[str, Any]:
    """Answer the next request as the node; what was asked."""
    asked: dict[str, Any] = (await asyncio.wait_for(link.event("node.invoke.request"), 60))["payload"]
    sent = {"id": asked["id"], "nodeId": asked["nodeId"], "ok": True, "payloadJSON": json.dumps(payload), **more}
    asked["said"] = await link.call("node.invoke.result", sent)
    return asked
