"""Opening and replacing files by handle (`beneath.py`), for tools. A `ResolvedPath` comes judged and free of links;
what turns out to be a link now was swapped after the judgement, and fails.
Errors of the operating system leave here as ToolFailure in words.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import errno
import os
import secrets
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from palinurus.beneath import open_folder_beneath
from palinurus.core.types.tool import ToolFailure
from palinurus.tools.files.paths import ResolvedPath, shorten_path

MAX_TEXT = 10_000_000  # bytes of a file whose text is changed
SMALL_FILE = 256 * 1024  # bytes; larger work leaves the event loop's thread
_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_WORDS: dict[int, str] = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "has a file where a directory is needed, or its path changed while it was used",
    errno.EISDIR: "is a directory",
    errno.EACCES: "may not be accessed (permission denied)",
    errno.EPERM: "may not be changed (not permitted)",
    errno.ELOOP: "runs through a symbolic link that goes nowhere or changed while it was used",
    errno.EXDEV: "leads out of the folder it has to stay in",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENOSPC: "cannot be written: no space left on the disk",
    errno.EDQUOT: "cannot be written: the disk quota is used up",
    errno.EROFS: "is on a read-only file system",
    errno.EMFILE: "cannot be opened: too many open files",
}
_KINDS: tuple[tuple[int, str], ...] = (
    (stat.S_IFDIR, "a directory"),
    (stat.S_IFIFO, "a pipe"),
    (stat.S_IFSOCK, "a socket"),
    (stat.S_IFCHR, "a device"),
    (stat.S_IFBLK, "a device"),
)


def to_failure(place: ResolvedPath, exc: OSError) -> ToolFailure:
    """The error in words, with the nearest name when nothing is there."""
    words = _WORDS.get(exc.errno or 0, f"cannot be used: {exc.strerror or exc}")
    hint = _nearest(place) if exc.errno == errno.ENOENT else ""
    return ToolFailure(f"{shorten_path(place.given)} {words}{hint}")


@contextmanager
def open_folder(place: ResolvedPath, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """A handle of the folder `parts` below the place's root. Raises OSError."""
    with open_folder_beneath(place.root, "/".join(parts), make=0o777 if make else None) as handle:
        yield handle


def name_file_kind(status: os.stat_result) -> str:
    """ "" for a regular file, else what it is."""
    form = stat.S_IFMT(status.st_mode)
    return "" if form == stat.S_IFREG else next((name for mode, name in _KINDS if mode == form), "no regular file")


@contextmanager
def open_file(place: ResolvedPath) -> Iterator[tuple[int, os.stat_result]]:
    """An open regular file. Raises ToolFailure."""
    try:
        handle, status = _opened(place)
    except OSError as exc:
        raise to_failure(place, exc) from None
    try:
        yield handle, status
    except OSError as exc:
        raise to_failure(place, exc) from None
    finally:
        os.close(handle)


def read_bytes(handle: int, most: int) -> bytes:
    """What an open file holds from here on, at most `most` bytes. Raises OSError."""
    data = bytearray()
    while len(data) < most and (piece := os.read(handle, min(_CHUNK, most - len(data)))):
        data += piece
    return bytes(data)


def read_whole(place: ResolvedPath, most: int) -> bytes:
    """A regular file of at most `most` bytes; of a larger one only so much. Raises ToolFailure."""
    with open_file(place) as (handle, _):
        return read_bytes(handle, most)


def read_text(place: ResolvedPath, tool: str) -> bytes:
    """The bytes of a text file that `tool` changes. Raises ToolFailure if it is too large, grows or is binary."""
    name, verb = shorten_path(place.given), tool.removeprefix("apply_")
    with open_file(place) as (handle, status):
        if status.st_size > MAX_TEXT:
            raise ToolFailure(f"{name} is too large to {verb}: {status.st_size} bytes, at most {MAX_TEXT}")
        data = read_bytes(handle, MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise ToolFailure(f"{name} grows while it is read; not {verb}ed")
    if b"\x00" in data[:8192]:
        raise ToolFailure(f"{name} is a binary file; {tool} changes text only")
    return data


def _opened(place: ResolvedPath) -> tuple[int, os.stat_result]:
    if not place.parts:
        raise IsADirectoryError(errno.EISDIR, "is a directory")
    with open_folder(place, place.parts[:-1]) as parent:
        # looked at before it is opened: opening a device or a pipe can already do something
        _only_files(place, os.stat(place.parts[-1], dir_fd=parent, follow_symlinks=False))
        handle = os.open(place.parts[-1], _READ, dir_fd=parent)
    status = os.fstat(handle)
    try:
        _only_files(place, status)
    except ToolFailure:
        os.close(handle)
        raise
    return handle, status


def _only_files(place: ResolvedPath, status: os.stat_result) -> None:
    other = name_file_kind(status)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "a link")  # the place had none: it goes in circles, or is new
    if other:
        hint = "; use ls to see what is in it" if other == "a directory" else ", which is not read or written"
        raise ToolFailure(f"{shorten_path(place.given)} is {other}{hint}")


@contextmanager
def open_listing(place: ResolvedPath) -> Iterator[int]:
    """A readable handle of a directory. Raises ToolFailure."""
    try:
        with open_folder(place, place.parts) as handle:
            readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
    except NotADirectoryError as exc:
        if not name_file_kind(stat_path(place)):
            raise ToolFailure(f"{shorten_path(place.given)} is a file, not a directory; use read") from None
        raise to_failure(place, exc) from None
    except OSError as exc:
        raise to_failure(place, exc) from None
    try:
        yield readable
    finally:
        os.close(readable)


def stat_path(place: ResolvedPath) -> os.stat_result:
    """What is there now. Raises ToolFailure."""
    try:
        with open_folder(place, place.parts[:-1]) as parent:
            return os.stat(place.parts[-1] if place.parts else ".", dir_fd=parent, follow_symlinks=False)
    except OSError as exc:
        raise to_failure(place, exc) from None


def has_file(place: ResolvedPath) -> bool:
    """Is anything there? Raises ToolFailure for what cannot be looked at."""
    try:
        with open_folder(place, place.parts[:-1]) as parent:
            os.stat(place.parts[-1] if place.parts else ".", dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise to_failure(place, exc) from None
    return True


def replace_file(place: ResolvedPath, data: bytes, like: os.stat_result | None = None) -> bool:
    """Put `data` there in one step: a reader sees the old file or the new one. True if the file is new.

    Parents are made, mode and owner of an existing file kept; a new one gets those of `like`. A hard link
    elsewhere keeps the old content.
    """
    if not place.parts:
        raise ToolFailure(f"{shorten_path(place.given)} is a directory")
    try:
        with open_folder(place, place.parts[:-1], make=True) as parent:
            return _swap(place, parent, data, like)
    except OSError as exc:
        raise to_failure(place, exc) from None


def remove_file(place: ResolvedPath) -> None:
    """Take a regular file away. Raises ToolFailure."""
    if not place.parts:
        raise ToolFailure(f"{shorten_path(place.given)} is a directory")
    try:
        with open_folder(place, place.parts[:-1]) as parent:
            _only_files(place, os.stat(place.parts[-1], dir_fd=parent, follow_symlinks=False))
            os.unlink(place.parts[-1], dir_fd=parent)
    except OSError as exc:
        raise to_failure(place, exc) from None


def _swap(place: ResolvedPath, parent: int, data: bytes, like: os.stat_result | None) -> bool:
    name = place.parts[-1]
    old = _existing(place, parent)
    temporary = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
    handle = os.open(temporary, _CREATE, 0o666, dir_fd=parent)
    try:
        try:
            if (model := old or like) is not None:
                _like(handle, model)
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise
    return old is None


def _existing(place: ResolvedPath, parent: int) -> os.stat_result | None:
    try:
        old = os.stat(place.parts[-1], dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _only_files(place, old)
    if not os.access(place.parts[-1], os.W_OK, dir_fd=parent):
        raise PermissionError(errno.EACCES, "read-only")
    return old


def _like(handle: int, old: os.stat_result) -> None:
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode))


def _nearest(place: ResolvedPath) -> str:
    """The close names in the same folder; nothing if that folder is missing too."""
    try:
        with open_listing(ResolvedPath(place.given, os.path.dirname(place.real), place.root)) as handle:
            names = os.listdir(handle)[:2000]
    except (ToolFailure, OSError):
        return ""
    near = difflib.get_close_matches(os.path.basename(place.real), names, 3)
    return f"; did you mean {', '.join(near)}?" if near else ""


class PathLocks:
    """A lock for each file that is being changed; they go when nobody holds them."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def find(self, real: str) -> asyncio.Lock:
        """The file's lock, made if there is none."""
        lock = self._locks.get(real)
        if lock is None:
            lock = self._locks[real] = asyncio.Lock()
        return lock


_get_locks = cache(PathLocks)  # one for the process: whoever changes a file goes by it


def lock_path(place: ResolvedPath) -> asyncio.Lock:
    """To hold with `async with`: two edits of one batch must not lose each other."""
    return _get_locks().find(place.real)
