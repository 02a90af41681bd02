"""MCP on one side, our gateway's protocol on the other: tools and sessions for another agent. Knows the SDK's server.

Only tools that read are passed on, judged by the session's policy in the gateway; whoever calls here is no owner.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import mcp_types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from palinurus import __version__
from palinurus.gateway.client import GatewayLink
from palinurus.gateway.rpc import MethodError

SEND = "sessions_send"
_SCHEMA = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to say to the agent"},
        "sessionKey": {"type": "string", "description": "Which session (sessions_list); default: the main one"},
    },
    "required": ["message"],
}


class McpGatewayServer:
    """Answers another agent's requests through the gateway."""

    def __init__(self, link: GatewayLink, target: str, *, send: bool) -> None:
        self._link = link
        self._target = target
        self._send = send

    async def tools(self, _: Any, __: Any) -> mcp_types.ListToolsResult:
        """What this session's policy offers, as far as it only reads."""
        rows = [
            mcp_types.Tool(
                name=row["id"],
                description=row["about"],
                input_schema=row["parameters"],
                annotations=mcp_types.ToolAnnotations(read_only_hint=True),
            )
            for row in await self._readers()
        ]
        if self._send:
            about = "Say something to the agent and wait for its answer."
            rows.append(mcp_types.Tool(name=SEND, description=about, input_schema=_SCHEMA))
        return mcp_types.ListToolsResult(tools=rows)

    async def call(self, _: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        """One call; errors are results."""
        args = params.arguments or {}
        try:
            if params.name == SEND and self._send:
                return await self._said(str(args.get("message") or ""), str(args.get("sessionKey") or self._target))
            if params.name not in {row["id"] for row in await self._readers()}:
                return _result(f"Tool not available: {params.name[:80]}", error=True)
            told = await self._link.call(
                "tools.invoke", {"name": params.name, "args": args, "sessionKey": self._target}
            )
        except MethodError as error:
            return _result(error.message, error=True)
        if not told["ok"]:
            return _result(told["error"]["message"], error=True)
        return mcp_types.CallToolResult(content=[_block(block) for block in told["output"]["content"]])

    async def _readers(self) -> list[dict[str, Any]]:
        """Not those of other MCP servers: whoever wants them connects to them."""
        told = await self._link.call("tools.effective", {"sessionKey": self._target, "includeSchemas": True})
        rows = [row for group in told["groups"] for row in group["tools"]]
        return [row for row in rows if row["effect"] == "pure" and not row.get("pluginId", "").startswith("bundle-mcp")]

    async def _said(self, message: str, session: str) -> mcp_types.CallToolResult:
        asked = {"message": message, "sessionKey": session, "idempotencyKey": str(uuid.uuid4()), "deliver": False}
        told = await self._link.call("agent", asked, final=True)
        parts = (told.get("result") or {}).get("payloads") or ()
        text = "\n".join(str(part.get("text") or "") for part in parts)
        return _result(text or str(told.get("summary") or "(no answer)"), error=told.get("status") != "ok")


def _block(block: dict[str, Any]) -> mcp_types.TextContent | mcp_types.ImageContent:
    if block.get("type") == "image":
        return mcp_types.ImageContent(type="image", data=block["data"], mime_type=block["mimeType"])
    return mcp_types.TextContent(type="text", text=str(block.get("text") or ""))


def _result(text: str, *, error: bool = False) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=text)], is_error=error)


async def serve_mcp(link: GatewayLink, target: str, send: bool, streams: tuple[Any, Any] | None = None) -> None:
    """Until the other agent closes its end; then the link is closed too. `streams`: other than stdio."""
    face = McpGatewayServer(link, target, send=send)
    server: Server[Any] = Server("palinurus", version=__version__, on_list_tools=face.tools, on_call_tool=face.call)
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
