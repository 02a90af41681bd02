"""Landlock: the kernel's rules about files, ports, signals and sockets for one thread and all it starts.

`make_ruleset` makes the rules of a cell, `restrict_thread` puts the calling thread under them, for good. What is not
granted is denied; a rule is about the file or folder that stood at the path when it was made.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import struct

from palinurus.core.types.sandbox import PortRanges, SandboxSpec
from palinurus.tools.sandbox import syscalls

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKE = sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind
_DEVICES = 1 << 6 | 1 << 11
READING = EXECUTE | READ_FILE | READ_DIR
WRITING = READING | WRITE_FILE | _MAKE | REFER | TRUNCATE | IOCTL_DEV
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_CONNECT = 1 << 1
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets, signals
_BENEATH, _PORT = 1, 2
# since which version of the interface a right exists; unknown ones may not be asked for
_SINCE = ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
NET_SINCE, SCOPE_SINCE = 4, 6


@functools.cache
def landlock_version() -> int:
    """The version of the interface, 0 if the kernel has none or it is switched off."""
    if syscalls.detect_machine() is None:
        return 0
    try:
        return syscalls.call_kernel(syscalls.LANDLOCK_CREATE, None, 0, 1)
    except OSError:
        return 0


def make_ruleset(cell: SandboxSpec, *, files: bool = True) -> int:
    """A handle of the cell's rules; the caller closes it. `files` False: only ports, sockets and signals.

    Raises OSError when the kernel cannot do it.
    """
    known = landlock_version()
    rights = _known(WRITING | _DEVICES, known) if files else 0
    net = _CONNECT if known >= NET_SINCE and cell.connect is not None else 0
    fields = [rights, net, _SCOPES][: 1 + (known >= NET_SINCE) + (known >= SCOPE_SINCE)]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    if not any(fields):
        raise OSError(errno.ENOSYS, "this kernel's Landlock has no rules for that")
    handle = syscalls.call_kernel(syscalls.LANDLOCK_CREATE, attributes, len(attributes), 0)
    try:
        for path in cell.read if files else ():
            _grant(handle, path, READING, rights)
        for path in cell.write if files else ():
            _grant(handle, path, WRITING & ~_DEVICES, rights)
        for path in cell.listed if files else ():
            _grant(handle, path, READ_DIR, rights)
        if net:
            _ports(handle, cell.connect or ())
    except BaseException:
        os.close(handle)
        raise
    return handle


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


def _ports(handle: int, ports: PortRanges) -> None:
    add = syscalls.prepare_call(syscalls.LANDLOCK_ADD)
    for first, last in ports:
        for port in range(first, last + 1):
            add(handle, _PORT, struct.pack("=QQ", _CONNECT, port), 0)


def restrict_thread(handle: int) -> None:
    """Put the calling thread under the rules. It must have given up new privileges. Raises OSError."""
    syscalls.call_kernel(syscalls.LANDLOCK_RESTRICT, handle, 0)
