"""A folder tree by handles: names in order, no link followed, ignored and barred folders left out.

Every step is opened relative to the folder above it, so a walk that starts inside cannot end up outside.
Standard library only: the worker loads it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from palinurus.tools.search.ignore import IgnoreFile, is_ignored, parse_ignore_file

_MAX_DEPTH = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_IGNORE = 256 * 1024


class WalkEntry(NamedTuple):
    """`parent` is an open handle, good until the next step of the walk."""

    path: tuple[str, ...]
    folder: bool
    parent: int


def walk_folder(
    handle: int, barred: frozenset[tuple[int, int]], rules: tuple[IgnoreFile, ...], above: tuple[str, ...] = ()
) -> Iterator[WalkEntry]:
    """Everything below `handle`, depth first."""
    text = _small(handle, ".gitignore")
    if text:
        rules = (*rules, parse_ignore_file(text, len(above)))
    try:
        with os.scandir(handle) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:
        return
    for name, folder in found:
        path = (*above, name)
        if (folder and name == ".git") or is_ignored(path, folder, rules):
            continue
        if not folder:
            yield WalkEntry(path, False, handle)
            continue
        deeper = _deeper(handle, name, barred)
        if deeper is None:
            continue
        try:
            yield WalkEntry(path, True, handle)
            if len(path) < _MAX_DEPTH:
                yield from walk_folder(deeper, barred, rules, path)
        finally:
            os.close(deeper)


def _deeper(handle: int, name: str, barred: frozenset[tuple[int, int]]) -> int | None:
    try:
        deeper = os.open(name, _FOLDER, dir_fd=handle)
    except OSError:
        return None
    status = os.fstat(deeper)
    if (status.st_dev, status.st_ino) in barred:
        os.close(deeper)
        return None
    return deeper


def open_regular(parent: int, name: str) -> int | None:
    """An open handle of a regular file; None for anything else or if it cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return None
        handle = os.open(name, _FILE, dir_fd=parent)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def _small(parent: int, name: str) -> str:
    handle = open_regular(parent, name)
    if handle is None:
        return ""
    try:
        return os.read(handle, _MAX_IGNORE).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
