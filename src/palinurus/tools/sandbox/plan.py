"""A sandbox as its keeper gets it, and the words between it and the gateway: plain values. Standard library only, as
everything is that keepers load: they are started often, and every import is paid for each time."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

PID, STARTED, FAILED, EXITED = b"P", b"S", b"F", b"X"  # what the gateway hears, with numbers after it
TERMINATE, KILL = b"T", b"K"  # what it says
WORD = struct.Struct("=i")
CONFINED = ("namespaces", "landlock", "bubblewrap")
MORE_HANDLE = 200  # the number under which a command finds the one handle it may be given besides


class KeeperLimits(NamedTuple):
    """`ProcessLimits`, with the memory in bytes."""

    files: int
    file_bytes: int
    memory_bytes: int
    processes: int
    cpu_seconds: int
    shm_bytes: int


class KeeperPlan(NamedTuple):
    """`SandboxSpec`, without what only the gateway needs. `listen`: may ask the system for any port to listen on."""

    kind: str = "none"
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    connect: tuple[tuple[int, int], ...] | None = None
    listen: bool = False
    limits: KeeperLimits = KeeperLimits(0, 0, 0, 0, cpu_seconds=0, shm_bytes=0)
    unix: bool = False
    alone: bool = False
    nested: bool = False
    temporary: str = ""
    hide: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()  # the command line of bubblewrap with a keeper in it


def read_plan(told: list[Any]) -> KeeperPlan:
    """The plan as it was before it became JSON, which knows no tuples."""
    values: dict[str, Any] = dict(zip(KeeperPlan._fields, told, strict=True))
    values = {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
    if values["connect"] is not None:
        values["connect"] = tuple((first, last) for first, last in values["connect"])
    return KeeperPlan(**{**values, "limits": KeeperLimits(*values["limits"])})
