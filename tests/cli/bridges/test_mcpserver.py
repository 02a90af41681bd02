"""Our tools for another agent: the official client on one side, a whole program on the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.session import ClientSession
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from flow.test_app import running, until
from flow.test_http import served
from gateway.host import TOKEN
from palinurus.cli.bridges.mcpserver import VERSION, McpPipe, _list_headers
from palinurus.cli.reach.http import GatewayEndpoint
from palinurus.gateway.rpc import ADMIN, READ, WRITE
from palinurus.testing.model import ScriptedModel, say
from tools.mcp.kit import TINY


@asynccontextmanager
async def client(
    tmp_path: Path, *, send: bool = True, memory: bool = False, newest: bool = False, **changes: Any
) -> AsyncIterator[ClientSession]:
    """The official client at the pipe's two ends."""
    there, here = (anyio.create_memory_object_stream[Any](64) for _ in range(2))
    async with running(tmp_path / "h", ScriptedModel([say("Hello, agent.")]), **changes) as app, served(app) as gateway:
        address = GatewayEndpoint("127.0.0.1", gateway.port, TOKEN, remote=True)
        scopes = f"{READ},{WRITE}" + (f",{ADMIN}" if memory else "")

        async def lines() -> AsyncIterator[bytes]:
            async for sent in there[1]:
                yield sent.message.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n"

        def told(line: bytes) -> None:
            here[0].send_nowait(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

        pipe = McpPipe(address, {"session": "agent:main:main", "send": "1" if send else "0"}, scopes, told)
        task = asyncio.create_task(pipe.run(lines()))
        async with ClientSession(here[1], there[0]) as session:
            await (session.discover() if newest else session.initialize())
            yield session
        there[0].close()
        async with asyncio.timeout(60):
            await task
        await until(lambda: gateway.mcp is not None and len(gateway.mcp) == 0)  # the session ends with the pipe


def text(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def test_only_tools_that_read_are_offered_and_they_work(tmp_path: Path) -> None:
    async with client(tmp_path, mcp={"servers": {"tiny": TINY}}) as session:
        offered = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert {"read", "grep", "sessions_list", "sessions_history", "sessions_send"} <= set(offered)
        assert not {"exec", "write", "edit", "apply_patch", "sessions_spawn", "process"} & set(offered)
        assert not any(name.startswith("tiny__") for name in offered)
        assert "path" in offered["read"].input_schema["properties"]
        (tmp_path / "h" / "workspace" / "note.txt").write_text("inside")
        assert "inside" in text(await session.call_tool("read", {"path": "note.txt"}))
        refused = await session.call_tool("exec", {"command": "id"})
        assert refused.is_error and "not available" in text(refused)


async def test_policy_holds_here_too(tmp_path: Path) -> None:
    async with client(tmp_path, tools={"deny": ["read"]}) as session:
        assert "read" not in {tool.name for tool in (await session.list_tools()).tools}
        refused = await session.call_tool("read", {"path": "note.txt"})
        assert refused.is_error


async def test_a_session_is_spoken_to_and_seen(tmp_path: Path) -> None:
    async with client(tmp_path) as session:
        assert text(await session.call_tool("sessions_send", {"message": "hi"})) == "Hello, agent."
        assert "agent:main:main" in text(await session.call_tool("sessions_list", {}))
        assert "Hello, agent." in text(await session.call_tool("sessions_history", {"sessionKey": "main"}))


async def test_sending_can_be_left_out(tmp_path: Path) -> None:
    async with client(tmp_path, send=False) as session:
        assert "sessions_send" not in {tool.name for tool in (await session.list_tools()).tools}
        assert (await session.call_tool("sessions_send", {"message": "hi"})).is_error


async def test_conversations_and_skills_are_resources_and_prompts_and_memory_only_with_leave(tmp_path: Path) -> None:
    async with client(tmp_path) as session:
        folder = tmp_path / "h" / "workspace"
        (folder / "MEMORY.md").write_text("the boat is called Halcyon")
        (folder / "skills" / "boats").mkdir(parents=True)
        (folder / "skills" / "boats" / "SKILL.md").write_text(
            "---\nname: boats\ndescription: Paints.\n---\nTake blue.\n"
        )
        await session.call_tool("sessions_send", {"message": "hi there"})
        (one,) = (await session.list_resources()).resources
        assert str(one.uri) == "session://agent%3Amain%3Amain"
        told = (await session.read_resource(one.uri)).contents[0]
        assert "user: hi there" in told.text and "assistant: Hello, agent." in told.text  # type: ignore[union-attr]
        for uri in ("memory://MEMORY.md", "file:///etc/passwd"):
            with pytest.raises(MCPError):
                await session.read_resource(uri)
        assert "boats" in {prompt.name for prompt in (await session.list_prompts()).prompts}
        got = await session.get_prompt("boats", {"input": "the dinghy"})
        assert "Take blue." in str(got.messages[0].content) and "Input: the dinghy" in str(got.messages[0].content)
        with pytest.raises(MCPError, match="no prompt"):
            await session.get_prompt("nothing")


async def test_memory_with_leave(tmp_path: Path) -> None:
    async with client(tmp_path, memory=True) as session:
        (tmp_path / "h" / "workspace" / "MEMORY.md").write_text("the boat is called Halcyon")
        assert "memory://MEMORY.md" in {str(one.uri) for one in (await session.list_resources()).resources}
        assert "Halcyon" in (await session.read_resource("memory://MEMORY.md")).contents[0].text  # type: ignore[union-attr]
        with pytest.raises(MCPError):
            await session.read_resource("memory://../palinurus.json")


def test_a_tasks_name_is_repeated_in_the_headers() -> None:
    asked = {"id": 1, "method": "tasks/get", "params": {"taskId": "t", "_meta": {VERSION: "2026-07-28"}}}
    assert _list_headers(asked)["Mcp-Name"] == "t"


async def test_the_revision_without_sessions_through_the_pipe(tmp_path: Path) -> None:
    async with client(tmp_path, newest=True) as session:
        assert session.protocol_version == "2026-07-28"
        (tmp_path / "h" / "workspace" / "n\u00f6te.txt").write_text("inside")
        assert "inside" in text(await session.call_tool("read", {"path": "n\u00f6te.txt"}))
        assert text(await session.call_tool("sessions_send", {"message": "hi"})) == "Hello, agent."
        with pytest.raises(MCPError):
            await session.read_resource("note://n\u00f6thing")
        async with listen(session, tools_list_changed=True) as news:  # and closing it is a cancellation
            assert news.honored.tools_list_changed
