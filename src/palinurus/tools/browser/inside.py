"""The last steps before Chromium, inside its sandbox: a door for its requests, no rights of root, handles 3 and 4.

Runs as the main program of a kept child, standard library only. Its network holds nobody but itself: the socket that is
made here and handed to the gateway is the only way out, and no other process of the machine can reach it.
"""

from __future__ import annotations

import os
import socket
import sys

from palinurus.tools.sandbox.plan import MORE_HANDLE

_WAITING = 128  # connections that are not yet accepted


def main() -> None:
    """Become the program in sys.argv[4:], as the user argv[3] where this is root, with a door at port argv[2]. Its
    requests come in on handle 0, its answers go out on 1."""
    port, user = int(sys.argv[2]), int(sys.argv[3])
    with socket.socket(fileno=MORE_HANDLE) as gateway, socket.socket() as door:
        door.bind(("127.0.0.1", port))
        door.listen(_WAITING)
        socket.send_fds(gateway, [b"D"], [door.fileno()])
    if os.geteuid() == 0:  # Chromium holds its pages only as an ordinary user
        os.setgroups(())
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    nothing = os.open(os.devnull, os.O_RDWR)
    for ours, theirs in ((0, 3), (1, 4), (nothing, 0), (nothing, 1)):
        os.dup2(ours, theirs, inheritable=True)
    os.execv(sys.argv[4], sys.argv[4:])
