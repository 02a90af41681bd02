"""What root may do, put down: for a thread and a while, or for good."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_HEADER = struct.pack("Ii", 0x20080522, 0)  # version 3, this thread


@contextmanager
def powerless() -> Iterator[None]:
    """Modes of files hold this thread as they hold anybody, also where root runs the tests."""
    libc, held = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(24)
    _check(libc.capget(_HEADER, held))
    _, first, inherited, _, second, more = struct.unpack("6I", held.raw)  # in force, permitted, inherited, twice
    _check(libc.capset(_HEADER, struct.pack("6I", 0, first, inherited, 0, second, more)))
    try:
        yield
    finally:
        _check(libc.capset(_HEADER, held))


def drop_capabilities() -> None:
    """Let root be a user like others, and what it starts: none of its capabilities is in force."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(28, 0b11, 0, 0, 0)  # PR_SET_SECUREBITS, NOROOT: programs get no capabilities for being root's
    _check(libc.capset(_HEADER, struct.pack("6I", *[0] * 6)))


def _check(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), "capabilities")
