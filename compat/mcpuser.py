"""The Python SDK's client against our server, run by an environment that has it: `mcpuser.py http URL KEY`, or
`mcpuser.py stdio COMMAND …`; a row of JSON a check."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

WAY, *REST = sys.argv[1:]
MAIN = "session://agent%3Amain%3Amain"


def tell(name: str, ok: bool, said: object = "") -> None:
    """One row."""
    print(json.dumps({"name": name, "ok": bool(ok), "said": str(said)[:1500]}), flush=True)


@asynccontextmanager
async def open_streams() -> AsyncIterator[Any]:
    """Either way."""
    if WAY == "http":
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {REST[1]}"}, timeout=60) as http:
            async with streamable_http_client(REST[0], http_client=http) as streams:
                yield streams
    else:
        async with stdio_client(StdioServerParameters(command=REST[0], args=REST[1:])) as streams:
            yield streams


async def visit() -> None:
    """Everything that a client may want of a server."""
    heard: list[str] = []
    steps: list[str] = []

    async def listen(message: Any) -> None:
        heard.append(str(getattr(message, "method", "")))

    async def step(done: float, total: float | None, message: str | None) -> None:
        steps.append(message or "")

    async with open_streams() as (read, write, *_), ClientSession(read, write, message_handler=listen) as session:
        began = await session.initialize()
        tell("initialize", began.protocol_version == "2025-11-25", began)
        names = [one.name for one in (await session.list_tools()).tools]
        tell("tools", "read" in names and "sessions_send" in names, names)
        got = await session.call_tool("read", {"path": "note.txt"})
        tell("a call", "inside" in str(got.content), got)
        tell("an error is a result", (await session.call_tool("exec", {"command": "id"})).is_error)
        said = await session.call_tool("sessions_send", {"message": "read note.txt"}, progress_callback=step)
        tell("speaking to the agent, with its steps", "inside" in str(said.content) and bool(steps), (said, steps))
        await session.subscribe_resource(MAIN)
        await session.call_tool("sessions_send", {"message": "hello"})
        for _ in range(100):
            if any("updated" in one for one in heard):
                break
            await asyncio.sleep(0.1)
        tell("a conversation that is followed is told of", any("updated" in one for one in heard), heard)
        tell("resources", MAIN in [str(one.uri) for one in (await session.list_resources()).resources])
        tell("reading one", "hello" in str((await session.read_resource(MAIN)).contents))
        tell("templates", bool((await session.list_resource_templates()).resource_templates))
        prompts = (await session.list_prompts()).prompts
        tell("prompts", bool(prompts), prompts)
        tell("a prompt", bool((await session.get_prompt(prompts[0].name)).messages))
        tell("ping", (await session.send_ping()) is not None)


asyncio.run(visit())
