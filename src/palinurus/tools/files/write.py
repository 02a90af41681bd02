"""The write tool: a whole file, replaced in one step."""

from __future__ import annotations

from typing import Annotated

from palinurus.core.types.tool import ToolContext, ToolOutput, make_output
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.buffers import put_file
from palinurus.tools.files.paths import resolve_path, shorten_path


@define_tool(
    "write",
    effect="idempotent",
    summary=("path", "file_path"),
    aliases={"path": "file_path file filename", "content": "contents text"},
)
async def write_file(
    ctx: ToolContext,
    path: Annotated[str, "File, relative to the workspace or absolute"],
    content: Annotated[str, "The complete new content"],
) -> ToolOutput:
    """Write a file: creates it and its folders, or replaces all of it. To change a part, use edit."""
    place = resolve_path(path, ctx)
    data = content.encode()
    async with handles.lock_path(place):
        put = await put_file(ctx, place, data)
    text = f"{'Created' if put.new else 'Replaced'} {shorten_path(place.given)} ({len(data)} bytes).{put.note}"
    return make_output(text, {"path": place.real, "bytes": len(data), "created": put.new})
