"""The edit tool: replaces exact pieces of a file. The matching is in `splice`; this reads and writes."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools import files
from palinurus.tools.paths import ResolvedPath, resolve_path, shorten_path
from palinurus.tools.splice import SpliceResult, TextEdit, find_first_line, render_diff, splice_edits

MAX_BYTES = 10_000_000
_BOM = b"\xef\xbb\xbf"


async def edit_file(ctx: ToolContext, path: str, edits: list[dict[str, str]]) -> ToolOutput:
    """Raises ToolFailure."""
    if not edits:
        raise ToolFailure("edits is empty; give at least one {oldText, newText}")
    place = resolve_path(path, ctx)
    wanted = [TextEdit(one["oldText"], one["newText"]) for one in edits]
    async with files.lock_path(place):
        if files.stat_path(place).st_size < files.SMALL_FILE:
            return _edited(place, wanted)
        return await asyncio.to_thread(_edited, place, wanted)


def _edited(place: ResolvedPath, wanted: list[TextEdit]) -> ToolOutput:
    data = _whole(place)
    bom = _BOM if data.startswith(_BOM) else b""
    # surrogateescape keeps bytes that are no UTF-8 through the round trip
    original = data[len(bom) :].decode("utf-8", "surrogateescape")
    done = splice_edits(original, wanted)
    if not isinstance(done, SpliceResult):
        raise ToolFailure(f"{shorten_path(place.given)}: {done}. Nothing was changed")
    files.replace_file(place, bom + done.text.encode("utf-8", "surrogateescape"))
    details = {
        "path": place.real,
        "diff": render_diff(original, done.spans).encode("utf-8", "replace").decode(),
        "firstChangedLine": find_first_line(original, done.spans),
    }
    places = "1 place" if len(wanted) == 1 else f"{len(wanted)} places"
    return make_output(
        f"Changed {shorten_path(place.given)} in {places}, first at line {details['firstChangedLine']}.", details
    )


def _whole(place: ResolvedPath) -> bytes:
    with files.open_file(place) as (handle, status):
        if status.st_size > MAX_BYTES:
            raise ToolFailure(
                f"{shorten_path(place.given)} is too large to edit: {status.st_size} bytes, at most {MAX_BYTES}"
            )
        pieces = []
        while piece := os.read(handle, 1 << 20):
            pieces.append(piece)
            if len(pieces) > 16:
                raise ToolFailure(f"{shorten_path(place.given)} grows while it is read; not edited")
    data = b"".join(pieces)
    if b"\x00" in data[:8192]:
        raise ToolFailure(f"{shorten_path(place.given)} is a binary file; edit changes text only")
    return data


def _summary(args: dict[str, Any]) -> str:
    return shorten_path(str(args.get("path") or args.get("file_path") or ""))


_EDIT = {
    "type": "object",
    "properties": {
        "oldText": {"type": "string", "description": "Text to replace; must occur exactly once in the file"},
        "newText": {"type": "string", "description": "Text to put there"},
    },
    "required": ["oldText", "newText"],
}

EDIT_TOOL = Tool(
    name="edit",
    description=(
        "Change parts of a file by exact replacement. Every oldText is matched against the file as it is now, must be "
        "unique and must not overlap another. Several changes of one file go into one call."
    ),
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File, relative to the workspace or absolute"},
            "edits": {"type": "array", "items": _EDIT, "description": "The replacements"},
        },
        "required": ["path", "edits"],
    },
    run=edit_file,
    effect="effect",
    summary=_summary,
    aliases={
        "file_path": "path",
        "file": "path",
        "filename": "path",
        "old_string": "oldText",
        "old_str": "oldText",
        "new_string": "newText",
        "new_str": "newText",
        "replacements": "edits",
    },
)
