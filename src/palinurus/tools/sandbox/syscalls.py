"""System calls that Python has no name for, by machine. Knows numbers and errors, no policy.

`call_kernel` raises OSError as the functions of `os` do. On a machine that is not in the table nothing is available.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every machine
_REGISTER = (1 << 64) - 1


class KernelMachine(NamedTuple):
    """What differs: the name the kernel's filters know it by, and the numbers of older calls."""

    audit: int
    capset: int
    seccomp: int
    calls: dict[str, int]


_NEW = {  # the same on every machine
    "landlock_create_ruleset": LANDLOCK_CREATE, "clone3": 435, "openat2": 437, "fchmodat2": 452, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
}  # fmt: skip
_X86 = {
    "socket": 41, "sendto": 44, "sendmsg": 46, "sendmmsg": 307, "kill": 62, "tkill": 200, "tgkill": 234,
    "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "ptrace": 101, "process_vm_readv": 310,
    "process_vm_writev": 311, "pidfd_open": 434, "io_uring_setup": 425, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "add_key": 248, "request_key": 249, "keyctl": 250, "open_by_handle_at": 304,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320,
    "swapon": 167, "swapoff": 168, "reboot": 169, "settimeofday": 164, "clock_settime": 227, "acct": 163,
    "clone": 56, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
    "open": 2, "creat": 85, "openat": 257, "chmod": 90, "fchmod": 91, "fchmodat": 268, "mknod": 133, "mknodat": 259,
    "prlimit64": 302, "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_setparam": 142, "ioprio_set": 251,
    "move_pages": 279, "migrate_pages": 256, "setpriority": 141, "mq_open": 240, "sched_setattr": 314, **_NEW,
}  # fmt: skip
_ARM = {
    "socket": 198, "sendto": 206, "sendmsg": 211, "sendmmsg": 269, "kill": 129, "tkill": 130, "tgkill": 131,
    "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "ptrace": 117, "process_vm_readv": 270,
    "process_vm_writev": 271, "pidfd_open": 434, "io_uring_setup": 425, "bpf": 280, "perf_event_open": 241,
    "userfaultfd": 282, "add_key": 217, "request_key": 218, "keyctl": 219, "open_by_handle_at": 265,
    "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294,
    "swapon": 224, "swapoff": 225, "reboot": 142, "settimeofday": 170, "clock_settime": 112, "acct": 89,
    "clone": 220, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
    "openat": 56, "fchmod": 52, "fchmodat": 53, "mknodat": 33, "prlimit64": 261, "sched_setaffinity": 122,
    "sched_setscheduler": 119, "sched_setparam": 118, "ioprio_set": 30, "move_pages": 239, "migrate_pages": 238,
    "setpriority": 140, "mq_open": 180, "sched_setattr": 274, **_NEW,
}  # fmt: skip
_MACHINES = {"x86_64": KernelMachine(0xC000003E, 126, 317, _X86), "aarch64": KernelMachine(0xC00000B7, 91, 277, _ARM)}


def detect_machine() -> KernelMachine | None:
    """This machine; None if it is not Linux, or one we have no numbers for."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return None
    return _MACHINES.get(platform.machine())


@functools.cache
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def call_kernel(number: int, *args: int | bytes | None) -> int:
    """The result of a system call. The interpreter is free while it runs. Raises OSError."""
    # every number as wide as a register: a bare int would be cut to 32 bits
    wide = [ctypes.c_void_p(arg & _REGISTER) if isinstance(arg, int) else arg for arg in args]
    result = int(_library().syscall(ctypes.c_long(number), *wide))
    if result < 0:
        raise _error()
    return result


def prepare_call(number: int) -> Callable[[int, int, bytes, int], None]:
    """A call with these kinds of arguments, made ready to be used thousands of times. Raises OSError when used."""
    syscall = ctypes.CFUNCTYPE(
        ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long, use_errno=True
    )(("syscall", _library()))

    def once(first: int, second: int, data: bytes, flags: int) -> None:
        if syscall(number, first, second, data, flags) < 0:
            raise _error()

    return once


def call_named(name: str, *args: int | bytes | None) -> int:
    """The result of a call from the table. Raises OSError; ENOSYS on machines that are not in it."""
    machine = detect_machine()
    if machine is None or name not in machine.calls:
        raise OSError(errno.ENOSYS, f"no {name} here")
    return call_kernel(machine.calls[name], *args)


def fork_into(flags: int) -> int:
    """As `os.fork`, and the child stands in the new namespaces that `flags` names. Raises OSError.

    For processes with one thread: the interpreter is not told of the fork."""
    machine = detect_machine()
    if machine is None:
        raise OSError(errno.ENOSYS, "no namespaces here")
    # PyDLL: the interpreter's lock is kept, so that the copy in the child is held by who goes on there
    library = ctypes.PyDLL(None, use_errno=True)
    made = int(library.syscall(*(ctypes.c_long(word) for word in (machine.calls["clone"], flags | 17, 0, 0, 0, 0))))
    if made < 0:
        raise _error()
    return made


def call_prctl(option: int, *args: int | bytes) -> int:
    """prctl(2) of the calling thread. Raises OSError."""
    filled = [ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in (*args, 0, 0, 0, 0)[:4]]
    result = int(_library().prctl(option, *filled))
    if result < 0:
        raise _error()
    return result


def _error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
