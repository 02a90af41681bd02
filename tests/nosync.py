"""No waiting for the disk: fsync and fdatasync answer at once, here and in everything that is started from here.

The calls are made as ever, and tests/store/sqlite/test_disk.py sees them with strace; only the kernel's work is left
out, which nothing shows but a loss of power. An App that opens, answers twice and closes syncs forty times.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from pathlib import Path

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ANSWER_ZERO = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _FILTER = 22, 2
# (the kernel's name of the machine, fsync, fdatasync)
_MACHINES = {"x86_64": (0xC000003E, 74, 75), "aarch64": (0xC00000B7, 82, 83)}


def skip_sync() -> bool:
    """For this thread and what comes of it, for good. False: only root may, the machine is not known, or it was done
    by who started us."""
    if platform.machine() not in _MACHINES or count_filters():
        return False
    audit, *calls = _MACHINES[platform.machine()]
    allow = _code(_RETURN, _ALLOW)
    made = [_code(_LOAD, 4), _code(_EQUAL, audit, 1, 0), allow, _code(_LOAD, 0)]
    made += [_code(_EQUAL, calls[0], 1, 0), _code(_EQUAL, calls[1], 0, 1), _code(_RETURN, _ANSWER_ZERO), allow]
    buffer = ctypes.create_string_buffer(b"".join(made))
    program = struct.pack("@HP", len(made), ctypes.addressof(buffer))
    return bool(ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, _FILTER, program, 0, 0) == 0)


def count_filters() -> int:
    """How many filters of system calls hold this process: none, or the one from here."""
    found = Path("/proc/self/status").read_text().partition("Seccomp_filters:")[2].split()
    return int(found[0]) if found else 0  # old kernels do not tell


def _code(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
