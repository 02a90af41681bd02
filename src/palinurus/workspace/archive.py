"""Folders and ZIP files of strangers, read into memory within limits. Nothing is written here and no link followed.

Refused: absolute names, .., links, special files, names that differ only in case, more than the caps.
"""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from typing import NamedTuple

from palinurus.core.skills.danger import SkillFile
from palinurus.errors import BadRequest
from palinurus.workspace.texts import read_whole

_SKIPPED = frozenset((".git", ".DS_Store", "__MACOSX", "__pycache__", "node_modules"))


class ArchiveLimits(NamedTuple):
    """Sizes in bytes."""

    files: int = 500
    each: int = 5 * 1024 * 1024
    total: int = 20 * 1024 * 1024
    depth: int = 8


class FileCollector:
    """Collects files and refuses what goes too far."""

    def __init__(self, caps: ArchiveLimits) -> None:
        self.parts: list[SkillFile] = []
        self._caps = caps
        self._names: set[str] = set()
        self._left = caps.total

    def room(self) -> int:
        """How many bytes the next file may have."""
        return min(self._caps.each, self._left)

    def put(self, name: str, data: bytes, executable: bool) -> None:
        """Take one file. Raises BadRequest."""
        if len(data) > self.room():
            raise BadRequest(f"{name!r} is too large: skills are small folders", fix="leave large files out")
        if len(self.parts) >= self._caps.files:
            raise BadRequest(f"more than {self._caps.files} files", fix="point at the folder of one skill")
        if name.casefold() in self._names:
            raise BadRequest(f"two files are called {name!r}")
        self._names.add(name.casefold())
        self._left -= len(data)
        self.parts.append(SkillFile(name, data, executable))

    def clean_name(self, name: str) -> str | None:
        """The name in its clean form, None if it is to be skipped. Raises BadRequest."""
        parts = name.split("/")
        odd = name.startswith(("/", "~")) or "\\" in name or ":" in parts[0] or any(ord(c) < 32 for c in name)
        if odd or ".." in parts or len(name) > 400 or any(len(part) > 200 for part in parts):
            raise BadRequest(f"a file in it has a name that is refused: {name[:80]!r}")
        clean = [part for part in parts if part not in ("", ".")]
        if len(clean) > self._caps.depth:
            raise BadRequest(f"folders nested deeper than {self._caps.depth}: {name[:80]!r}")
        return None if not clean or any(part in _SKIPPED for part in clean) else "/".join(clean)


def read_zip(path: str, caps: ArchiveLimits) -> list[SkillFile]:
    """The files of an archive. Raises BadRequest."""
    basket = FileCollector(caps)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > caps.files * 4:
                raise BadRequest(f"more than {caps.files} files", fix="pack the folder of one skill")
            for entry in entries:
                _entry(archive, entry, basket)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as exc:
        raise BadRequest(f"{os.path.basename(path)} is not an archive that can be read: {exc}") from None
    return basket.parts


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, basket: FileCollector) -> None:
    name = basket.clean_name(entry.filename)
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BadRequest(f"{entry.filename[:80]!r} in the archive is a link or a special file")
    if name is None or entry.is_dir():
        return
    if entry.flag_bits & 1:
        raise BadRequest(f"{name!r} in the archive is encrypted")
    with archive.open(entry) as file:  # the sizes an archive tells of itself may lie: count what comes out
        basket.put(name, file.read(basket.room() + 1), bool(mode & 0o111))


def read_folder(path: str, caps: ArchiveLimits) -> list[SkillFile]:
    """The files of a directory. Raises BadRequest."""
    basket = FileCollector(caps)
    _walk(path, "", basket)
    return basket.parts


def _walk(root: str, inner: str, basket: FileCollector) -> None:
    try:
        with os.scandir(os.path.join(root, inner)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        raise BadRequest(f"cannot read {inner or root}: {exc.strerror}") from None
    for entry in entries:
        name = basket.clean_name(f"{inner}/{entry.name}" if inner else entry.name)
        if name is None:
            continue
        if entry.is_symlink():
            raise BadRequest(f"{name!r} is a link", fix="replace links by what they lead to")
        if entry.is_dir(follow_symlinks=False):
            _walk(root, name, basket)
        elif entry.is_file(follow_symlinks=False):
            data, executable = _file(entry.path, name, basket.room() + 1)
            basket.put(name, data, executable)
        else:
            raise BadRequest(f"{name!r} is not a file")


def _file(path: str, name: str, cap: int) -> tuple[bytes, bool]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as exc:
        raise BadRequest(f"cannot read {name!r}: {exc.strerror}") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise BadRequest(f"{name!r} is not a file")
        return read_whole(handle, cap), bool(found.st_mode & 0o111)
    except OSError as exc:
        raise BadRequest(f"cannot read {name!r}: {exc.strerror}") from None
    finally:
        os.close(handle)
