"""Files of the program's own: written whole or not at all, read only if they are plain. The one way to do either.

Files of a workspace, which others can change meanwhile, are opened by `beneath.py` instead.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from typing import BinaryIO


class NotPlainFile(OSError):
    """What is there is a folder, a device, a pipe or a link, or is larger than the reader takes."""


def write_whole_file(
    path: str,
    data: bytes,
    *,
    mode: int = 0o600,
    sync: bool = True,
    follow: bool = False,
    ready: Callable[[], None] | None = None,
) -> None:
    """Put `data` in place of `path`: readers see the old content or the new, also after a crash. Raises OSError.

    With `sync` it is on disk when this returns, power cuts included. A link at `path` is replaced, or with `follow`
    stays and what it points at is replaced. `ready` is called when all is written and nothing replaced.
    """
    path = os.path.realpath(path) if follow else path
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:200]}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        if ready is not None:
            ready()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        sync_folder(folder or ".")


def sync_folder(folder: str) -> None:
    """Have the names in it on disk: a new file is only there for good once its folder is. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_plain_file(path: str, *, folder: int | None = None, follow: bool = False) -> BinaryIO:
    """A regular file, open for reading; links are followed only with `follow`, pipes are not waited for.

    `folder` is the handle that a relative `path` starts from. Raises NotPlainFile, and OSError as `open` does.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotPlainFile(f"{path} is not a regular file")
    return os.fdopen(handle, "rb")


def read_plain_file(path: str, most: int, *, folder: int | None = None) -> bytes:
    """The bytes of a regular file of at most `most` bytes. Raises as `open_plain_file`."""
    with open_plain_file(path, folder=folder) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise NotPlainFile(f"{path} is larger than {most:,} bytes")
    return data
