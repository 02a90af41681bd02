"""Landlock: the kernel's rules about files, ports, signals and sockets for one thread and all it starts.

`make_port_rules` and `make_file_rules` make the rules of a cell, `restrict_thread` puts the calling thread under them,
for good. What is not granted is denied; a rule is about the file or folder that stood at the path when it was made.
"""

from __future__ import annotations

import functools
import os
import stat
import struct

from palinurus.tools.sandbox import syscalls
from palinurus.tools.sandbox.plan import KeeperPlan

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKE = sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind
_DEVICES = 1 << 6 | 1 << 11
READING = EXECUTE | READ_FILE | READ_DIR
WRITING = READING | WRITE_FILE | _MAKE | REFER | TRUNCATE | IOCTL_DEV
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_BIND, _CONNECT = 1 << 0, 1 << 1
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets, signals
_BENEATH, _PORT = 1, 2
# since which version of the interface a right exists; unknown ones may not be asked for
_SINCE = ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
TRUNCATE_SINCE, NET_SINCE, SCOPE_SINCE = 3, 4, 6


@functools.cache
def landlock_version() -> int:
    """The version of the interface, 0 if the kernel has none or it is switched off."""
    if syscalls.detect_machine() is None:
        return 0
    try:
        return syscalls.call_kernel(syscalls.LANDLOCK_CREATE, None, 0, 1)
    except OSError:
        return 0


def make_port_rules(cell: KeeperPlan) -> int | None:
    """A handle of the rules about TCP ports, which the caller closes; None where there is nothing to hold or nothing
    that could hold it. Ports that may be connected to may be listened on, and no others: not the gateway's.

    Raises OSError when the kernel refuses."""
    if landlock_version() < NET_SINCE or cell.connect is None:
        return None
    handle = _make((0, _CONNECT | _BIND))
    try:
        _ports(handle, cell.connect, listen=cell.listen)
    except BaseException:
        os.close(handle)
        raise
    return handle


def make_file_rules(cell: KeeperPlan, *, files: bool = True) -> int | None:
    """A handle of the rules about files, signals and abstract sockets (`files` False: without files), which the caller
    closes; None where the kernel has none of them. Raises OSError."""
    known = landlock_version()
    rights = _known(WRITING | _DEVICES, known) if files and known else 0
    scopes = _SCOPES if known >= SCOPE_SINCE else 0
    if not rights and not scopes:
        return None
    handle = _make((rights, 0, scopes) if scopes else (rights,))
    try:
        for path in cell.read if files else ():
            _grant(handle, path, READING, rights)
        for path in cell.write if files else ():
            _grant(handle, path, WRITING & ~_DEVICES, rights)
        for path in cell.listed if files else ():
            _grant(handle, path, READ_DIR, rights)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _make(fields: tuple[int, ...]) -> int:
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return syscalls.call_kernel(syscalls.LANDLOCK_CREATE, attributes, len(attributes), 0)


def _known(wanted: int, version: int) -> int:
    for since, right in _SINCE:
        wanted &= ~right if version < since else -1
    return wanted


def _grant(handle: int, path: str, wanted: int, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there, or not for us: then there is nothing to grant
    try:
        wanted &= rights
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            wanted &= ON_FILES
        syscalls.call_kernel(syscalls.LANDLOCK_ADD, handle, _BENEATH, struct.pack("=Qi", wanted, place), 0)
    finally:
        os.close(place)


def _ports(handle: int, ports: tuple[tuple[int, int], ...], *, listen: bool) -> None:
    add = syscalls.prepare_call(syscalls.LANDLOCK_ADD)
    if listen:
        add(handle, _PORT, struct.pack("=QQ", _BIND, 0), 0)  # "any port": the system picks an ephemeral one
    for first, last in ports:
        for port in range(first, last + 1):
            add(handle, _PORT, struct.pack("=QQ", _CONNECT | _BIND, port), 0)


def restrict_thread(handle: int) -> None:
    """Put the calling thread under the rules. It must have given up new privileges. Raises OSError."""
    syscalls.call_kernel(syscalls.LANDLOCK_RESTRICT, handle, 0)
