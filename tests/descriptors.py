"""What this process holds open, without the channels to keepers: those are kept ready on purpose, for all tests."""

from __future__ import annotations

import gc
import os
import socket
import stat

from palinurus.tools.sandbox.children import SPARES, STARTERS


def count_open() -> int:
    """How many descriptors there are beside keepers' channels, which are checked against the pool's own bounds."""
    gc.collect()  # what an earlier test dropped is closed now, not between two counts
    plain = channels = 0
    for name in os.listdir("/proc/self/fd"):
        if _is_channel(int(name)):
            channels += 1
        else:
            plain += 1
    assert channels <= SPARES + STARTERS
    return plain


def _is_channel(fd: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return False
    except OSError:  # the handle of the listing itself
        return False
    with socket.socket(fileno=os.dup(fd)) as found:
        return found.family == socket.AF_UNIX and found.type == socket.SOCK_SEQPACKET
