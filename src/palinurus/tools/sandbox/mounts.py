"""A root of its own for the calling process: only what the layout names is there, read-only but for the sandbox's own
paths. That holds what Landlock does not see (chmod, chown, utime, xattr), and holds without Landlock, too.

For processes that stand in a new mount namespace already. There is no way back.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterable

from palinurus.tools.sandbox import syscalls
from palinurus.tools.sandbox.layout import MountStep

_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_REC, _PRIVATE = 0x4000, 0x40000
_DETACH = 2
_HERE = -100  # AT_FDCWD
_CLONE, _CLOEXEC, _RECURSIVE, _EMPTY = 1, 0o2000000, 0x8000, 0x1000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_IDMAP = 1, 2, 4, 0x100000
_MOVE_EMPTY = 4
_BASES = ("/tmp", "/run", "/var/tmp", "/mnt")
_SYSTEM = ("/usr", "/etc", "/opt", "/snap", "/nix", "/gnu", "/bin", "/sbin", "/lib")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PID_MAX_SINCE = (6, 14)  # before, that setting was the whole machine's
RESERVED_PIDS = 300


def enter_root(
    steps: Iterable[MountStep], shadow: int | None, shm_bytes: int, processes: int, *, writable_proc: bool = False
) -> None:
    """Make the root and go there; the working directory is its top. Raises OSError.

    `shadow`: a handle of a user namespace in which nobody of this machine exists. Seen through it the system's files
    belong to nobody, so that root reads only what everybody may read. `processes`: how many may be there; 0 = any.
    `writable_proc`: who makes a user namespace writes there who is who in it."""
    _mount(b"none", b"/", None, _REC | _PRIVATE)
    opened = [(step, _open(step, shadow)) for step in steps if step.how in ("read", "write") or not step.source]
    devices = [(name, _open(MountStep("write", f"/dev/{name}", ""), None, device=True)) for name in _DEVICES]
    base = next(path for path in _BASES if os.path.isdir(path))
    _mount(b"tmpfs", base.encode(), b"tmpfs", _NOSUID | _NODEV, data=b"mode=755,size=1m")
    before = os.umask(0o022)  # a gateway's keeps others out: also a browser, which is nobody, from its own folders
    for folder in ("proc", "dev"):
        os.mkdir(f"{base}/{folder}")
    _make_proc(f"{base}/proc", processes, writable=writable_proc)
    _make_devices(f"{base}/dev", devices, shm_bytes)
    for step, handle in opened:
        if step.how == "empty":
            os.makedirs(base + step.target, exist_ok=True)
            _mount(b"tmpfs", os.fsencode(base + step.target), b"tmpfs", _NOSUID | _NODEV, data=b"mode=1777")
        elif handle is not None:
            _move(handle, base + step.target)
    for step in steps:
        if step.how == "link" and not os.path.lexists(base + step.target):
            os.symlink(step.source, base + step.target)
    os.umask(before)
    os.chdir(base)
    syscalls.call_named("pivot_root", b".", b".")
    syscalls.call_named("umount2", b".", _DETACH)
    os.chdir("/")
    _set_attributes(_HERE, b"/", _ATTR_RDONLY, flags=0)


def _open(step: MountStep, shadow: int | None, *, device: bool = False) -> int | None:
    """A copy of the source's mounts that stands nowhere yet; None for what is not there."""
    if not step.source:
        return None
    try:
        flags = _CLONE | _CLOEXEC | _RECURSIVE
        handle = syscalls.call_named("open_tree", _HERE, os.fsencode(step.source), flags)
    except FileNotFoundError:
        return None
    wanted = _ATTR_NOSUID | (0 if device else _ATTR_NODEV)  # what stands before a hidden file cannot be opened
    wanted |= _ATTR_RDONLY if step.how == "read" else 0
    _set_attributes(handle, b"", wanted)
    if shadow is not None and step.how == "read" and any(_is_below(step.source, top) for top in _SYSTEM):
        with contextlib.suppress(OSError):  # not every file system can; `probe` tells where that leaves a gap
            _set_attributes(handle, b"", _ATTR_IDMAP, shadow=shadow)
    return handle


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


def _move(handle: int, target: str) -> None:
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    syscalls.call_named("move_mount", handle, b"", _HERE, os.fsencode(target), _MOVE_EMPTY)
    os.close(handle)


def _make_proc(target: str, processes: int, *, writable: bool) -> None:
    """Of this process namespace; nothing in it can be written, if not `writable`."""
    _mount(b"proc", target.encode(), b"proc", _NOSUID | _NODEV | _NOEXEC)
    release = tuple(int(word) for word in os.uname().release.split("-")[0].split(".")[:2] if word.isdigit())
    if processes and release >= _PID_MAX_SINCE:
        with contextlib.suppress(OSError), open(f"{target}/sys/kernel/pid_max", "w", encoding="ascii") as file:
            file.write(str(RESERVED_PIDS + processes))
    if not writable:
        _set_attributes(_HERE, target.encode(), _ATTR_RDONLY)


def _make_devices(target: str, devices: Iterable[tuple[str, int | None]], shm_bytes: int) -> None:
    _mount(b"tmpfs", target.encode(), b"tmpfs", _NOSUID, data=b"mode=755,size=64k")
    for name, handle in devices:
        if handle is not None:
            _move(handle, f"{target}/{name}")
    os.mkdir(f"{target}/shm")
    size = b"mode=1777" + (b",size=%d" % shm_bytes if shm_bytes else b"")
    _mount(b"tmpfs", f"{target}/shm".encode(), b"tmpfs", _NOSUID | _NODEV, data=size)
    os.mkdir(f"{target}/pts")
    with contextlib.suppress(OSError):  # terminals of its own, where the kernel lets it have some
        _mount(
            b"devpts",
            f"{target}/pts".encode(),
            b"devpts",
            _NOSUID | _NOEXEC,
            data=b"newinstance,ptmxmode=0666,mode=620",
        )
        os.symlink("pts/ptmx", f"{target}/ptmx")
    for name, where in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{where}", f"{target}/{name}")
    _set_attributes(_HERE, target.encode(), _ATTR_RDONLY, flags=0)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, *, data: bytes | None = None) -> None:
    syscalls.call_named("mount", source, target, kind, flags, data)


def _set_attributes(where: int, path: bytes, wanted: int, flags: int = _RECURSIVE, *, shadow: int = 0) -> None:
    # struct mount_attr: set, clear, propagation, user namespace
    attributes = struct.pack("=QQQQ", wanted, 0, 0, shadow)
    flags |= 0 if path else _EMPTY
    syscalls.call_named("mount_setattr", where, path, flags, attributes, len(attributes))


def make_shadow() -> int | None:
    """A handle for `enter_root`; None where it cannot be had. The caller closes it."""
    reading, writing = os.pipe()
    try:
        made = syscalls.fork_into(0x10000000)
    except OSError:
        os.close(reading)
        os.close(writing)
        return None
    if not made:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    try:
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{made}/{name}", "w", encoding="ascii") as file:
                file.write("4294967294 4294967294 1")
        return os.open(f"/proc/{made}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    finally:
        os.close(writing)
        with contextlib.suppress(ChildProcessError):  # where nobody is waited for, it is gone by itself
            os.waitpid(made, 0)
