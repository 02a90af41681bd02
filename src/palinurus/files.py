"""Files of the program's own: written whole or not at all, read only if they are plain. The one way to do either.

Files of a workspace, which others can change meanwhile, are opened by `beneath.py` instead.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from typing import BinaryIO

_PATH_ONLY = getattr(os, "O_PATH", 0)  # Linux: a handle that opens nothing


class NotPlainFile(OSError):
    """What is there is a folder, a device, a pipe or a link, or is larger than the reader takes."""


def find_real_path(path: str) -> str:
    """What `os.path.realpath` says, for folders that are asked about with every call: where the kernel tells the name
    of a handle, that is three questions instead of one for every folder on the way. Not for what a model names: links
    of /proc lead elsewhere by handle than by name."""
    try:
        handle = os.open(path, _PATH_ONLY | os.O_CLOEXEC) if _PATH_ONLY else -1
    except (OSError, ValueError):
        handle = -1
    if handle < 0:
        return os.path.realpath(path)
    try:
        found = os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        found = ""
    finally:
        os.close(handle)
    # a folder that went meanwhile, one that cannot be reached from our root, a pipe without a name
    return found if found.startswith("/") and not found.endswith(" (deleted)") else os.path.realpath(path)


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
