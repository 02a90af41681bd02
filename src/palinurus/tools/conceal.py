"""Keeping our own memory and environment from the commands we run.

A child of the same user can read /proc/<gateway>/environ, where the API keys are. A process that is not
dumpable cannot be read that way (root still can; there the sandbox has to help).
"""

from __future__ import annotations

import ctypes

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def hide_process() -> bool:
    """Make this process unreadable for others of the same user. True if the kernel did; called once at start."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return False
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return bool(prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0)
