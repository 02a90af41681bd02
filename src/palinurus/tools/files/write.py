"""The write tool: a whole file, replaced in one step."""

from __future__ import annotations

import asyncio
from typing import Any

from palinurus.core.types.tool import Tool, ToolContext, ToolOutput, make_output
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path, shorten_path


async def write_file(ctx: ToolContext, path: str, content: str) -> ToolOutput:
    """Raises ToolFailure."""
    place = resolve_path(path, ctx)
    data = content.encode()
    async with handles.lock_path(place):
        if len(data) < handles.SMALL_FILE:
            new = handles.replace_file(place, data)
        else:
            new = await asyncio.to_thread(handles.replace_file, place, data)
    text = f"{'Created' if new else 'Replaced'} {shorten_path(place.given)} ({len(data)} bytes)."
    return make_output(text, {"path": place.real, "bytes": len(data), "created": new})


def _summary(args: dict[str, Any]) -> str:
    return shorten_path(str(args.get("path") or args.get("file_path") or ""))


WRITE_TOOL = Tool(
    name="write",
    description="Write a file: creates it and its folders, or replaces all of it. To change a part, use edit.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File, relative to the workspace or absolute"},
            "content": {"type": "string", "description": "The complete new content"},
        },
        "required": ["path", "content"],
    },
    run=write_file,
    effect="idempotent",
    summary=_summary,
    aliases={"file_path": "path", "file": "path", "filename": "path", "contents": "content", "text": "content"},
)
