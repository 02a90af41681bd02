"""What a model is told when its command ran into the walls: programs only say "Permission denied". Pure."""

from __future__ import annotations

import re

from palinurus.core.types.cell import SandboxSpec

_REFUSED = re.compile(r"permission denied|read-only file system|operation not permitted|EACCES|EROFS|EPERM", re.I)


def explain_refusal(cell: SandboxSpec, code: int, text: str) -> str:
    """A note for a command that failed with such words inside a cell; "" for every other."""
    if cell.kind == "none" or not code or not _REFUSED.search(text):
        return ""
    if cell.kind == "docker":
        return "Note: this command ran in a container; only its mounts can be written."
    ports = "no network" if cell.connect == () else "only some TCP ports (443 and 22 among them), no Unix sockets"
    return (
        "Note: commands here can write in the workspace, ~ and $TMPDIR only, read little else besides the system, and "
        f"have {ports if cell.connect is not None else 'any TCP port'}. The owner can open more "
        "(agents.defaults.sandbox: read, write, connect)."
    )
