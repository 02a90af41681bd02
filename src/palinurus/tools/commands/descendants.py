"""The processes a command has started: found in /proc, ended together.

A process belongs to the family of `root` if it descends from it, shares its session or group, or carries the
call's mark in its environment (which finds daemons that left session and parents behind). Without /proc only
the process group is reached.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Set as AbstractSet

import msgspec


class SystemProcess(msgspec.Struct, frozen=True):
    pid: int
    parent: int
    group: int
    session: int
    start: int  # clock ticks since boot: tells a process from a later one with the same pid


def list_processes() -> dict[int, SystemProcess]:
    """All that run now, zombies left out."""
    found = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if name.isdigit():
            process = _process(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def _process(pid: int) -> SystemProcess | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read(1024)
    except OSError:
        return None
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return SystemProcess(pid, int(fields[1]), int(fields[2]), int(fields[3]), start=int(fields[19]))


def find_descendants(root: int, mark: str, since: int) -> set[SystemProcess]:
    """The family as it is now. `since` is root's start: nothing older can belong to it."""
    alive = list_processes()
    needles = _make_needles(mark)
    family = {
        p
        for p in alive.values()
        if p.start >= since and (p.pid == root or root in (p.session, p.group) or _marked(p.pid, needles))
    }
    return _descended(family, alive)


def _descended(family: set[SystemProcess], alive: dict[int, SystemProcess]) -> set[SystemProcess]:
    """With all that descend from them."""
    known = {p.pid for p in family}
    while True:
        more = {p for p in alive.values() if p.parent in known and p.pid not in known}
        if not more:
            return family
        family |= more
        known |= {p.pid for p in more}


def _make_needles(*marks: str) -> list[bytes]:
    """Of an environment: a mark is a whole entry of it, or the beginning of one if it ends with a colon."""
    return [f"\0{mark}".encode() + (b"" if mark.endswith(":") else b"\0") for mark in marks]


def _marked(pid: int, needles: list[bytes]) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = b"\0" + file.read(1 << 18) + b"\0"
    except OSError:
        return False
    return any(needle in entries for needle in needles)


def read_start_time(pid: int) -> int:
    """When a process started; 0 if that cannot be known."""
    process = _process(pid)
    return process.start if process else 0


def find_strays(marks: tuple[str, ...], keepers: frozenset[int] = frozenset()) -> set[SystemProcess]:
    """Whoever carries one of the marks or was started by one of the keepers, and all their descendants."""
    alive, needles = list_processes(), _make_needles(*marks)
    found = {p for p in alive.values() if p.parent in keepers or _marked(p.pid, needles)}
    return _descended(found, alive)


def signal_family(root: int, family: set[SystemProcess], number: signal.Signals) -> None:
    """Signal the group of `root` in one step, then each member that is still the same process."""
    if not family or any(process.group == root for process in family):  # an empty group's number may be reused
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(root, number)
    signal_each(family, number)


def order_by_descent(family: AbstractSet[SystemProcess]) -> list[SystemProcess]:
    """Nobody before its parent."""
    children: dict[int, list[SystemProcess]] = {}
    known = {process.pid for process in family}
    for process in family:
        children.setdefault(process.parent if process.parent in known else 0, []).append(process)
    found = children.get(0, [])
    for process in found:  # it grows while it is walked
        found += children.get(process.pid, ())
    return found + list(family - set(found))  # a ring of numbers that were used again while we looked


def signal_each(family: set[SystemProcess], number: signal.Signals) -> None:
    """Signal every one that is still the same process, parents first: a shell that outlives what it waits for goes on
    with its next line."""
    for process in order_by_descent(family):
        if read_start_time(process.pid) == process.start and process.pid != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def wait_ended(family: set[SystemProcess], seconds: float) -> None:
    """Returns when none of them runs, or after `seconds` for each that does. Where there are no pidfds, at once."""
    for process in family:
        with contextlib.suppress(AttributeError, OSError):
            handle = os.pidfd_open(process.pid)
            try:
                if read_start_time(process.pid) == process.start:
                    select.select([handle], [], [], seconds)
            finally:
                os.close(handle)
