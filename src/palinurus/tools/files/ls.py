"""The ls tool: the names in one folder."""

from __future__ import annotations

import os
from typing import Annotated

from palinurus.core.types.tool import ToolContext, ToolOutput, make_output
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path, shorten_path

LIMIT = 500
BYTES = 50 * 1024
_SCAN = 200_000  # entries looked at; a folder with more is listed unsorted in part


@define_tool(
    "ls",
    description=f"List a directory: sorted, dot files included, directories end with /. At most {LIMIT} entries.",
    effect="pure",
    summary=lambda args: shorten_path(str(args.get("path") or ".")),
    aliases={"path": "dir directory folder file_path"},
)
async def list_folder(
    ctx: ToolContext,
    path: Annotated[str, "Directory, the workspace if left out"] = ".",
    limit: Annotated[int, f"At most this many entries ({LIMIT})"] = LIMIT,
) -> ToolOutput:
    place = resolve_path(path or ".", ctx, reading=True)
    names: list[str] = []
    with handles.open_listing(place) as handle, os.scandir(handle) as entries:
        for entry in entries:
            names.append(entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name)
            if len(names) >= _SCAN:
                break
    names.sort(key=lambda name: (name.lower(), name))
    room = max(min(BYTES, ctx.settings.result_chars - 200), 200)
    shown: list[str] = []
    for name in names[: max(limit, 1)]:
        room -= len(name) + 1
        if room < 0:
            break
        shown.append(name)
    text = "\n".join(shown) or "(empty directory)"
    if len(shown) < len(names):
        text += f"\n\n[{len(shown)} of {len(names)} entries. Raise limit, or use find with a pattern.]"
    return make_output(text, {"path": place.real, "entries": len(names)})
