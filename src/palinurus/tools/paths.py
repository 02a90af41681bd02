"""Which file an argument means, and whether a tool may go there. Judges paths; opens nothing.

`resolve` follows every link first and judges what is really meant. `files` then opens exactly that, step by
step and following nothing, so that a link planted in between leads to an error and not elsewhere.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from palinurus.core.types.tool import ToolContext, ToolFailure

MAX_PATH = 4096  # bytes; the kernel's own limit
# Live views into processes and the kernel: reading them leaks secrets or never ends.
_PROCESS = re.compile(r"/proc/(?:\d+|self|thread-self)(?:/|\Z)|/proc/k(?:core|msg|allsyms)\Z")
KERNEL = ("/proc", "/sys", "/dev")


class Place(NamedTuple):
    """A judged path. `root` is the folder it may not leave; `real` lies in it and contains no link."""

    given: str  # as the model wrote it, for messages
    real: str
    root: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The steps from root to the file; empty for the root itself."""
        return tuple(p for p in self.real[len(self.root) :].split("/") if p)


def resolve(raw: str, ctx: ToolContext, *, reading: bool = False) -> Place:
    """The place `raw` means, seen from the workspace. Raises ToolFailure when it cannot be or may not be used.

    `reading`: it will only be looked at, so folders that are open for that (installed skills) may be meant.
    """
    given = raw
    if not given.strip():
        raise ToolFailure("path is empty")
    if "\x00" in given:
        raise ToolFailure("path contains a NUL character")
    try:
        size = len(os.fsencode(given))
    except UnicodeEncodeError:
        raise ToolFailure("path contains characters that no file name can have") from None
    if size > MAX_PATH:
        raise ToolFailure(f"path is too long: {size} bytes, at most {MAX_PATH}")
    workspace = os.path.realpath(ctx.workspace)
    real = os.path.realpath(os.path.join(workspace, _at_home(given, ctx)))
    if reading:
        for folder in map(os.path.realpath, ctx.settings.readable):
            if inside(real, folder):
                return Place(given, real, folder)
    _judge(given, real, workspace, ctx)
    return Place(given, real, workspace if ctx.settings.workspace_only else "/")


def _judge(given: str, real: str, workspace: str, ctx: ToolContext) -> None:
    if ctx.settings.workspace_only and not inside(real, workspace):
        raise ToolFailure(
            f"{brief(given)} is outside the workspace; file tools are limited to it (tools.fs.workspaceOnly)"
        )
    for path in ctx.settings.protected:
        if inside(real, home := os.path.realpath(path)) and not _lives_in(home, workspace, real):
            raise ToolFailure(f"{brief(given)} belongs to Palinurus' own state, which tools may not touch")
    if _PROCESS.match(real):
        raise ToolFailure(f"{brief(given)} is a view into a running process or the kernel, not a file to open")


def _lives_in(home: str, workspace: str, real: str) -> bool:
    """The default workspace is a folder of the state directory: it, and only it, is open."""
    return workspace != home and inside(workspace, home) and inside(real, workspace)


def inside(path: str, folder: str) -> bool:
    """True if `path` is `folder` or below it. Both must be real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def brief(path: str) -> str:
    """A path for a message."""
    return path if len(path) <= 200 else f"{path[:120]}…{path[-60:]}"


def _at_home(path: str, ctx: ToolContext) -> str:
    if path != "~" and not path.startswith("~/"):
        return path
    home = ctx.settings.exec_env.get("HOME") or os.path.expanduser("~")
    return home + path[1:]


def barred(ctx: ToolContext) -> list[tuple[int, int]]:
    """(device, inode) of the folders a search must not enter."""
    found = []
    for path in (*ctx.settings.protected, *KERNEL):
        try:
            status = os.stat(path)
        except OSError:
            continue
        found.append((status.st_dev, status.st_ino))
    return found
