"""What a process does to itself before it starts a command: gives up privileges and capabilities, goes under Landlock's
rules and the filter of system calls. `keeper` calls it; the decision is told in docs/decisions/0006-containment.md.
"""

from __future__ import annotations

import os
import struct

from palinurus.core.folders import is_inside
from palinurus.tools.sandbox import landlock, seccomp, syscalls
from palinurus.tools.sandbox.layout import cover_around
from palinurus.tools.sandbox.plan import KeeperPlan

_NEW_INSIDE = ("/dev/shm", "/dev/pts", "/tmp")  # made new in namespaces
_NO_NEW_PRIVS, _BOUNDING_READ, _BOUNDING_DROP = 38, 23, 24
_AMBIENT, _AMBIENT_CLEAR = 47, 4
_VERSION = 0x20080522
# What is left of root: files of any owner, another user, low ports. Not: other processes, devices, mounts, modules.
KEPT_CAPABILITIES = {
    "chown": 0,
    "dac_override": 1,
    "fowner": 3,
    "fsetid": 4,
    "setgid": 6,
    "setuid": 7,
    "net_bind_service": 10,
}
_LAST, _KILL = 63, 5


def forbid_new_privileges() -> None:
    """From here on no program gives the calling process more rights. Raises OSError."""
    syscalls.call_prctl(_NO_NEW_PRIVS, 1)


def drop_capabilities(*besides: int) -> None:
    """Give up capabilities, of the calling process, all but the kept ones and `besides`. Raises OSError."""
    machine = syscalls.detect_machine()
    if machine is None or os.geteuid() != 0:
        return
    kept = sum(1 << bit for bit in (*KEPT_CAPABILITIES.values(), *besides))
    for bit in range(_LAST + 1):
        if kept >> bit & 1:
            continue
        try:
            if syscalls.call_prctl(_BOUNDING_READ, bit):
                syscalls.call_prctl(_BOUNDING_DROP, bit)
        except OSError:
            break  # beyond the last one this kernel knows, or root without setpcap: no_new_privs holds it then
    syscalls.call_prctl(_AMBIENT, _AMBIENT_CLEAR)
    header = struct.pack("=Ii", _VERSION, 0)
    # effective and permitted keep what is kept and was there; inheritable is empty
    low, high = _held()
    body = struct.pack("=6I", low & kept, low & kept, 0, high & kept >> 32, high & kept >> 32, 0)
    syscalls.call_kernel(machine.capset, header, body)


def _held() -> tuple[int, int]:
    with open("/proc/thread-self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("CapPrm:"):
                value = int(line.split()[1], 16)
                return value & 0xFFFFFFFF, value >> 32
    return 0, 0


def open_around_hidden(cell: KeeperPlan) -> KeeperPlan:
    """Landlock cannot take a part of a folder back: what lies beside the hidden paths is opened piece by piece, as it
    is now. What a command makes beside them it cannot open."""
    read, write = (
        tuple(piece for path in paths for piece in cover_around(path, cell.hide) if not _is_hidden(piece, cell))
        for paths in (cell.read, cell.write)
    )
    cut = tuple(path for path in (*cell.read, *cell.write) if any(is_inside(one, path) for one in cell.hide))
    return cell._replace(read=read, write=write, listed=cut)


def _is_hidden(path: str, cell: KeeperPlan) -> bool:
    return any(is_inside(path, one) for one in cell.hide)


def confine_process(cell: KeeperPlan, spared: tuple[int, ...]) -> None:
    """Put the calling process, and all it starts, under the rules of the sandbox: no new privileges, few capabilities,
    Landlock, the filter. There is no way back. `spared`: processes it must leave alone. Raises OSError."""
    forbid_new_privileges()
    if cell.kind != "bubblewrap":  # which needs them to make its namespaces, and drops them then
        # to end its command, a keeper must reach processes that became another user; nobody else is in its namespace
        drop_capabilities(*((_KILL,) if cell.kind == "namespaces" else ()))
    if cell.kind == "namespaces":
        # of /etc only what was granted is mounted: one rule does for its two hundred parts
        read = dict.fromkeys("/etc" if path.startswith("/etc/") else path for path in cell.read)
        cell = cell._replace(read=tuple(read), write=(*cell.write, *_NEW_INSIDE))
    elif cell.hide and cell.kind == "landlock":
        cell = open_around_hidden(cell)
    # bubblewrap needs mounts, which rules about files forbid; the keeper inside adds them
    rules = landlock.make_file_rules(cell, files=cell.kind != "bubblewrap")
    if rules is not None:
        landlock.restrict_thread(rules)
        os.close(rules)
    seccomp.install_filter(cell, spared)
