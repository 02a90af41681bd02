"""The workspace's own files. Made once from templates, never overwritten; a file the owner deleted on purpose
(BOOTSTRAP.md above all) is not made again in a workspace that already has others.
"""

from __future__ import annotations

import os

from palinurus.errors import StateUnwritable

NAMES: tuple[str, ...] = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md")
FIRST = "BOOTSTRAP.md"  # the first conversation; only where nothing else is yet
OTHERS: tuple[str, ...] = ("MEMORY.md",)  # the owner's; its presence means the workspace is not new
NOTES = "memory"  # the folder of daily notes


def ensure_workspace(workspace: str, skip: bool = False) -> list[str]:
    """Make the directory, the files it lacks and the folder for notes. Returns the names of files made, in order.

    `skip` (agents.defaults.skipBootstrap) makes the directory only. Raises StateUnwritable.
    """
    try:
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        if skip:
            return []
        wanted = (*NAMES, FIRST) if is_new_workspace(workspace) else NAMES
        if not os.path.lexists(notes := os.path.join(workspace, NOTES)):
            os.mkdir(notes, 0o700)
        return [name for name in wanted if _make(os.path.join(workspace, name), name)]
    except OSError as exc:
        raise StateUnwritable(
            f"cannot write the workspace {workspace}: {exc.strerror}",
            fix="make it writable, or set agents.defaults.workspace to another directory",
        ) from None


def is_new_workspace(workspace: str) -> bool:
    """True if none of the files is there: a brand-new workspace."""
    return not any(os.path.lexists(os.path.join(workspace, name)) for name in (*NAMES, *OTHERS, FIRST))


def read_template(name: str) -> bytes:
    """What a new file of this name holds."""
    with open(os.path.join(os.path.dirname(__file__), "templates", name), "rb") as file:
        return file.read()


def _make(path: str, name: str) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(handle, "wb") as file:
        file.write(read_template(name))
    return True
