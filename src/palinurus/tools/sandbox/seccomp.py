"""A filter of system calls: what Landlock does not see, and what no command needs. Numbers only, no paths.

Landlock's rules about ports know TCP as `connect` makes it. The same port is reached by MPTCP, by SMC and by
data sent along with the first packet, so these are closed here; so are Unix sockets, behind which programs of
the same user (a session bus, a container engine, a terminal multiplexer) would run commands outside the cell.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from typing import NamedTuple

from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.sandbox import syscalls

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
    "settimeofday", "clock_settime", "acct",
)  # fmt: skip


class SeccompRule(NamedTuple):
    """Refuse `name` with `error` when argument `arg` equals `value`, or has one of its bits. `arg` -1: always."""

    name: str
    error: int
    arg: int = -1
    value: int = 0
    bits: bool = False


def list_rules(cell: SandboxSpec, gateway: tuple[int, ...]) -> list[SeccompRule]:
    """The rules of a cell. `gateway`: ids of the process and thread that must be left alone."""
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
    for ident in gateway:
        for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"):
            found.append(SeccompRule(name, errno.EPERM, 0, ident))
        found.append(SeccompRule("kill", errno.EPERM, 0, -ident))
        found += [SeccompRule(name, errno.EPERM, 0, ident) for name in ("process_vm_readv", "process_vm_writev")]
        found.append(SeccompRule("ptrace", errno.EPERM, 1, ident))
    return [*found, SeccompRule("kill", errno.EPERM, 0, -1)]


def compile_filter(machine: syscalls.KernelMachine, wanted: list[SeccompRule]) -> bytes:
    """The rules as the kernel's filter instructions."""
    refuse = _code(_RETURN, _ERRNO | errno.ENOSYS)
    made = [_code(_LOAD, _ARCH), _code(_EQUAL, machine.audit, 1, 0), refuse]
    made += [_code(_LOAD, _NR), _code(_ABOVE, _X32, 0, 1), refuse]
    for name in dict.fromkeys(rule.name for rule in wanted):
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
    test = _code(_BITS if rule.bits else _EQUAL, rule.value & _WORD, 0, 1)
    return [_code(_LOAD, _ARGS + 8 * rule.arg), test, end]


def _code(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def install_filter(cell: SandboxSpec) -> None:
    """Put the calling thread under the filter, for good. Raises OSError; does nothing on unknown machines."""
    machine = syscalls.detect_machine()
    if machine is None:
        return
    made = compile_filter(machine, list_rules(cell, (os.getpid(), threading.get_native_id())))
    buffer = ctypes.create_string_buffer(made, len(made))
    header = struct.pack("@HP", len(made) // 8, ctypes.addressof(buffer))
    syscalls.call_prctl(_PR_SET_SECCOMP, _FILTER, header)
