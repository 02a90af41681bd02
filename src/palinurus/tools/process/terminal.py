"""A pseudo-terminal for a child: its size, making it the child's own, and answers to what programs ask terminals.

Knows handles and escape sequences; knows no process.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import termios

COLUMNS, ROWS = 120, 30
TERM = "xterm-256color"
SETSID = "/usr/bin/setsid"
# What was started in the background ignores Ctrl-C, and so would all it starts; in a terminal of its own it is heard.
_CODE = (
    "import fcntl,os,signal,sys,termios;os.setsid();fcntl.ioctl(0,termios.TIOCSCTTY,0);"
    "signal.signal(2,signal.SIG_DFL);signal.signal(3,signal.SIG_DFL);os.execv(sys.argv[1],sys.argv[1:])"
)

# Device status: "where is the cursor?" (CSI 6 n, also with ?) and "are you there?" (CSI 5 n).
_QUERY = re.compile(rb"\x1b\[(\??)([56])n")
_CUT = re.compile(rb"\x1b(?:\[\??[56]?)?\Z")
_MAX_CUT = 4


def open_terminal() -> tuple[int, int]:
    """The two ends, ours first. Raises OSError where there are no terminals."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    return ours, theirs


def make_owner_command() -> tuple[str, ...]:
    """What stands before a command: it makes a session whose own terminal is the one on handle 0, so that Ctrl-C
    reaches it and /dev/tty is there. A program, because code between fork and exec is not safe beside threads."""
    return (SETSID, "-c") if os.path.exists(SETSID) else (sys.executable, "-I", "-S", "-c", _CODE)


def has_terminals() -> bool:
    """Are there terminals here?"""
    try:
        ours, theirs = pty.openpty()
    except OSError:
        return False
    os.close(ours)
    os.close(theirs)
    return True


class TerminalAnswers:
    """Feed what the child prints; returns what a terminal would reply. A query may be cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        if b"\x1b" not in data and not self._rest:
            return b""
        data = self._rest + data
        cut = _CUT.search(data[-_MAX_CUT:])
        self._rest = cut[0] if cut else b""
        return b"".join(
            b"\x1b[0n" if kind == b"5" else b"\x1b[" + private + b"1;1R" for private, kind in _QUERY.findall(data)
        )
