"""POST /mcp: the official client against a whole gateway, with the rights of its credential."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from flow.test_app import running
from flow.test_http import served
from gateway.host import TOKEN
from palinurus.testing.model import ScriptedModel, say


@asynccontextmanager
async def client(home: Path) -> AsyncIterator[tuple[ClientSession, str]]:
    async with running(home, ScriptedModel([say("Hello, agent.")])) as app, served(app) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
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
