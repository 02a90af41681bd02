"""POST /mcp without sessions (MCP 2026-07-28): the official client, which finds out by itself, and single requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import mcp_types
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from flow.test_app import settings, until
from flow.test_http import served
from gateway.host import TOKEN
from palinurus import tool
from palinurus.app.program import App
from palinurus.clock import SystemClock
from palinurus.plugins.api import PluginContributions
from palinurus.plugins.peer import find_mcp_peer
from palinurus.testing.model import ScriptedModel, say

KEY = {"Authorization": f"Bearer {TOKEN}"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def brought() -> PluginContributions:
    @tool(effect="pure")
    async def greet() -> str:
        """Asks twice, once alone and once beside the model."""
        peer = find_mcp_peer()
        assert peer is not None
        first = await peer.elicit("Who?", FORM, "who")
        said = {"role": "user", "content": {"type": "text", "text": "greet"}}
        told, roots = await asyncio.gather(peer.sample([said], 10), peer.roots())
        peer.progress(1, 1)
        return f"{first['content']['name']} {told['content']['text']} {len(roots)}"

    @tool(effect="pure")
    async def hang() -> str:
        """Waits to be stopped."""
        try:
            await asyncio.sleep(3600)
        finally:
            STOPPED.set()
        return ""

    return PluginContributions(tools={one.name: one for one in (greet, hang)})


STOPPED: Any = None


@asynccontextmanager
async def gateway(home: Path) -> AsyncIterator[str]:
    global STOPPED
    STOPPED = asyncio.Event()
    model = ScriptedModel([say("Hello, agent.")])
    app = App(settings(home), {}, SystemClock(), model=model, given=brought())
    await app.start()
    try:
        async with served(app) as server:
            yield f"http://127.0.0.1:{server.port}/mcp"
    finally:
        await app.stop()


@asynccontextmanager
async def official(url: str, **more: Any) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=KEY, verify=False) as http:
        async with Client(streamable_http_client(url, http_client=http), **more) as client:
            yield client


async def answer(context: Any, params: Any) -> Any:
    if isinstance(params, mcp_types.CreateMessageRequestParams):
        said = mcp_types.TextContent(type="text", text="hello")
        return mcp_types.CreateMessageResult(role="assistant", content=said, model="m")
    return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})


async def roots(context: Any) -> Any:
    return mcp_types.ListRootsResult(roots=[])


async def test_the_official_client_needs_no_session(tmp_path: Path) -> None:
    hands = {"elicitation_callback": answer, "sampling_callback": answer, "list_roots_callback": roots}
    async with gateway(tmp_path / "h") as url, official(url, **hands) as client:
        assert client.protocol_version == "2026-07-28" and client.server_info is not None
        names = {one.name for one in (await client.list_tools()).tools}
        assert {"read", "sessions_send", "greet"} <= names and "exec" not in names
        told = await client.call_tool("greet", {})
        assert "Ada hello 0" in str(told.content)
        assert "Hello, agent." in str((await client.call_tool("sessions_send", {"message": "hi"})).content)
        assert "user: hi" in str((await client.read_resource("session://agent%3Amain%3Amain")).contents)
        with pytest.raises(MCPError) as missing:
            await client.read_resource("note://nothing")
        assert missing.value.code == -32602


async def test_a_client_without_a_person_is_told_what_it_lacks(tmp_path: Path) -> None:
    async with gateway(tmp_path / "h") as url, official(url) as client:
        with pytest.raises(MCPError) as lacking:
            await client.call_tool("greet", {})
        assert lacking.value.code == -32021


async def test_what_changes_is_told_to_who_listens(tmp_path: Path) -> None:
    async with gateway(tmp_path / "h") as url, official(url) as client:
        async with client.listen(tools_list_changed=True, resource_subscriptions=["session://agent:main:main"]) as news:
            assert news.honored.tools_list_changed
            await client.call_tool("sessions_send", {"message": "hi"})
            event = await asyncio.wait_for(anext(news), 60)
            assert "agent:main:main" in str(event)


async def post(http: aiohttp.ClientSession, url: str, method: str, params: dict[str, Any], **headers: str) -> Any:
    usual = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
    named = {name.replace("_", "-"): one for name, one in {**usual, **headers}.items() if one}
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": META, **params}}
    return await http.post(url, json=body, headers=named)


@pytest.mark.parametrize(
    ("method", "params", "headers", "status", "code"),
    [
        ("tools/list", {"_meta": {}}, {}, 400, -32602),
        ("tools/list", {}, {"Mcp_Method": "tools/call"}, 400, -32020),
        ("tools/list", {}, {"MCP_Protocol_Version": "2025-11-25"}, 200, 0),  # an older one: as ever
        ("tools/list", {}, {"MCP_Protocol_Version": "2031-01-01"}, 400, -32020),
        ("tools/list", {}, {"MCP_Protocol_Version": ""}, 400, -32020),
        ("tools/call", {"name": "greet"}, {"Mcp_Name": "read"}, 400, -32020),
        ("ping", {}, {}, 404, -32601),
        ("initialize", {}, {}, 404, -32601),
        ("tools/call", {"name": "greet", "requestState": "x.0"}, {"Mcp_Name": "greet"}, 400, -32602),
    ],
)
async def test_who_disagrees_with_himself_is_refused(
    tmp_path: Path, method: str, params: dict[str, Any], headers: dict[str, str], status: int, code: int
) -> None:
    async with gateway(tmp_path / "h") as url, aiohttp.ClientSession(headers=KEY) as http:
        told = await post(http, url, method, params, **headers)
        said = await told.json()
        assert (told.status, said.get("error", {}).get("code", 0)) == (status, code), said


async def test_questions_come_as_results_and_only_right_answers_count(tmp_path: Path) -> None:
    can = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
    async with gateway(tmp_path / "h") as url, aiohttp.ClientSession(headers=KEY) as http:

        async def call(**more: Any) -> dict[str, Any]:
            told = await post(http, url, "tools/call", {"_meta": can, "name": "greet", **more}, Mcp_Name="greet")
            if "event-stream" in told.headers["Content-Type"]:
                lines = (await told.text()).splitlines()
                return dict(json.loads(next(line for line in reversed(lines) if line.startswith("data:"))[5:]))
            return dict(await told.json())

        first = (await call())["result"]
        assert first["resultType"] == "input_required" and list(first["inputRequests"]) == ["who"]
        wrong = {"who": {"action": "accept", "content": {"name": 7}}}
        again = (await call(requestState=first["requestState"], inputResponses=wrong))["result"]
        assert list(again["inputRequests"]) == ["who"] and again["requestState"] != first["requestState"]
        right = {"who": {"action": "accept", "content": {"name": "Ada"}}, "other": {}}
        assert (await call(requestState=first["requestState"], inputResponses=right))["error"]["code"] == -32602
        more = (await call(requestState=again["requestState"], inputResponses=right))["result"]
        assert sorted(more["inputRequests"]) == ["roots-3", "sampling-2"]
        given = {"roots-3": {"roots": []}, "sampling-2": {"content": {"type": "text", "text": "hello"}}}
        last = (await call(requestState=more["requestState"], inputResponses=given))["result"]
        assert last["resultType"] == "complete" and last["content"][0]["text"] == "Ada hello 0"


async def test_who_hangs_up_wants_it_no_more(tmp_path: Path) -> None:
    async with gateway(tmp_path / "h") as url:
        async with aiohttp.ClientSession(headers=KEY) as http:
            asking = asyncio.ensure_future(post(http, url, "tools/call", {"name": "hang"}, Mcp_Name="hang"))
            await asyncio.sleep(0.1)
            asking.cancel()
        await until(lambda: STOPPED.is_set())
