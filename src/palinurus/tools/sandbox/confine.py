"""Starting a child under rules that hold for one thread: the thread puts itself under them, starts the child,
which inherits them, and ends. No code runs between fork and exec, and nothing of the gateway is held back.

Making rules for thousands of ports takes milliseconds, so the next thread is made ready when one is used.
The decision is told in docs/decisions/0006-containment.md.
"""

from __future__ import annotations

import os
import struct
import subprocess
import threading
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import msgspec

from palinurus.core.types.sandbox import SandboxSpec, is_inside
from palinurus.tools.sandbox import landlock, seccomp, syscalls
from palinurus.tools.sandbox.system import cover_around

SPARES = 4  # threads kept ready, each for another cell
RULES = 16  # sets of rules kept
_YIELDS = 2000
_ERRORS = (OSError, ValueError, subprocess.SubprocessError)
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
_LAST = 63


def forbid_new_privileges() -> None:
    """From here on no program gives the calling thread more rights. Raises OSError."""
    syscalls.call_prctl(_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up capabilities, of the calling thread only. Without any there is nothing to do. Raises OSError."""
    machine = syscalls.detect_machine()
    if machine is None or os.geteuid() != 0:
        return
    kept = sum(1 << bit for bit in KEPT_CAPABILITIES.values())
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


class ConfinementKey(NamedTuple):
    """A cell and what stands at its paths now: a rule is about the folder, not about its name."""

    cell: SandboxSpec
    stands: tuple[tuple[int, int], ...]


def start_confined(cell: SandboxSpec, popen: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """What `popen` returns, called inside the cell. Raises OSError, also if the kernel refuses the cell."""
    if cell.hide and cell.kind == "landlock":
        cell = open_around_hidden(cell)
    return _get_pool().start(ConfinementKey(cell, tuple(_stands(path) for path in (*cell.read, *cell.write))), popen)


def open_around_hidden(cell: SandboxSpec) -> SandboxSpec:
    """Landlock cannot take a part of a folder back: what lies beside the hidden paths is opened piece by piece, as it
    is now. What a command makes beside them it cannot open."""
    read, write = (
        tuple(piece for path in paths for piece in cover_around(path, cell.hide) if not _is_hidden(piece, cell))
        for paths in (cell.read, cell.write)
    )
    cut = tuple(path for path in (*cell.read, *cell.write) if any(is_inside(one, path) for one in cell.hide))
    return msgspec.structs.replace(cell, read=read, write=write, listed=cut)


def _is_hidden(path: str, cell: SandboxSpec) -> bool:
    return any(is_inside(path, one) for one in cell.hide)


def _stands(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class ConfinementPool:
    """Threads that are ready, and the rules they put themselves under; both for the cells used last."""

    def __init__(self) -> None:
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._spares: dict[ConfinementKey, _Helper] = {}
        self._rules: dict[ConfinementKey, int] = {}

    def start(self, key: ConfinementKey, popen: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """See `start_confined`."""
        with self._lock:
            helper = self._spares.pop(key, None)
        process = (helper or _Helper(key, self.open_rules)).call(popen)
        with self._lock:
            if key not in self._spares:
                self._make_room(key)
                self._spares[key] = _Helper(key, self.open_rules)
        return process

    def _make_room(self, key: ConfinementKey) -> None:
        stale = [other for other in self._spares if other.cell == key.cell]
        stale += list(self._spares)[: max(len(self._spares) - len(stale) - SPARES + 1, 0)]
        for other in dict.fromkeys(stale):
            self._spares.pop(other).dismiss()

    def open_rules(self, key: ConfinementKey) -> int | None:
        """A handle of the cell's rules, which are made once; None where there is no Landlock."""
        if not landlock.landlock_version():
            return None
        with self._making:
            if key not in self._rules:
                # bubblewrap needs mounts, which rules about files forbid; it brings its own
                made = landlock.make_ruleset(key.cell, files=key.cell.kind != "bubblewrap")
                old = [other for other in self._rules if other.cell == key.cell]
                for other in old or list(self._rules)[: max(len(self._rules) - RULES + 1, 0)]:
                    os.close(self._rules.pop(other))
                self._rules[key] = made
            return os.dup(self._rules[key])


_get_pool = cache(ConfinementPool)  # one for the process, whose threads they are


class _Helper(threading.Thread):
    """One thread for one child."""

    def __init__(self, key: ConfinementKey, open_rules: Callable[[ConfinementKey], int | None]) -> None:
        super().__init__(name="cell", daemon=True)
        self._key = key
        self._open_rules = open_rules
        self._wanted = threading.Semaphore(0)
        self._popen: Callable[[], subprocess.Popen[bytes]] | None = None
        self._result: subprocess.Popen[bytes] | Exception | None = None
        self.start()

    def call(self, popen: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        self._popen = popen
        self._wanted.release()
        self.join()
        _gone(self.native_id)
        if isinstance(self._result, subprocess.Popen):
            return self._result
        raise self._result or OSError("no child was started")

    def dismiss(self) -> None:
        self._wanted.release()

    def run(self) -> None:
        try:
            rules = self._open_rules(self._key)
            try:
                confine_thread(self._key.cell, rules)
            finally:
                if rules is not None:
                    os.close(rules)
        except _ERRORS as exc:  # a thread has nobody to raise to; `call` raises it
            self._result = exc
            return
        self._wanted.acquire()
        if self._popen is None:
            return
        try:
            self._result = self._popen()
        except _ERRORS as exc:
            self._result = exc


def confine_thread(cell: SandboxSpec, rules: int | None) -> None:
    """Put the calling thread, and all it starts, into the cell. There is no way back. Raises OSError."""
    forbid_new_privileges()
    if cell.kind != "bubblewrap":  # which needs them to make its namespaces, and drops them then
        drop_capabilities()
    if rules is not None:
        landlock.restrict_thread(rules)
    seccomp.install_filter(cell)


def _gone(thread: int | None) -> None:
    """Wait until the kernel has ended the thread: while it is there, the child could send it signals."""
    for _ in range(_YIELDS):
        if not os.path.exists(f"/proc/self/task/{thread}"):
            return
        os.sched_yield()
