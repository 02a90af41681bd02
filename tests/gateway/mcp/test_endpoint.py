"""POST /mcp: the official client against a whole gateway, with the rights of its credential."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from flow.test_app import running
from flow.test_http import served
from gateway.host import TOKEN
from palinurus.testing.model import ScriptedModel, call_tools, say


@asynccontextmanager
async def client(home: Path) -> AsyncIterator[tuple[ClientSession, str]]:
    async with running(home, ScriptedModel([say("Hello, agent.")])) as app, served(app) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, verify=False) as http:
            async with streamable_http_client(url, http_client=http) as (read, write):
                async with ClientSession(read, write) as session:
                    await session.initialize()
                    yield session, url


async def test_tools_resources_prompts_over_http(tmp_path: Path) -> None:
    async with client(tmp_path / "h") as (session, url):
        (tmp_path / "h" / "workspace" / "note.txt").write_text("inside")
        (tmp_path / "h" / "workspace" / "MEMORY.md").write_text("Halcyon")
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert {"read", "sessions_send"} <= names and "exec" not in names
        assert "inside" in str((await session.call_tool("read", {"path": "note.txt"})).content)
        assert "Hello, agent." in str((await session.call_tool("sessions_send", {"message": "hi"})).content)
        uris = {str(one.uri) for one in (await session.list_resources()).resources}
        assert "session://agent%3Amain%3Amain" in uris and "memory://MEMORY.md" in uris  # the owner's credential
        assert "user: hi" in str((await session.read_resource("session://agent%3Amain%3Amain")).contents)
        await session.list_prompts()
        await session.send_ping()
        with pytest.raises(MCPError, match="no prompt"):
            await session.get_prompt("nothing")
        async with aiohttp.ClientSession() as bare:
            async with bare.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}) as refused:
                assert refused.status == 401
            key = {"Authorization": f"Bearer {TOKEN}"}
            for body, status, code in (
                ({"jsonrpc": "2.0", "id": 1, "method": "nothing/such"}, 200, -32601),
                ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, 200, -32602),
                ([1], 400, -32600),
            ):
                async with bare.post(url, json=body, headers=key) as answer:
                    assert answer.status == status and (await answer.json())["error"]["code"] == code
            async with bare.post(url, json={"jsonrpc": "2.0", "method": "notifications/x"}, headers=key) as answer:
                assert answer.status == 202


async def test_a_session_over_http_streams_and_ends(tmp_path: Path) -> None:
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    model = ScriptedModel([call_tools(("read", {"path": "note.txt"})), say("Read."), say("Again.")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway:
        url, key = f"http://127.0.0.1:{gateway.port}/mcp", {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(headers=key) as bare:

            async def post(method: str, ident: int | None = 1, **params: Any) -> aiohttp.ClientResponse:
                number = {} if ident is None else {"id": ident}
                return await bare.post(url, json={"jsonrpc": "2.0", **number, "method": method, "params": params})

            begun = await post("initialize", **start)
            ident = begun.headers["Mcp-Session-Id"]
            bare.headers["Mcp-Session-Id"] = ident
            assert (await begun.json())["result"]["capabilities"]["resources"]["subscribe"] is True
            await post("resources/subscribe", uri="session://agent%3Amain%3Amain")
            news = await bare.get(url)
            said = {"name": "sessions_send", "arguments": {"message": "hi"}, "_meta": {"progressToken": 5}}
            told = await post("tools/call", 2, **said)
            assert told.content_type == "text/event-stream"
            text = (await told.read()).decode()
            assert text.startswith("retry: ") and '"progressToken":5' in text and "Read." in text
            number = text.rpartition("id: ")[2].partition("\n")[0]  # of the answer
            name, _, last = number.partition("-")
            again = await bare.get(url, headers={"Last-Event-ID": f"{name}-{int(last) - 1}"})
            assert "Read." in (await again.read()).decode()  # the rest, once more
            async with asyncio.timeout(20):
                await news.content.readuntil(b"resources/updated")
            assert (await bare.post(url, json={"jsonrpc": "2.0", "id": 9, "result": {}})).status == 202
            narrowed = {"x-openclaw-scopes": "operator.read"}
            listed = await bare.post(url, json={"jsonrpc": "2.0", "id": 3, "method": "tools/list"}, headers=narrowed)
            assert "sessions_send" not in await listed.text()
            assert (await bare.get(url, headers={"MCP-Protocol-Version": "1999-01-01"})).status == 400
            assert (await bare.delete(url)).status == 204
            assert (await post("ping")).status == 404
            del bare.headers["Mcp-Session-Id"]
            assert (await post("ping")).status == 200 and (await bare.get(url)).status == 400
