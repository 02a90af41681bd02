"""The Python SDK's own client, unmodified, with `pal acp` as its agent: prints what it met as one JSON object, as
`editors.mjs` does. Run with the Python of its own environment: the project's folder, the command …"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import acp
from acp import schema


class Editor(acp.Client):
    """Says yes, and keeps what it is told."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {"updates": [], "asked": [], "refused": ""}

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any) -> Any:
        self.seen["asked"].append(tool_call.title)
        chosen = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return acp.RequestPermissionResponse(outcome=chosen)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.seen["updates"].append(show(update))


def show(told: Any) -> Any:
    """As it went over the line."""
    return told.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(folder: str, *line: str) -> dict[str, Any]:
    editor = Editor()
    seen = editor.seen
    async with acp.spawn_agent_process(editor, *line, env=dict(os.environ)) as (agent, child):
        seen["hello"] = show(await agent.initialize(protocol_version=acp.PROTOCOL_VERSION))
        made = await agent.new_session(cwd=folder, mcp_servers=[])
        seen["made"], name = show(made), made.session_id
        prompt = [acp.text_block("write made.txt with hello")]
        seen["done"] = show(await agent.prompt(session_id=name, prompt=prompt))
        await agent.set_session_mode(session_id=name, mode_id="plan")
        seen["listed"] = show(await agent.list_sessions(cwd=folder))
        seen["loaded"] = show(await agent.load_session(cwd=folder, session_id=name, mcp_servers=[]))
        try:
            await agent.prompt(session_id="nobody", prompt=prompt)
        except acp.RequestError as error:
            seen["refused"] = str(error)
        assert child.stdin is not None
        child.stdin.close()
        seen["code"] = await child.wait()
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
