"""`pal mcp serve`: MCP on standard input and output, our gateway's protocol behind it. Knows the SDK's server."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from palinurus import __version__
from palinurus.gateway.client import GatewayLink
from palinurus.gateway.mcp.face import McpGatewayServer


async def serve_mcp(
    link: GatewayLink, target: str, send: bool, streams: tuple[Any, Any] | None = None, *, memory: bool = False
) -> None:
    """Until the other agent closes its end; then the link is closed too. `streams`: other than stdio."""
    face = McpGatewayServer(link, target, send=send, memory=memory)
    server: Server[Any] = Server(
        "palinurus",
        version=__version__,
        on_list_tools=face.tools,
        on_call_tool=face.call,
        on_list_resources=face.resources,
        on_read_resource=face.read,
        on_list_prompts=face.prompts,
        on_get_prompt=face.prompt,
        on_completion=face.complete,
    )
    drain = asyncio.get_running_loop().create_task(_drained(link))
    try:
        if streams is not None:
            await server.run(*streams, server.create_initialization_options())
            return
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        drain.cancel()
        await link.close()


async def _drained(link: GatewayLink) -> None:
    """Events are not passed on; they must not pile up."""
    while True:
        await link.events.get()
