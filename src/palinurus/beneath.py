"""Files below a folder that others can change meanwhile, above all a workspace. The one way to open them.

A path is first resolved (`resolve_beneath` follows links and judges where they lead), then opened from a handle of the
folder, following nothing: what turns out to be a link now was swapped in between, and fails. The kernel goes the whole
way in one call (openat2) where it can; else it is gone step by step. Files of the program's own: `files.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import secrets
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from palinurus.files import NotPlainFile, open_plain_file

OPENAT2 = 437  # the same on every machine
_NO_MAGIC, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_AGAIN = 32  # tries when a rename elsewhere makes the kernel unsure
_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@functools.cache
def has_openat2() -> bool:
    """Does the kernel have it? Where it is missing, paths are walked step by step."""
    root = os.open("/", _STEP)  # only a place: inside a sandbox of ours the root may not be read
    try:
        os.close(open_beneath(root, ".", _STEP))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def open_beneath(folder: int, path: str, flags: int) -> int:
    """A handle of `path`, which lies below the handle `folder` and runs through no link. Raises OSError.

    One call, so nothing can be swapped in between: the kernel itself refuses links (ELOOP), `..` and mounts that lead
    out (EXDEV).
    """
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        raise OSError(errno.ENOSYS, "no openat2 here")
    # struct open_how: flags, mode, resolve
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC | _NO_LINKS)
    name, call = ctypes.c_char_p(os.fsencode(path)), _library().syscall
    for _ in range(_AGAIN):
        handle = int(call(ctypes.c_long(OPENAT2), ctypes.c_long(folder), name, how, ctypes.c_size_t(len(how))))
        if handle >= 0:
            return handle
        code = ctypes.get_errno()
        if code != errno.EAGAIN:
            break
    raise OSError(code, os.strerror(code), path)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def resolve_beneath(root: str, path: str) -> str | None:
    """The way from `root` to what `path` means now, links followed; None if that lies elsewhere. "" is the root."""
    try:
        base = os.path.realpath(root).rstrip("/")
        real = os.path.realpath(os.path.join(base, path))
    except (OSError, ValueError):  # it changed while it was followed, or holds a NUL
        return None
    if real == (base or "/"):
        return ""
    return real[len(base) + 1 :] if real.startswith(f"{base}/") else None


def strip_root(root: str, path: str) -> str | None:
    """The same by name alone: links below `root` are not followed, so that opening refuses them. None if the path is
    not below it as it is written."""
    for base in (root.rstrip("/"), os.path.realpath(root).rstrip("/")):
        if path.startswith(f"{base}/") and "\0" not in path and ".." not in path.split("/"):
            return path[len(base) + 1 :].strip("/")
    return None


@contextmanager
def open_folder_beneath(root: str, inner: str, *, make: int | None = None) -> Iterator[int]:
    """A handle of the folder `inner` below `root`, a real path. Missing folders are made with the mode `make`; None:
    they are not. Raises OSError."""
    parts = [part for part in inner.split("/") if part not in ("", ".")]
    handle = os.open(root, _STEP)
    try:
        if has_openat2():
            try:
                deeper = open_beneath(handle, "/".join(parts) or ".", _STEP)
            except FileNotFoundError:
                if make is None:
                    raise
            else:
                os.close(handle)
                handle, parts = deeper, []
        for part in parts:
            deeper = _step(handle, part, make)
            os.close(handle)
            handle = deeper
        yield handle
    finally:
        os.close(handle)


def _step(handle: int, part: str, make: int | None) -> int:
    if part == "..":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), part)
    try:
        return os.open(part, _STEP, dir_fd=handle)
    except FileNotFoundError:
        if make is None:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, make, dir_fd=handle)
    return os.open(part, _STEP, dir_fd=handle)


def open_file_beneath(root: str, inner: str) -> BinaryIO:
    """A regular file below `root`, open for reading. Raises NotPlainFile, and OSError where a link is on the way."""
    folder, _, name = inner.rpartition("/")
    with open_folder_beneath(os.path.realpath(root), folder) as parent:
        # looked at before it is opened: opening a device or a pipe can already do something
        found = os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), inner)
        if not stat.S_ISREG(found.st_mode):
            raise NotPlainFile(f"{inner} is not a regular file")
        return open_plain_file(name, folder=parent)


def read_file_beneath(root: str, inner: str, most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes. Raises as `open_file_beneath`."""
    with open_file_beneath(root, inner) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise NotPlainFile(f"{inner} is larger than {most:,} bytes")
    return data


def create_file_beneath(root: str, inner: str, data: bytes) -> None:
    """A new file, and the folders on the way. Raises OSError; FileExistsError if there is anything of that name."""
    folder, _, name = inner.rpartition("/")
    with open_folder_beneath(os.path.realpath(root), folder, make=0o700) as parent:
        with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=parent), "wb") as file:
            file.write(data)


def write_file_beneath(root: str, inner: str, data: bytes, *, sync: bool = False, mode: int | None = None) -> None:
    """Put `data` there in one step: a reader sees the old file or the new one. Folders on the way are made; a link at
    the end is replaced, not followed; the mode of an existing file is kept, unless one is given. Raises OSError."""
    folder, _, name = inner.rpartition("/")
    with open_folder_beneath(os.path.realpath(root), folder, make=0o700) as parent:
        temporary = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
        handle = os.open(temporary, _NEW, 0o600, dir_fd=parent)
        try:
            with os.fdopen(handle, "wb") as file:
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and mode is None:
                        os.fchmod(handle, stat.S_IMODE(found.st_mode))
                if mode is not None:
                    os.fchmod(handle, mode)
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(handle)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise


def remove_beneath(root: str, inner: str) -> None:
    """Take a file, a link or an empty folder away. Raises OSError."""
    folder, _, name = inner.rpartition("/")
    with open_folder_beneath(os.path.realpath(root), folder) as parent:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)


def make_link_beneath(root: str, inner: str, leads: str) -> None:
    """A new link. Raises OSError; FileExistsError if there is anything of that name."""
    folder, _, name = inner.rpartition("/")
    with open_folder_beneath(os.path.realpath(root), folder, make=0o700) as parent:
        os.symlink(leads, name, dir_fd=parent)


def make_folder_beneath(root: str, inner: str, mode: int) -> None:
    """A folder, new or not, with this mode. Raises OSError."""
    with open_folder_beneath(os.path.realpath(root), inner, make=0o700) as handle:
        own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
        try:
            os.fchmod(own, mode)
        finally:
            os.close(own)


class FoundEntry(NamedTuple):
    """Something that lies in a folder; what it holds is read from the handle of that folder, as long as it is open."""

    inner: str
    status: os.stat_result
    folder: int

    def read(self, most: int) -> bytes:
        """The content of a regular file. Raises NotPlainFile if it is larger, OSError."""
        with open_plain_file(self.inner.rpartition("/")[2], folder=self.folder) as stream:
            data = stream.read(most + 1)
        if len(data) > most:
            raise NotPlainFile(f"{self.inner} is larger than {most:,} bytes")
        return data

    def follow(self) -> str:
        """Where a link leads. Raises OSError."""
        return os.readlink(self.inner.rpartition("/")[2], dir_fd=self.folder)


def find_beneath(root: str, inner: str) -> Iterator[FoundEntry]:
    """What is at one path, or nothing. Raises OSError where a link is on the way."""
    folder, _, name = inner.rpartition("/")
    try:
        with open_folder_beneath(root, folder) as parent:
            yield FoundEntry(inner, os.stat(name, dir_fd=parent, follow_symlinks=False), parent)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        parts = inner.split("/")
        if any(os.path.islink(os.path.join(root, *parts[:at])) for at in range(1, len(parts))):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), inner) from None


class FolderWalk:
    """`root`, a real path, and folders below it, outer ones first: those that whoever walks asks for with `enter`. Each
    is given as the way to it with a slash behind ("": the root), its handle, and what is in it; one that may not be
    read or is gone is left out. Nothing is called for an entry here: this is done around every command."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._waiting = [""]

    def enter(self, inner: str) -> None:
        self._waiting.append(f"{inner}/")

    def __iter__(self) -> Iterator[tuple[str, int, Iterator[os.DirEntry[str]]]]:
        top = os.open(self._root, _STEP)
        try:
            while self._waiting:
                prefix = self._waiting.pop()
                try:
                    handle = self._open(top, prefix)
                except OSError:
                    continue
                try:
                    with os.scandir(handle) as entries:
                        yield prefix, handle, entries
                finally:
                    os.close(handle)
        finally:
            os.close(top)

    def _open(self, top: int, prefix: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        if has_openat2():
            return open_beneath(top, prefix[:-1] or ".", flags)
        with open_folder_beneath(self._root, prefix) as handle:
            return os.open(".", flags, dir_fd=handle)
