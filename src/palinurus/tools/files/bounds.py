"""Where nothing contains commands (an old kernel, macOS, many containers): file tools have bounds all the same. What
lies beyond the workspace and the files of the system is put to a person first.

Judges paths of a call; the question itself is put by who is handed in.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from palinurus.core.folders import find_enclosing_folder, is_inside
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.tools.files.hunks import PatchError, UpdateFile, parse_patch
from palinurus.tools.files.paths import has_bounds, resolve_place, shorten_path

_READERS, _WRITERS = ("read", "ls", "find", "grep", "image", "pdf"), ("write", "edit")


async def open_beyond(
    tool: str, args: Mapping[str, Any], ctx: ToolContext, ask: Callable[[str, dict[str, str]], Awaitable[None]]
) -> SandboxSpec | None:
    """The bounds with what a person opened for this call; None if nothing had to be asked. `ask` (what would happen,
    what the answer is bound to) returns if the answer was yes, and raises ToolFailure otherwise."""
    cell = ctx.settings.cell
    if cell.kind != "none" or not has_bounds(cell):
        return None
    writing = tool in _WRITERS or tool == "apply_patch"
    within = (*cell.write, *(() if writing else (*cell.read, *ctx.settings.readable, *ctx.settings.received)))
    beyond = []
    for name in _list_named(tool, args):
        try:
            real = resolve_place(name, ctx)
        except ToolFailure:
            continue  # the tool says what is wrong with it
        closed = any(is_inside(real, os.path.realpath(one)) for one in (*ctx.settings.protected, *cell.hide))
        if not closed and not find_enclosing_folder(real, within):
            beyond.append(real)
    if not beyond:
        return None
    verb = "write" if writing else "read"
    named = ", ".join(shorten_path(path) for path in beyond)
    await ask(f"{verb} outside the workspace: {named}", {f"path:{path}": path for path in beyond})
    if writing:
        return msgspec.structs.replace(cell, write=(*cell.write, *beyond))
    return msgspec.structs.replace(cell, read=(*cell.read, *beyond))


def _list_named(tool: str, args: Mapping[str, Any]) -> list[str]:
    if tool == "apply_patch" and isinstance(args.get("input"), str):
        try:
            found = []
            for change in parse_patch(args["input"]):
                found += [change.path, change.move] if isinstance(change, UpdateFile) and change.move else [change.path]
            return found
        except PatchError:
            return []
    if tool not in (*_READERS, *_WRITERS):
        return []
    return [args[key] for key in ("path", "file_path", "image") if isinstance(args.get(key), str) and args[key].strip()]
