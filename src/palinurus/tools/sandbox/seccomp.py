"""A filter of system calls: what Landlock does not see, and what no command needs. Numbers only, no paths.

Landlock's rules about ports know TCP as `connect` makes it. The same port is reached by MPTCP, by SMC and by
data sent along with the first packet, so these are closed here; so are Unix sockets, behind which programs of
the same user (a session bus, a container engine, a terminal multiplexer) would run commands outside the cell.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import NamedTuple

from palinurus.tools.sandbox import syscalls
from palinurus.tools.sandbox.plan import KeeperPlan

_LOAD, _EQUAL, _ABOVE, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NR, _ARCH, _ARGS = 0, 4, 16
_X32 = 0x40000000
_PR_SET_SECCOMP, _FILTER = 22, 2

_UNIX, _INET, _INET6, _PACKET, _VSOCK, _SMC = 1, 2, 10, 17, 40, 43
_SMC_PROTOCOL, _MPTCP = 256, 262
_FAST_OPEN = 0x20000000
_WORD = (1 << 32) - 1

# Ways into the kernel that no ordinary command takes; io_uring also goes around this very filter.
_NEVER = (
    "bpf", "perf_event_open", "userfaultfd", "add_key", "request_key", "keyctl", "open_by_handle_at",
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "swapon", "swapoff", "reboot",
    "settimeofday", "clock_settime", "acct", "mq_open",  # a queue stays, and nobody could look for it
)  # fmt: skip


# With these a command would make namespaces in which it is root, and the parts of the kernel that only root can reach.
_NAMESPACES = (
    "setns", "mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr",
)  # fmt: skip
_NEW_ANYTHING = 0x7E020000 | 0x80  # every CLONE_NEW… flag
_NEW_MOUNTS = 0x20000
_SET_ID = 0o4000  # a program that runs as its owner, whoever starts it
_CREATE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
# (call, argument with the mode, argument with flags that must ask for a new file)
_MODES = (
    ("chmod", 1, -1), ("fchmod", 1, -1), ("fchmodat", 2, -1), ("fchmodat2", 2, -1), ("creat", 1, -1), ("mknod", 1, -1),
    ("mknodat", 2, -1), ("open", 2, 1), ("openat", 3, 2),
)  # fmt: skip
_FIRST = 1  # the number of a keeper in its own process namespace
# What may be done to another process of the same user besides sending it signals.
_MEDDLING = (
    "process_vm_readv", "process_vm_writev", "prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam",
    "sched_setattr", "move_pages", "migrate_pages",
)  # fmt: skip
# The turn of all processes of a group or of a user at once, ours among them: call, which of the two
_CROWDS = (("setpriority", 1), ("setpriority", 2), ("ioprio_set", 2), ("ioprio_set", 3))


class SeccompRule(NamedTuple):
    """Refuse `name` with `error` when argument `arg` equals `value`, or has one of its bits. `arg` -1: always.
    `also`: only if argument `also` has one of the bits `flags` as well."""

    name: str
    error: int
    arg: int = -1
    value: int = 0
    bits: bool = False
    also: int = -1
    flags: int = 0


def list_rules(cell: KeeperPlan, spared: tuple[int, ...]) -> list[SeccompRule]:
    """The rules of a cell. `spared`: processes of ours that must be left alone."""
    found = [SeccompRule("io_uring_setup", errno.ENOSYS)]
    found += [SeccompRule(name, errno.EPERM) for name in _NEVER]
    for family in (_PACKET, _VSOCK, _SMC):
        found.append(SeccompRule("socket", errno.EAFNOSUPPORT, 0, family))
    if not cell.unix:
        found.append(SeccompRule("socket", errno.EACCES, 0, _UNIX))
    if cell.connect is not None:
        found += [SeccompRule("socket", errno.EPROTONOSUPPORT, 2, protocol) for protocol in (_MPTCP, _SMC_PROTOCOL)]
        for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            found.append(SeccompRule(name, errno.EOPNOTSUPP, flags, _FAST_OPEN, bits=True))
    if cell.connect == ():
        found += [SeccompRule("socket", errno.EACCES, 0, family) for family in (_INET, _INET6)]
    for name, mode, flags in _MODES:
        found.append(SeccompRule(name, errno.EPERM, mode, _SET_ID, bits=True, also=flags, flags=_CREATE))
    found.append(SeccompRule("openat2", errno.ENOSYS))  # its mode lies in memory, where no filter sees it
    if cell.kind == "bubblewrap":  # which has to make its own first; its keeper goes under the rules below
        return found
    found += _list_closed(nested=cell.nested)
    if cell.kind == "namespaces":  # there, all but its keeper are out of sight, and signals from inside do not end that
        return [*found, *_list_left_alone(_FIRST)]
    return [*found, *_list_spared(spared)]


def _list_closed(*, nested: bool) -> list[SeccompRule]:
    """No namespaces (`nested`: only without mounts of their own), no mounts."""
    found = [SeccompRule(name, errno.EPERM) for name in _NAMESPACES]
    flags = _NEW_MOUNTS if nested else _NEW_ANYTHING
    found += [SeccompRule(name, errno.EPERM, 0, flags, bits=True) for name in ("clone", "unshare")]
    found += [SeccompRule(name, errno.EPERM, 0, which) for name, which in _CROWDS]
    return [*found, SeccompRule("clone3", errno.ENOSYS)]  # its flags lie in memory; libraries fall back to clone


def _list_spared(spared: tuple[int, ...]) -> list[SeccompRule]:
    found = []
    for ident in spared:
        for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"):
            found.append(SeccompRule(name, errno.EPERM, 0, ident))
        found += [SeccompRule("kill", errno.EPERM, 0, -ident), *_list_left_alone(ident)]
    found.append(SeccompRule("prlimit64", errno.EPERM, 0, _WORD, bits=True))  # of nobody but itself, which is 0
    return [*found, SeccompRule("kill", errno.EPERM, 0, -1)]


def _list_left_alone(ident: int) -> list[SeccompRule]:
    """Nothing about this process is changed: what it starts next would inherit it."""
    found = [SeccompRule(name, errno.EPERM, 0, ident) for name in _MEDDLING]
    return [*found, *(SeccompRule(name, errno.EPERM, 1, ident) for name in ("ptrace", "ioprio_set", "setpriority"))]


def compile_filter(machine: syscalls.KernelMachine, wanted: list[SeccompRule]) -> bytes:
    """The rules as the kernel's filter instructions."""
    refuse = _code(_RETURN, _ERRNO | errno.ENOSYS)
    made = [_code(_LOAD, _ARCH), _code(_EQUAL, machine.audit, 1, 0), refuse]
    made += [_code(_LOAD, _NR), _code(_ABOVE, _X32, 0, 1), refuse]
    for name in dict.fromkeys(rule.name for rule in wanted if rule.name in machine.calls):
        block: list[bytes] = []
        for rule in wanted:
            if rule.name == name:
                block += _refusal(rule)
        block.append(_code(_RETURN, _ALLOW))
        made += [_code(_EQUAL, machine.calls[name], 0, len(block)), *block]
    return b"".join([*made, _code(_RETURN, _ALLOW)])


def _refusal(rule: SeccompRule) -> list[bytes]:
    end = _code(_RETURN, _ERRNO | rule.error)
    if rule.arg < 0:
        return [end]
    # the lower half of the argument: the calls in question take ints
    test = [_code(_LOAD, _ARGS + 8 * rule.arg), _code(_BITS if rule.bits else _EQUAL, rule.value & _WORD, 0, 1), end]
    if rule.also < 0:
        return test
    return [_code(_LOAD, _ARGS + 8 * rule.also), _code(_BITS, rule.flags, 0, len(test)), *test]


def _code(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def install_filter(cell: KeeperPlan, spared: tuple[int, ...]) -> None:
    """Put the calling process under the filter, for good. Raises OSError; does nothing on unknown machines."""
    machine = syscalls.detect_machine()
    if machine is not None:
        install_rules(machine, list_rules(cell, spared))


def install_rules(machine: syscalls.KernelMachine, wanted: list[SeccompRule]) -> None:
    """Put the calling thread under these rules, for good. It must have given up new privileges. Raises OSError."""
    made = compile_filter(machine, wanted)
    buffer = ctypes.create_string_buffer(made, len(made))
    header = struct.pack("@HP", len(made) // 8, ctypes.addressof(buffer))
    syscalls.call_prctl(_PR_SET_SECCOMP, _FILTER, header)
