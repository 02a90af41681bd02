"""Which file an argument means, and whether a tool may go there. Judges paths; opens nothing.

`resolve_path` follows every link first and judges what is really meant. `handles` then opens exactly that, step by
step and following nothing, so that a link planted in between leads to an error and not elsewhere.
"""

from __future__ import annotations

import os

import msgspec

from palinurus.core.folders import find_enclosing_folder, is_inside
from palinurus.core.policy.lasting import is_shaping_file
from palinurus.core.types.sandbox import SEPARATE, SandboxSpec
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.files import find_real_path
from palinurus.patterns import compile_late

MAX_PATH = 4096  # bytes; the kernel's own limit
# Live views into processes and the kernel: reading them leaks secrets or never ends.
_PROCESS = compile_late(r"/proc/(?:\d+|self|thread-self)(?:/|\Z)|/proc/k(?:core|msg|allsyms)\Z")
KERNEL_FOLDERS = ("/proc", "/sys", "/dev")


class ResolvedPath(msgspec.Struct, frozen=True):
    """A judged path. `root` is the folder it may not leave; `real` lies in it and contains no link."""

    given: str  # as the model wrote it, for messages
    real: str
    root: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The steps from root to the file; empty for the root itself."""
        return tuple(p for p in self.real[len(self.root) :].split("/") if p)


def resolve_path(raw: str, ctx: ToolContext, *, reading: bool = False) -> ResolvedPath:
    """The place `raw` means, seen from the workspace. Raises ToolFailure when it cannot be or may not be used.

    `reading`: it will only be looked at, so folders that are open for that (installed skills) may be meant.
    """
    given = raw
    workspace, real = find_real_path(ctx.workspace), resolve_place(raw, ctx)
    if any(is_inside(real, hidden) for hidden in ctx.settings.cell.hide):
        raise ToolFailure(f"{shorten_path(given)} is the owner's memory, which only the owner's own chats may use")
    if reading:
        for folder in map(os.path.realpath, (*ctx.settings.readable, *ctx.settings.received)):
            if is_inside(real, folder):
                return ResolvedPath(given, real, folder)
    if persona := find_persona(real, ctx, reading=reading):
        return ResolvedPath(given, real, persona)
    root = _root(given, real, ctx, reading)
    _judge(given, real, workspace, ctx, root=root)
    return ResolvedPath(given, real, workspace if ctx.settings.workspace_only else root)


def find_persona(real: str, ctx: ToolContext, *, reading: bool = False) -> str:
    """The agent's own workspace, if the session works in another folder and the file lies there: it may be read, and
    what makes the agent what it is may be written by file tools, which ask as they always do. Else ""."""
    folder = find_real_path(ctx.settings.persona) if ctx.settings.persona else ""
    if not folder or not is_inside(real, folder) or is_inside(real, find_real_path(ctx.workspace)):
        return ""
    return folder if reading or is_shaping_file(os.path.relpath(real, folder)) else ""


def name_in_persona(real: str, ctx: ToolContext) -> str:
    """The file as seen from the agent's own workspace, where it counts what it is called; "" elsewhere than there."""
    folder = find_persona(real, ctx, reading=True) if ctx.settings.persona else find_real_path(ctx.workspace)
    return os.path.relpath(real, folder) if folder else ""


def resolve_place(given: str, ctx: ToolContext) -> str:
    """The real path that is meant, wherever it lies. Raises ToolFailure if it can be none."""
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
    workspace = find_real_path(ctx.workspace)
    try:
        return os.path.realpath(os.path.join(workspace, _outside(expand_home(given, ctx), ctx.settings.cell)))
    except OSError:  # a link on the way became a folder between two looks at it
        raise ToolFailure(f"{shorten_path(given)} changed while it was used; try again") from None


def has_bounds(cell: SandboxSpec) -> bool:
    """Do file tools have bounds here? Not where the owner wants none, and nothing holds commands either."""
    return cell.kind != "none" or (not cell.accepted and bool(cell.write))


def _outside(path: str, cell: SandboxSpec) -> str:
    """The same file as the host sees it: a container and bubblewrap show some folders under other names."""
    seen = [(one.target, one.source) for one in cell.box.mounts] if cell.box else []
    plain = os.path.normpath(path)
    if find_enclosing_folder(plain, (*cell.write, *cell.read)):
        return path  # seen under its own name, also below /tmp
    if cell.kind in SEPARATE and cell.temporary:
        seen.append(("/tmp", cell.temporary))
    for target, source in sorted(seen, key=lambda one: -len(one[0])):
        if is_inside(plain, target):
            return source + path[len(target) :] if path.startswith(target) else source + plain[len(target) :]
    return path


def _root(given: str, real: str, ctx: ToolContext, reading: bool) -> str:
    """The folder of the cell that the file lies in; file tools have the same bounds as commands. "/" without a cell."""
    cell = ctx.settings.cell
    if not has_bounds(cell):
        return "/"
    found = find_enclosing_folder(real, (*cell.write, *(cell.read if reading else ())))
    if found:
        return found if os.path.isdir(found) else os.path.dirname(found)
    if not reading and find_enclosing_folder(real, cell.read):
        raise ToolFailure(
            f"{shorten_path(given)} may be read but not changed (agents.defaults.sandbox.write opens folders)"
        )
    what = "read" if reading else "write"
    raise ToolFailure(
        f"{shorten_path(given)} is outside the workspace and what was opened to this agent "
        f"(the owner can open a folder with agents.defaults.sandbox.{what})"
    )


def _judge(given: str, real: str, workspace: str, ctx: ToolContext, root: str) -> None:
    if ctx.settings.workspace_only and not is_inside(real, workspace):
        raise ToolFailure(
            f"{shorten_path(given)} is outside the workspace; file tools are limited to it (tools.fs.workspaceOnly)"
        )
    for path in ctx.settings.protected if root == "/" else ():
        if is_inside(real, home := find_real_path(path)) and not _lives_in(home, workspace, real):
            raise ToolFailure(f"{shorten_path(given)} belongs to Palinurus' own state, which tools may not touch")
    if _PROCESS.match(real):
        raise ToolFailure(f"{shorten_path(given)} is a view into a running process or the kernel, not a file to open")


def _lives_in(home: str, workspace: str, real: str) -> bool:
    """The default workspace is a folder of the state directory: it, and only it, is open."""
    return workspace != home and is_inside(workspace, home) and is_inside(real, workspace)


def shorten_path(path: str) -> str:
    """A path for a message."""
    return path if len(path) <= 200 else f"{path[:120]}…{path[-60:]}"


def expand_home(path: str, ctx: ToolContext) -> str:
    """With ~ as commands know it."""
    if path != "~" and not path.startswith("~/"):
        return path
    home = ctx.settings.exec_env.get("HOME") or os.path.expanduser("~")
    return home + path[1:]


def list_barred_folders(ctx: ToolContext) -> list[tuple[int, int]]:
    """(device, inode) of the folders and files a search must not open."""
    found = []
    for path in (*ctx.settings.protected, *KERNEL_FOLDERS, *ctx.settings.cell.hide):
        try:
            status = os.stat(path)
        except OSError:
            continue
        found.append((status.st_dev, status.st_ino))
    return found
