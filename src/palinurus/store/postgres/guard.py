"""The guard of one node of a fleet, run as a script: reads on its standard input until when the node's lease is good,
and ends the node and all that it has started when no later moment came in time. So a node that was stopped (SIGSTOP, a
debugger, a machine that swaps, a virtual machine that was paused) never wakes up to go on with what others have taken
over, and its commands do not go on without it.

Needs nothing but Python: it stays small. Ends with the node.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable

LOOK = 1.0  # seconds: a machine that slept is noticed so soon
MARK = b"PALINURUS_CALL="  # in the environment of commands (tools/commands/child.py)
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def list_parents() -> dict[int, int]:
    """All processes, with their parents. Empty where there is no /proc."""
    found = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                text = file.read(1024)
                found[int(name)] = int(text[text.rfind(b")") + 2 :].split()[1])
    return found


def list_descent(roots: Iterable[int], parents: dict[int, int]) -> list[int]:
    """The roots, then all that descends from them: nobody before its parent."""
    children: dict[int, list[int]] = {}
    for pid, up in parents.items():
        children.setdefault(up, []).append(pid)
    found = dict.fromkeys(roots)
    left = list(found)
    for pid in left:  # it grows while it is walked; numbers that were used again meanwhile could make a ring
        left += [one for one in children.get(pid, ()) if one not in found]
        found |= dict.fromkeys(children.get(pid, ()))
    return left


def find_family(node: int) -> list[int]:
    """What the node has started, what that has started, and whoever carries the mark of one of them. Parents first: a
    shell that outlives what it waits for goes on with its next line."""
    parents = list_parents()
    family = [pid for pid in list_descent((node,), parents)[1:] if pid != os.getpid()]
    marks = {mark for pid in family if (mark := read_mark(pid))}
    strays = {pid for pid in parents.keys() - set(family) if marks and read_mark(pid) in marks}
    return family + list_descent((pid for pid in strays if parents[pid] not in strays), parents)


def read_mark(pid: int) -> bytes:
    """The mark of the call that a process belongs to; empty if it has none, or is not ours to look at."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return next((one for one in file.read(1 << 18).split(b"\0") if one.startswith(MARK)), b"")
    return b""


def end_node(node: int) -> None:
    """The node first, so that it starts nothing more."""
    family = find_family(node)
    if os.getppid() != node:  # gone by itself meanwhile; its number may be another's soon
        return
    told = b"the guard of gateway %d: it did not renew its lease in time and is ended, with %d processes of it\n"
    with contextlib.suppress(OSError):
        os.write(2, told % (node, len(family)))
    for pid in (node, *family):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def watch_node(node: int) -> None:
    """Until the node closes our input or is dead, or its time is over."""
    until, rest = float("inf"), b""
    while os.getppid() == node:
        left = until - time.clock_gettime(CLOCK)
        ready, _, _ = select.select([0], [], [], min(LOOK, max(left, 0.0)))
        if ready:
            data = os.read(0, 4096)
            if not data:
                return
            *told, rest = (rest + data).split(b"\n")
            until = float(told[-1]) if told else until
        elif left <= 0:
            end_node(node)
            return


if __name__ == "__main__":
    watch_node(int(sys.argv[1]))
