"""openat2: opening a path below a folder in one call, with the kernel watching that it stays there.

No check before the opening, so nothing can be swapped in between. Links, `..` and mounts that lead out are
refused by the kernel itself. Where the call is missing, the caller walks step by step.
"""

from __future__ import annotations

import errno
import functools
import os
import struct

from palinurus.tools.sandbox import kernel

_NO_MAGIC, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_AGAIN = 32  # tries when a rename elsewhere makes the kernel unsure


@functools.cache
def has_openat2() -> bool:
    """Does the kernel have it?"""
    try:
        os.close(
            open_beneath(os.open("/", os.O_RDONLY | os.O_DIRECTORY), ".", os.O_RDONLY | os.O_DIRECTORY, close=True)
        )
    except OSError:
        return False
    return True


def open_beneath(folder: int, path: str, flags: int, mode: int = 0, *, close: bool = False) -> int:
    """A handle of `path`, which lies below the handle `folder` and runs through no link. Raises OSError.

    ELOOP: a link is on the way. EXDEV: it leads out. `close`: `folder` is not needed any longer.
    """
    # struct open_how: flags, mode, resolve
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, mode, _BENEATH | _NO_MAGIC | _NO_LINKS)
    if kernel.detect_machine() is None:
        raise OSError(errno.ENOSYS, "no openat2 here")
    try:
        for _ in range(_AGAIN):
            try:
                return kernel.call_kernel(kernel.OPENAT2, folder, os.fsencode(path), how, len(how))
            except OSError as exc:
                if exc.errno != errno.EAGAIN:
                    raise
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    finally:
        if close:
            os.close(folder)
