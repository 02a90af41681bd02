"""What a contained thread gives up: the way to new privileges, and most of what root may do."""

from __future__ import annotations

import os
import struct

from palinurus.tools.sandbox import kernel

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
    kernel.call_prctl(_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up capabilities, of the calling thread only. Without any there is nothing to do. Raises OSError."""
    machine = kernel.detect_machine()
    if machine is None or os.geteuid() != 0:
        return
    kept = sum(1 << bit for bit in KEPT_CAPABILITIES.values())
    for bit in range(_LAST + 1):
        if kept >> bit & 1:
            continue
        try:
            if not kernel.call_prctl(_BOUNDING_READ, bit):
                continue
        except OSError:
            break  # beyond the last one this kernel knows
        kernel.call_prctl(_BOUNDING_DROP, bit)
    kernel.call_prctl(_AMBIENT, _AMBIENT_CLEAR)
    header = struct.pack("=Ii", _VERSION, 0)
    # effective and permitted keep what is kept and was there; inheritable is empty
    low, high = _held()
    body = struct.pack("=6I", low & kept, low & kept, 0, high & kept >> 32, high & kept >> 32, 0)
    kernel.call_kernel(machine.capset, header, body)


def _held() -> tuple[int, int]:
    with open("/proc/thread-self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("CapPrm:"):
                value = int(line.split()[1], 16)
                return value & 0xFFFFFFFF, value >> 32
    return 0, 0
