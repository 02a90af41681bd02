"""Ports for programs that are told their port, instead of being asked which one they got.

A port that is picked, closed and used later may be anybody's meanwhile. These are below the range from which the
kernel serves others, and each is ours for the life of this process: a lock on a file says so to the other workers.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from contextlib import suppress
from typing import IO

FIRST, LAST = 20_011, 31_990

_held: list[IO[str]] = []  # kept open: closing one would give the port back


def reserve_port() -> int:
    """A port of 127.0.0.1 that nobody else gets while this process lives."""
    folder = os.path.join(tempfile.gettempdir(), f"palinurus-ports-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    start = FIRST + os.getpid() * 37 % (LAST - FIRST)
    for step in range(LAST - FIRST):
        port = FIRST + (start - FIRST + step) % (LAST - FIRST)
        file = open(os.path.join(folder, str(port)), "w")  # noqa: SIM115 - held until we end
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as one:
                one.bind(("127.0.0.1", port))
            _held.append(file)
            return port
        file.close()
    raise AssertionError("no port is left")
