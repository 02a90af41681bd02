"""Transcript files on disk for whoever holds the state lock and has no run going: list, place, append, archive.

While a gateway runs, transcript lines go through the store's journal instead. Every change is on disk, or did not
happen, when a function returns. Knows names and bytes, not what is in them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from palinurus.errors import DiskFull, StateUnwritable
from palinurus.files import sync_folder, write_whole_file
from palinurus.patterns import compile_late
from palinurus.sessions.entries import to_iso
from palinurus.store.port import TranscriptLine

RESULT_INFIX = ".result-"  # <transcript>.result-<handle>: a tool result the model saw only in part
_FULL = (errno.ENOSPC, errno.EDQUOT)
_ARCHIVE = compile_late(r"\.(reset|deleted)\.(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:\.\d{1,6})?Z)(?:-\d+)?$", re.ASCII)


class SessionFile(NamedTuple):
    """A plain file in a sessions folder. `path` is relative to home, `at` when it was last written, in ms."""

    path: str
    size: int
    at: int

    @property
    def agent(self) -> str:
        return self.path.split("/")[1]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def list_session_files(home: str) -> list[SessionFile]:
    """Every plain file in agents/*/sessions, sorted by path. Folders that cannot be read are left out."""
    found: list[SessionFile] = []
    for agent in _entries(os.path.join(home, "agents")):
        if not agent.is_dir(follow_symlinks=False):
            continue
        for entry in _entries(os.path.join(agent.path, "sessions")):
            try:
                seen = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if stat.S_ISREG(seen.st_mode):
                path = f"agents/{agent.name}/sessions/{entry.name}"
                found.append(SessionFile(path, seen.st_size, seen.st_mtime_ns // 1_000_000))
    return sorted(found)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def place_file(home: str, path: str, data: bytes) -> None:
    """Write `path` whole or not at all, 0600, in folders of 0700. Raises DiskFull, StateUnwritable."""
    file = os.path.join(home, path)
    try:
        directory = home
        for name in path.split("/")[:-1]:
            directory = os.path.join(directory, name)
            if not os.path.isdir(directory):
                os.mkdir(directory, 0o700)
        write_whole_file(file, data)
    except OSError as exc:
        raise _fault(file, exc) from exc


def append_lines(home: str, lines: Iterable[TranscriptLine]) -> None:
    """Add whole lines at the end of their file. Killed in between, a torn last line is left, which readers pass over.

    Raises DiskFull, StateUnwritable; the file is then as it was.
    """
    by_path: dict[str, list[bytes]] = {}
    for line in lines:
        by_path.setdefault(line.path, []).append(line.data + b"\n")
    for path, data in by_path.items():
        file = os.path.join(home, path)
        try:
            _append(file, b"".join(data))
        except OSError as exc:
            raise _fault(file, exc) from exc


def _append(file: str, data: bytes) -> None:
    fd = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data
        try:
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)
    sync_folder(os.path.dirname(file))


def archive_file(home: str, path: str, reason: Literal["reset", "deleted"], now: int) -> str:
    """Rename the file to `<path>.<reason>.<time>`. Returns the new path; "" if there is no file.

    Raises StateUnwritable.
    """
    base = f"{path}.{reason}.{to_iso(now).replace(':', '-')}"
    name, number = base, 1
    while os.path.lexists(os.path.join(home, name)):
        number += 1
        name = f"{base}-{number}"
    file = os.path.join(home, path)
    try:
        os.rename(file, os.path.join(home, name))
        sync_folder(os.path.dirname(file))
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise _fault(file, exc) from exc
    return name


def remove_file(home: str, path: str) -> bool:
    """Delete the file. False if there is none. Raises StateUnwritable."""
    file = os.path.join(home, path)
    try:
        os.unlink(file)
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise _fault(file, exc) from exc
    return True


def parse_archive_time(name: str) -> int | None:
    """When a file with this name was archived, in ms; None if it is no archive."""
    match = _ARCHIVE.search(name)
    if match is None:
        return None
    day, _, clock = match[2].removesuffix("Z").partition("T")
    try:
        at = datetime.fromisoformat(f"{day}T{clock.replace('-', ':')}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(at.timestamp() * 1000)


def _fault(file: str, exc: OSError) -> DiskFull | StateUnwritable:
    kind = DiskFull if exc.errno in _FULL else StateUnwritable
    return kind(f"{file} cannot be written: {exc.strerror}", fix="nothing was changed")
