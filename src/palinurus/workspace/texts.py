"""Text files of a workspace, read again only when they changed. A look costs one stat.

A file must be a regular one inside its directory (links may lead within it); what is not UTF-8 is replaced.
"""

from __future__ import annotations

import os
from typing import TypeAlias

import msgspec

from palinurus.beneath import open_file_beneath, resolve_beneath
from palinurus.files import NotPlainFile

CAP = 2 * 1024 * 1024  # bytes of one file that are read
KEPT = 512  # files remembered

FileIdentity: TypeAlias = tuple[int, int, int, int, int]


class FileText(msgspec.Struct, frozen=True):
    """What a look found. `text` is None if there is no such file; `refused` says why one is not read."""

    text: str | None = None
    refused: str = ""


def identify_file(path: str) -> FileIdentity | None:
    """What changes when the file does; None if it is not there."""
    try:
        return identify_stat(os.stat(path))
    except (OSError, ValueError):
        return None


def identify_stat(found: os.stat_result) -> FileIdentity:
    """The identity of a stat."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_inside(path: str, root: str) -> bool:
    """Does `path` lie in `root`? Both real paths."""
    return path == root or path.startswith(root.rstrip("/") + "/")


class FileTexts:
    """The files seen so far."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[FileIdentity | None, FileText]] = {}

    def read(self, root: str, name: str) -> FileText:
        """The file `name` of the directory `root`. Never raises."""
        path = os.path.join(root, name)
        now = identify_file(path)
        kept = self._seen.get(path)
        if kept is not None and kept[0] == now:
            return kept[1]
        if now is None:
            linked = os.path.islink(path)
            found = FileText(refused=f"{name} is a link that leads nowhere") if linked else FileText()
        else:
            found, now = load_text(root, name)
        if len(self._seen) >= KEPT and path not in self._seen:
            self._seen.pop(next(iter(self._seen)))
        self._seen[path] = (now, found)
        return found


def load_text(root: str, name: str, cap: int = CAP) -> tuple[FileText, FileIdentity | None]:
    """The file `name` of `root` as it is now, with the identity of what was read."""
    path, inner = os.path.join(root, name), resolve_beneath(root, name)
    name = os.path.basename(name)
    if not inner:
        return FileText(refused=f"{name} is a link that leaves its directory"), identify_file(path)
    try:
        with open_file_beneath(root, inner) as file:
            seen = identify_stat(os.fstat(file.fileno()))
            return FileText(decode_text(file.read(cap))), seen
    except NotPlainFile:
        return FileText(refused=f"{name} is not a file"), identify_file(path)
    except OSError as exc:
        return FileText(refused=f"{name} cannot be read: {exc.strerror}"), identify_file(path)


def decode_text(data: bytes) -> str:
    """The text of a file that should be UTF-8."""
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\x00", "\ufffd")
