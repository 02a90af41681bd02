"""A terminal that goes away takes the screen with it. Textual waits for ever to draw on one that is gone."""

from __future__ import annotations

import os
import select
import threading

GRACE = 3.0  # seconds for an orderly end
LOOK = 1000  # ms between looks
CODE = 129  # as of a process that SIGHUP ended


def watch_hangup(fd: int = 0) -> None:
    """End the process when the terminal behind `fd` hangs up. What was accepted is on disk; the next start goes on."""
    threading.Thread(target=_watch, args=(fd,), name="palinurus-hangup", daemon=True).start()


def _watch(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, 0)  # nothing is asked for: hang-ups are told of all the same
    while not poll.poll(LOOK):
        pass
    threading.Event().wait(GRACE)
    os._exit(CODE)
