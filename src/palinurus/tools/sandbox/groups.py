"""Control groups: how many processes and how much memory all commands of a gateway may have together.

The starter joins a group of its own; whatever it starts is in it from the beginning. Where none can be made (most
unprivileged services), the limits of single processes are what is left, and `probe` says so.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from palinurus.tools.sandbox.plan import KeeperLimits

PREFIX = "palinurus-"
TOGETHER = 4  # how many times the processes of one command all commands may have


class ControlGroup(NamedTuple):
    """Where groups may be made below ours, and the file that takes a limit."""

    folder: str
    limit: str


def find_groups(own: str, mounted: str) -> dict[str, ControlGroup]:
    """By controller (pids, memory), from the texts of /proc/self/cgroup and /proc/self/mountinfo."""
    found: dict[str, ControlGroup] = {}
    places = {}
    for line in mounted.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) > 4 and kind and kind[0] in ("cgroup", "cgroup2"):
            for name in kind[2].split(",") if kind[0] == "cgroup" else ("",):
                places[name] = fields[4]
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if name in places and name in ("pids", "memory"):
                limit = "pids.max" if name == "pids" else "memory.limit_in_bytes"
                found[name] = ControlGroup(places[name] + path.rstrip("/"), limit)
        if not names and "" in places:
            for name in ("pids", "memory"):
                found.setdefault(name, ControlGroup(places[""] + path.rstrip("/"), f"{name}.max"))
    return found


def join_group(limits: KeeperLimits) -> tuple[str, ...]:
    """Make groups with these limits and join them. Returns those that hold."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as own, open("/proc/self/mountinfo", encoding="utf-8") as all_:
            found = find_groups(own.read(), all_.read())
    except OSError:
        return ()
    wanted = {"pids": limits.processes * TOGETHER, "memory": limits.memory_bytes}
    return tuple(name for name, group in found.items() if wanted[name] and _join(group, wanted[name]))


def _join(group: ControlGroup, amount: int) -> bool:
    _remove_empty(group.folder)
    made = os.path.join(group.folder, f"{PREFIX}{os.getpid()}")
    try:
        os.mkdir(made)
        for name, text in ((group.limit, str(amount)), ("cgroup.procs", "0")):
            with open(os.path.join(made, name), "w", encoding="ascii") as file:
                file.write(text)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(made)
        return False
    return True


def _remove_empty(folder: str) -> None:
    """What killed gateways left; a group that somebody is in cannot be removed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(folder, name))
