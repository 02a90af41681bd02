"""The filter, run by a small interpreter of its instructions: which calls it refuses, and with what."""

from __future__ import annotations

import errno
import struct

import pytest

from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.sandbox import syscalls
from palinurus.tools.sandbox.plan import KeeperPlan
from palinurus.tools.sandbox.seccomp import compile_filter, list_rules

MACHINES = [pytest.param(machine, id=name) for name, machine in syscalls._MACHINES.items()]
GATEWAY, THREAD = 4242, 4243
ALLOW = 0x7FFF0000


def judged(code: bytes, arch: int, nr: int, args: tuple[int, ...] = ()) -> int:
    """0 if the call is let through, else the error it is refused with."""
    words = [value & ((1 << 64) - 1) for value in (*args, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("=IIQ6Q", nr, arch, 0, *words)
    steps = list(struct.iter_unpack("=HBBI", code))
    at = kept = 0
    for _ in range(len(steps)):
        op, then, otherwise, value = steps[at]
        if op == 0x20:
            (kept,) = struct.unpack_from("=I", data, value)
            at += 1
        elif op == 0x06:
            return 0 if value == ALLOW else value & 0xFFFF
        else:
            true = {0x15: kept == value, 0x35: kept >= value, 0x45: bool(kept & value)}[op]
            at += 1 + (then if true else otherwise)
    raise AssertionError("the filter does not end")


def refusal(machine: syscalls.KernelMachine, cell: SandboxSpec, name: str, *args: int) -> int:
    code = compile_filter(machine, list_rules(cell, (GATEWAY, THREAD)))
    return judged(code, machine.audit, machine.calls[name], args)


SOME = SandboxSpec("landlock", connect=((443, 443),))
CASES = [
    (SOME, "socket", (1, 1, 0), errno.EACCES),  # Unix
    (SandboxSpec("landlock", connect=(), unix=True), "socket", (1, 1, 0), 0),
    (SOME, "socket", (2, 1, 0), 0),  # TCP
    (SOME, "socket", (2, 1, 6), 0),
    (SOME, "socket", (10, 2, 0), 0),  # UDP, IPv6
    (SOME, "socket", (2, 1, 262), errno.EPROTONOSUPPORT),  # MPTCP
    (SOME, "socket", (10, 1, 262), errno.EPROTONOSUPPORT),
    (SOME, "socket", (2, 1, 262 | 1 << 32), errno.EPROTONOSUPPORT),  # the kernel reads an int
    (SOME, "socket", (2, 1, 256), errno.EPROTONOSUPPORT),  # SMC
    (SOME, "socket", (43, 1, 0), errno.EAFNOSUPPORT),
    (SOME, "socket", (17, 3, 0), errno.EAFNOSUPPORT),  # raw packets
    (SOME, "socket", (40, 1, 0), errno.EAFNOSUPPORT),
    (SOME, "socket", (16, 3, 0), 0),  # netlink: how programs list addresses
    (SandboxSpec("landlock", connect=None), "socket", (2, 1, 262), 0),
    (SandboxSpec("landlock", connect=()), "socket", (2, 2, 0), errno.EACCES),
    (SandboxSpec("landlock", connect=()), "socket", (10, 1, 0), errno.EACCES),
    (SOME, "sendto", (3, 0, 1, 0x20000000, 0, 16), errno.EOPNOTSUPP),
    (SOME, "sendto", (3, 0, 1, 0x4000, 0, 16), 0),
    (SOME, "sendmsg", (3, 0, 0x20004000), errno.EOPNOTSUPP),
    (SOME, "sendmmsg", (3, 0, 1, 0x20000000), errno.EOPNOTSUPP),
    (SOME, "kill", (GATEWAY, 9), errno.EPERM),
    (SOME, "kill", (THREAD, 9), errno.EPERM),
    (SOME, "kill", (-GATEWAY, 9), errno.EPERM),
    (SOME, "kill", (-1, 9), errno.EPERM),
    (SOME, "kill", (GATEWAY + 9, 9), 0),
    (SOME, "kill", (0, 15), 0),
    (SOME, "tgkill", (GATEWAY, THREAD, 9), errno.EPERM),
    (SOME, "tkill", (THREAD, 9), errno.EPERM),
    (SOME, "pidfd_open", (GATEWAY, 0), errno.EPERM),
    (SOME, "ptrace", (16, GATEWAY), errno.EPERM),
    (SOME, "ptrace", (0, 0), 0),
    (SOME, "process_vm_readv", (GATEWAY,), errno.EPERM),
    (SOME, "io_uring_setup", (8,), errno.ENOSYS),
    (SOME, "bpf", (0,), errno.EPERM),
    (SOME, "open_by_handle_at", (0,), errno.EPERM),
    (SOME, "keyctl", (0,), errno.EPERM),
    # a program that runs as its owner: no command needs to make one, and it would work outside
    (SOME, "fchmodat", (3, 0, 0o4755), errno.EPERM),
    (SOME, "fchmod", (3, 0o4755), errno.EPERM),
    (SOME, "fchmodat2", (3, 0, 0o4755, 0), errno.EPERM),
    (SOME, "fchmodat", (3, 0, 0o2755), 0),
    (SOME, "openat", (3, 0, 0o101, 0o4755), errno.EPERM),
    (SOME, "openat", (3, 0, 0o1, 0o4755), 0),  # no new file: the mode is whatever stood in the register
    (SOME, "mknodat", (3, 0, 0o104755), errno.EPERM),
    (SOME, "openat2", (3,), errno.ENOSYS),
    # namespaces, in which it would be root
    (SOME, "unshare", (0x10000000,), errno.EPERM),
    (SOME, "clone", (0x10000000 | 17,), errno.EPERM),
    (SOME, "clone", (0x3D0F00,), 0),  # a thread
    (SOME, "clone3", (0,), errno.ENOSYS),
    (SOME, "mount", (0,), errno.EPERM),
    (SandboxSpec("bubblewrap"), "unshare", (0x10000000,), 0),  # it makes its own
    # limits and turns of the processor are no signals, and end a process as well
    (SOME, "prlimit64", (GATEWAY, 7), errno.EPERM),
    (SOME, "prlimit64", (0, 7), 0),
    (SOME, "prlimit64", (GATEWAY + 9, 7), errno.EPERM),  # nor anybody's else: no time left on a processor ends it
    (SOME, "sched_setaffinity", (GATEWAY,), errno.EPERM),
    (SOME, "sched_setattr", (GATEWAY,), errno.EPERM),
    (SOME, "sched_setattr", (0,), 0),
    (SOME, "setpriority", (0, 0, 5), 0),
    (SOME, "setpriority", (1, GATEWAY + 9, 5), errno.EPERM),  # a group, which the gateway may be of
    (SOME, "setpriority", (2, 0, 5), errno.EPERM),  # all that this user runs
    (SOME, "ioprio_set", (1, 0, 0x6007), 0),
    (SOME, "ioprio_set", (3, 0, 0x6007), errno.EPERM),
    # in a process namespace nobody else is in sight
    (SandboxSpec("namespaces"), "kill", (-1, 9), 0),
    (SandboxSpec("namespaces"), "kill", (GATEWAY, 9), 0),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("cell", "name", "args", "error"), CASES)
def test_calls(
    machine: syscalls.KernelMachine, cell: SandboxSpec, name: str, args: tuple[int, ...], error: int
) -> None:
    assert refusal(machine, cell, name, *args) == error


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_named_is_let_through(machine: syscalls.KernelMachine) -> None:
    code = compile_filter(machine, list_rules(SOME, (GATEWAY,)))
    free = set(range(460)) - set(machine.calls.values())
    assert all(judged(code, machine.audit, nr) == 0 for nr in free)


@pytest.mark.parametrize("machine", MACHINES)
def test_other_instruction_sets_are_refused(machine: syscalls.KernelMachine) -> None:
    """The same numbers mean other calls there: 32-bit programs would walk around the filter."""
    code = compile_filter(machine, list_rules(SOME, (GATEWAY,)))
    assert judged(code, 0x40000003, 0) == errno.ENOSYS
    assert judged(code, machine.audit, 0x40000000 + 41) == errno.ENOSYS


def test_a_nest_of_user_namespaces_has_no_mounts() -> None:
    cell = KeeperPlan("namespaces", nested=True, alone=True)
    refused = {rule.name: rule for rule in list_rules(cell, ())}
    assert refused["clone"].value == refused["unshare"].value == 0x20000  # CLONE_NEWNS, and no other
    assert refused["mount"].arg == -1 and refused["setns"].arg == -1 and "clone3" in refused
