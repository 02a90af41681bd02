"""What another agent gets of us by MCP: tools that only read, sessions as resources, skills as prompts. Knows the SDK's
types, and asks through the gateway's methods, over a link (`pal mcp serve`) or inside the gateway (`endpoint.py`).

Only tools that read are passed on, judged by the session's policy; what the owner noted (memory) only with leave.
"""

from __future__ import annotations

import uuid
from typing import Any, Protocol
from urllib.parse import quote, unquote

import mcp_types
from mcp.shared.exceptions import MCPError

from palinurus.core.policy.audience import MEMORY_FILES
from palinurus.gateway.rpc import MethodError


class MethodLink(Protocol):
    """Who calls methods of the gateway, with the rights of whoever asks."""

    async def call(self, method: str, params: dict[str, Any], *, final: bool = False) -> Any:
        """What the method answers; with `final` the last answer. Raises MethodError."""
        ...


SEND = "sessions_send"
SHOWN, MESSAGES = 50, 200  # sessions in the list, messages of one
NO_RESOURCE = -32002  # what the protocol says for one that is not there
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

    def __init__(self, link: MethodLink, target: str, *, send: bool, memory: bool = False) -> None:
        self._link = link
        self._target = target
        self._send = send
        self._memory = memory

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

    async def resources(self, _: Any, __: Any) -> mcp_types.ListResourcesResult:
        """Conversations, the newest first; with leave the files of the owner's memory."""
        told = await self._ask("sessions.list", {"limit": SHOWN, "includeDerivedTitles": True})
        rows = [_describe_session(row) for row in told["sessions"]]
        if self._memory:
            files = (await self._ask("agents.files.list", {"agentId": self._agent}))["files"]
            rows += [
                mcp_types.Resource(uri=f"memory://{file['name']}", name=file["name"], mime_type="text/markdown")
                for file in files
                if file["name"].lower() in MEMORY_FILES and not file["missing"]
            ]
        return mcp_types.ListResourcesResult(resources=rows)

    async def read(self, _: Any, params: mcp_types.ReadResourceRequestParams) -> mcp_types.ReadResourceResult:
        """One of them, as text."""
        uri = str(params.uri)
        kind, _sep, name = uri.partition("://")
        name = unquote(name)
        if kind == "session":
            told = await self._ask("sessions.get", {"key": name, "limit": MESSAGES})
            text, mime = "\n\n".join(_write_message(one) for one in told["messages"]), "text/plain"
        elif kind == "memory" and self._memory and name.lower() in MEMORY_FILES:
            told = await self._ask("agents.files.get", {"agentId": self._agent, "name": name})
            text, mime = str(told["file"].get("content") or ""), "text/markdown"
        else:
            raise MCPError(NO_RESOURCE, f"no resource {uri[:200]}")
        found = mcp_types.TextResourceContents(uri=uri, mime_type=mime, text=text)
        return mcp_types.ReadResourceResult(contents=[found])

    async def prompts(self, _: Any, __: Any) -> mcp_types.ListPromptsResult:
        """Skills that people may call."""
        asks = [mcp_types.PromptArgument(name="input", description="What it is to be done with", required=False)]
        rows = [
            mcp_types.Prompt(name=row["name"], description=row["description"], arguments=asks)
            for row in await self._skills()
        ]
        return mcp_types.ListPromptsResult(prompts=rows)

    async def prompt(self, _: Any, params: mcp_types.GetPromptRequestParams) -> mcp_types.GetPromptResult:
        """A skill's instructions, read through the gate as the agent reads them."""
        row = next((row for row in await self._skills() if row["name"] == params.name), None)
        if row is None:
            raise MCPError(mcp_types.INVALID_PARAMS, f"no prompt {params.name[:80]}")
        asked = {"name": "read", "args": {"path": row["filePath"]}, "sessionKey": self._target}
        told = await self._ask("tools.invoke", asked)
        parts = [str(one.get("text") or "") for one in told["output"]["content"]] if told["ok"] else []
        body = "\n".join(parts) or row["description"]
        given = (params.arguments or {}).get("input", "")
        text = f"Follow the skill {params.name}:\n\n{body}" + (f"\n\nInput: {given}" if given else "")
        said = mcp_types.PromptMessage(role="user", content=mcp_types.TextContent(type="text", text=text))
        return mcp_types.GetPromptResult(description=row["description"], messages=[said])

    async def complete(self, _: Any, params: mcp_types.CompleteRequestParams) -> mcp_types.CompleteResult:
        """A skill's input is free text: there is nothing to choose from."""
        return mcp_types.CompleteResult(completion=mcp_types.Completion(values=[], has_more=False))

    @property
    def _agent(self) -> str:
        return self._target.split(":")[1]

    async def _skills(self) -> list[dict[str, Any]]:
        told = await self._ask("skills.status", {"agentId": self._agent})
        return [row for row in told["skills"] if row["commandVisible"] and not row["disabled"]]

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            told: dict[str, Any] = await self._link.call(method, params)
            return told
        except MethodError as error:
            raise MCPError(mcp_types.INVALID_PARAMS, error.message) from None

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


def _describe_session(row: dict[str, Any]) -> mcp_types.Resource:
    title = row.get("label") or row.get("displayName") or row.get("derivedTitle") or row["key"]
    return mcp_types.Resource(uri=f"session://{quote(row['key'])}", name=str(title)[:200], mime_type="text/plain")


def _write_message(one: dict[str, Any]) -> str:
    content = one.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    said = " ".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
    return f"{one.get('role')}: {said.strip()}"
