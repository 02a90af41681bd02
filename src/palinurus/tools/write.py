"""The write tool: a whole file, replaced in one step."""

from __future__ import annotations

import asyncio
from typing import Any

from palinurus.core.types.tool import Tool, ToolContext, ToolOutput, make_output
from palinurus.tools import files
from palinurus.tools.paths import brief, resolve


async def write(ctx: ToolContext, path: str, content: str) -> ToolOutput:
    """Raises ToolFailure."""
    place = resolve(path, ctx)
    data = content.encode()
    async with files.alone(place):
        if len(data) < files.SMALL:
            new = files.replace(place, data)
        else:
            new = await asyncio.to_thread(files.replace, place, data)
    text = f"{'Created' if new else 'Replaced'} {brief(place.given)} ({len(data)} bytes)."
    return make_output(text, {"path": place.real, "bytes": len(data), "created": new})


def _summary(args: dict[str, Any]) -> str:
    return brief(str(args.get("path") or args.get("file_path") or ""))


TOOL = Tool(
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
    run=write,
    effect="idempotent",
    summary=_summary,
    aliases={"file_path": "path", "file": "path", "filename": "path", "contents": "content", "text": "content"},
)
