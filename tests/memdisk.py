"""Files of tests in memory: what they write is gone with them anyway, and a disk takes a tenth of a run's time for it.

A file system of this process and what it starts, which nobody else sees: not /dev/shm, which sandboxes treat as theirs.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import tempfile

_CLONE_NEWNS = 0x20000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x2, 0x4, 0x4000, 0x40000, 2


def use_memory() -> str:
    """Temporary files are in memory from here on, also those of what we start; the folder. "": only root may, or the
    machine will not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or not hasattr(libc, "unshare") or libc.unshare(_CLONE_NEWNS):
        return ""
    folder = tempfile.mkdtemp(prefix="pal-tests-")
    made = libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
    flags = _MS_NODEV
    if not made or libc.mount(b"palinurus", folder.encode(), b"tmpfs", flags, b"mode=1777"):
        os.rmdir(folder)
        return ""
    ours = os.getpid()

    def leave() -> None:
        if os.getpid() == ours:
            libc.umount2(folder.encode(), _MNT_DETACH)
            os.rmdir(folder)

    atexit.register(leave)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    return folder
