"""What another agent gets of us by MCP: tools that only read, sessions as resources, skills as prompts, and what
plugins bring for it. Answers one method at a time, in the words of the protocol; asks through the gateway's methods,
with the rights of the caller.

Only tools that read are passed on, judged by the session's policy; what the owner noted (memory) only with leave.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote, unquote

from palinurus import __version__
from palinurus.core.policy.audience import MEMORY_FILES
from palinurus.gateway.rpc import MethodError
from palinurus.plugins.peer import MCP_CONTENT, PluginPrompt, PluginResource, find_mcp_peer

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NO_RESOURCE = -32002
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # the newest first
SEND = "sessions_send"
SHOWN, MESSAGES, COMPLETED = 50, 200, 100  # sessions in the list, messages of one, values of a completion
SESSION = "session://{key}"
Params = dict[str, Any]
CAPABILITIES: Params = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to say to the agent"},
        "sessionKey": {"type": "string", "description": "Which session (sessions_list); default: the main one"},
    },
    "required": ["message"],
}


_STATUS = {"open": "working", "done": "completed", "aborted": "cancelled"}


class McpFault(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def describe(self) -> Params:
        """The `error` of an answer."""
        return {"code": self.code, "message": self.message, **({"data": self.data} if self.data is not None else {})}


class MethodLink(Protocol):
    """Who calls methods of the gateway, with the rights of whoever asks."""

    async def call(self, method: str, params: Params, *, begun: Callable[[], None] | None = None) -> Any:
        """What the method answers. One that answers twice calls `begun` with the first. Raises MethodError."""
        ...


class McpFace:
    """Answers another agent's requests through the gateway."""

    def __init__(self, link: MethodLink, target: str, *, send: bool, memory: bool = False) -> None:
        self._link = link
        self._target = target
        self._send = send
        self._memory = memory
        self.resources: Mapping[str, PluginResource] = {}
        self.prompts: Mapping[str, PluginPrompt] = {}
        self._table: Mapping[str, Callable[[Params], Awaitable[Params]]] = {
            "initialize": self._initialize,
            "ping": _answer_nothing,
            "tools/list": self._list_tools,
            "tools/call": self._call,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }

    async def answer(self, method: str, params: Params) -> Params:
        """The result. Raises McpFault."""
        serve = self._table.get(method)
        if serve is None:
            raise McpFault(NO_METHOD, f"Method not found: {method[:80]}")
        try:
            return await serve(params)
        except MethodError as error:
            raise McpFault(INVALID_PARAMS, error.message) from None

    async def _initialize(self, params: Params) -> Params:
        wanted = params.get("protocolVersion")
        info = {"name": "palinurus", "version": __version__}
        version = wanted if wanted in VERSIONS else VERSIONS[0]
        return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": info}

    # --- tools ------------------------------------------------------------------------------------------------

    async def _list_tools(self, _: Params) -> Params:
        """What this session's policy offers, as far as it only reads."""
        rows = [
            {
                "name": row["id"],
                "description": row["about"],
                "inputSchema": row["parameters"],
                "annotations": {"readOnlyHint": True},
            }
            for row in await self._readers()
        ]
        if self._send:
            about = "Say something to the agent and wait for its answer."
            rows.append({"name": SEND, "description": about, "inputSchema": _SCHEMA})
        return {"tools": rows}

    async def _call(self, params: Params) -> Params:
        """One call; errors are results."""
        name, args = _take(params, "name", str), _take(params, "arguments", dict, {})
        try:
            if name == SEND and self._send:
                return await self._say(str(args.get("message") or ""), str(args.get("sessionKey") or self._target))
            if name not in {row["id"] for row in await self._readers()}:
                return _result(f"Tool not available: {name[:80]}", error=True)
            told = await self._link.call("tools.invoke", {"name": name, "args": args, "sessionKey": self._target})
        except MethodError as error:
            return _result(error.message, error=True)
        if not told["ok"]:
            return _result(told["error"]["message"], error=True)
        details = told["output"]["details"]
        own = details.get(MCP_CONTENT) if isinstance(details, dict) else None
        return {"content": own or [_block(block) for block in told["output"]["content"]]}

    async def find_schema(self, name: Any) -> Params:
        """Of a tool's arguments; {} for one that is not offered."""
        return next((row["parameters"] for row in await self._readers() if row["id"] == name), {})

    async def _readers(self) -> list[Params]:
        """Not those of other MCP servers: whoever wants them connects to them."""
        told = await self._link.call("tools.effective", {"sessionKey": self._target, "includeSchemas": True})
        rows = [row for group in told["groups"] for row in group["tools"]]
        return [row for row in rows if row["effect"] == "pure" and not row.get("pluginId", "").startswith("bundle-mcp")]

    async def _say(self, message: str, session: str) -> Params:
        """On disk before anything else: a client that goes away finds the answer in the session, and one that comes
        back for it (a task) by the name of the run."""
        run, peer, kept = str(uuid.uuid4()), find_mcp_peer(), False

        def keep() -> None:
            nonlocal kept
            kept = peer is not None and peer.defer(run)

        asked = {"message": message, "sessionKey": session, "idempotencyKey": run, "deliver": False}
        try:
            told = await self._link.call("agent", asked, begun=keep)
        except asyncio.CancelledError:  # the client wants it no more; a task outlives this program, and has `stop`
            if not kept:
                await self._link.call("chat.abort", {"sessionKey": session, "runId": run})
            raise
        parts = (told.get("result") or {}).get("payloads") or ()
        text = "\n".join(str(part.get("text") or "") for part in parts)
        return _result(text or str(told.get("summary") or "(no answer)"), error=told.get("status") != "ok")

    async def recall(self, run: str) -> Params | None:
        """What was said to the agent under that name, in this life of the program or an earlier one, as a task: status,
        acceptedAt, endedAt (0: it goes on), sessionKey, and what it has `more`. None: nothing, or by somebody else."""
        try:
            found: Params = await self._link.call("agent.result", {"runId": run})
        except MethodError:
            return None
        if found["status"] == "done":
            found["more"] = {"result": _result(found["text"] or "(no answer)", error=found["failed"])}
        return {"more": {}, **found, "status": _STATUS[found["status"]]}

    async def stop(self, run: str) -> None:
        """Nobody wants that any more."""
        if (found := await self.recall(run)) is not None and not found["endedAt"]:
            await self._link.call("chat.abort", {"sessionKey": found["sessionKey"], "runId": run})

    # --- resources --------------------------------------------------------------------------------------------

    async def _list_resources(self, _: Params) -> Params:
        """Conversations, the newest first; with leave the files of the owner's memory; those of plugins."""
        told = await self._link.call("sessions.list", {"limit": SHOWN, "includeDerivedTitles": True})
        rows = [_describe_session(row) for row in told["sessions"]]
        rows += [{"uri": f"memory://{name}", "name": name, "mimeType": "text/markdown"} for name in await self.dates()]
        rows += [{"uri": uri, **_describe(one)} for uri, one in self.resources.items() if "{" not in uri]
        return {"resources": rows}

    async def _list_templates(self, _: Params) -> Params:
        ours = {"name": "A conversation", "description": "By its session key", "mimeType": "text/plain"}
        rows = [{"uriTemplate": uri, **_describe(one)} for uri, one in self.resources.items() if "{" in uri]
        return {"resourceTemplates": [{"uriTemplate": SESSION, **ours}, *rows]}

    async def _read(self, params: Params) -> Params:
        uri = _take(params, "uri", str)
        kind, _, name = uri.partition("://")
        name = unquote(name)
        if kind == "session":
            told = await self._link.call("sessions.get", {"key": name, "limit": MESSAGES})
            text, mime = "\n\n".join(_write_message(one) for one in told["messages"]), "text/plain"
        elif kind == "memory" and self._memory and name.lower() in MEMORY_FILES:
            told = await self._link.call("agents.files.get", {"agentId": self._agent, "name": name})
            text, mime = str(told["file"].get("content") or ""), "text/markdown"
        else:
            return {"contents": [await self._read_brought(uri)]}
        return {"contents": [{"uri": uri, "mimeType": mime, "text": text}]}

    async def _read_brought(self, uri: str) -> Params:
        found = self._find_brought(uri)
        if found is None:
            raise McpFault(NO_RESOURCE, f"no resource {uri[:200]}")
        one, names = found
        got = one.read(**names)
        said = await got if inspect.isawaitable(got) else got
        body = {"text": said} if isinstance(said, str) else {"blob": base64.b64encode(said).decode()}
        return {"uri": uri, "mimeType": one.mime, **body}

    def _find_brought(self, uri: str) -> tuple[PluginResource, dict[str, str]] | None:
        for pattern, one in self.resources.items():
            parts = re.split(r"\{(\w+)\}", pattern)  # every second one is a name
            wanted = "".join(f"(?P<{part}>[^/]+)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
            if (match := re.fullmatch(wanted, uri)) is not None:
                return one, {name: unquote(value) for name, value in match.groupdict().items()}
        return None

    async def has(self, uri: str) -> bool:
        """Can that be read here, and so be subscribed to?"""
        kind, _, name = uri.partition("://")
        return (
            kind == "session"
            or self._find_brought(uri) is not None
            or (kind == "memory" and name in await self.dates())
        )

    async def dates(self) -> dict[str, int]:
        """The files of the owner's memory, and when each was written; none without leave."""
        if not self._memory:
            return {}
        files = (await self._link.call("agents.files.list", {"agentId": self._agent}))["files"]
        there = [one for one in files if one["name"].lower() in MEMORY_FILES and not one["missing"]]
        return {one["name"]: one["updatedAtMs"] for one in there}

    # --- prompts ----------------------------------------------------------------------------------------------

    async def _list_prompts(self, _: Params) -> Params:
        """Skills that people may call, and those of plugins."""
        asks = [{"name": "input", "description": "What it is to be done with", "required": False}]
        rows = [
            {"name": row["name"], "description": row["description"], "arguments": asks} for row in await self._skills()
        ]
        for one in self.prompts.values():
            listed = [{"name": arg.name, "description": arg.about, "required": arg.required} for arg in one.arguments]
            rows.append({"name": one.name, "description": one.about, "arguments": listed})
        return {"prompts": rows}

    async def _get_prompt(self, params: Params) -> Params:
        """A plugin's; or a skill's instructions, read through the gate as the agent reads them."""
        name, given = _take(params, "name", str), _take(params, "arguments", dict, {})
        if (brought := self.prompts.get(name)) is not None:
            missing = [arg.name for arg in brought.arguments if arg.required and arg.name not in given]
            if missing:
                raise McpFault(INVALID_PARAMS, f"the prompt needs {', '.join(missing)}")
            known = {arg.name for arg in brought.arguments}
            found = brought.make(**{key: str(value) for key, value in given.items() if key in known})
            made = await found if inspect.isawaitable(found) else found
            return {"description": brought.about, "messages": [_user(made)] if isinstance(made, str) else made}
        row = next((row for row in await self._skills() if row["name"] == name), None)
        if row is None:
            raise McpFault(INVALID_PARAMS, f"no prompt {name[:80]}")
        asked = {"name": "read", "args": {"path": row["filePath"]}, "sessionKey": self._target}
        told = await self._link.call("tools.invoke", asked)
        parts = [str(one.get("text") or "") for one in told["output"]["content"]] if told["ok"] else []
        body = "\n".join(parts) or row["description"]
        text = f"Follow the skill {name}:\n\n{body}" + (f"\n\nInput: {given['input']}" if given.get("input") else "")
        return {"description": row["description"], "messages": [_user(text)]}

    async def _skills(self) -> list[Params]:
        told = await self._link.call("skills.status", {"agentId": self._agent})
        return [row for row in told["skills"] if row["commandVisible"] and not row["disabled"]]

    async def _complete(self, params: Params) -> Params:
        """Keys of sessions, and what plugins say of their arguments; a skill's input is free text."""
        ref, argument = _take(params, "ref", dict), _take(params, "argument", dict)
        typed, name = str(argument.get("value") or ""), argument.get("name")
        found: list[str] = []
        if ref.get("uri") == SESSION and name == "key":
            told = await self._link.call("sessions.list", {"limit": COMPLETED})
            found = [row["key"] for row in told["sessions"] if typed in row["key"]]
        elif (prompt := self.prompts.get(str(ref.get("name")))) is not None:
            offered = [one for arg in prompt.arguments if arg.name == name for one in arg.choices]
            found = [one for one in offered if one.startswith(typed)]
        return {"completion": {"values": found[:COMPLETED], "total": len(found), "hasMore": len(found) > COMPLETED}}

    @property
    def _agent(self) -> str:
        return self._target.split(":")[1]


async def _answer_nothing(_: Params) -> Params:
    return {}


def _take(params: Params, name: str, kind: type, default: Any = None) -> Any:
    value = params.get(name, default)
    value = default if value is None else value
    if not isinstance(value, kind):
        raise McpFault(INVALID_PARAMS, f"params.{name} is missing or of another type")
    return value


def _block(block: Params) -> Params:
    if block.get("type") == "image":
        return {"type": "image", "data": block["data"], "mimeType": block["mimeType"]}
    return {"type": "text", "text": str(block.get("text") or "")}


def _result(text: str, *, error: bool = False) -> Params:
    return {"content": [{"type": "text", "text": text}], "isError": error}


def _user(text: str) -> Params:
    return {"role": "user", "content": {"type": "text", "text": text}}


def _describe(one: PluginResource) -> Params:
    return {"name": one.name, "description": one.about, "mimeType": one.mime}


def _describe_session(row: Params) -> Params:
    title = row.get("label") or row.get("displayName") or row.get("derivedTitle") or row["key"]
    return {"uri": f"session://{quote(row['key'], safe='')}", "name": str(title)[:200], "mimeType": "text/plain"}


def _write_message(one: Params) -> str:
    content = one.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    said = " ".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
    return f"{one.get('role')}: {said.strip()}"
