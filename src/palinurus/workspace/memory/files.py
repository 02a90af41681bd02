"""Which files are memory, and reading and replacing them by handle, following no link on the way.

MEMORY.md, memory/**/*.md and the configured extra paths. A link is taken for what it leads to, and refused when
that is not memory.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

import msgspec

from palinurus.beneath import open_file_beneath, open_folder_beneath, write_file_beneath
from palinurus.files import NotPlainFile
from palinurus.workspace.texts import is_inside

LONG_TERM = "MEMORY.md"
DAILY = "memory"
FILES = 2000  # looked at; more are left out
BYTES = 1 << 20  # of one file; what follows is not searched
DEPTH = 8


class MemoryFile(msgspec.Struct, frozen=True):
    """A memory file as it stands. `path` is what people and models call it, `real` where it is."""

    path: str
    real: str
    size: int
    mtime: int  # nanoseconds


class MemoryRoots:
    """Where memory is, for one agent."""

    def __init__(self, workspace: str, extra: tuple[str, ...] = ()) -> None:
        self.workspace = os.path.realpath(workspace)
        given = (os.path.join(self.workspace, os.path.expanduser(path.strip())) for path in extra)
        self._roots = (
            os.path.join(self.workspace, LONG_TERM),
            os.path.join(self.workspace, DAILY),
            *dict.fromkeys(os.path.realpath(path) for path in given),
        )

    def __str__(self) -> str:
        return "\n".join(self._roots)

    def real(self, path: str) -> str | None:
        """The file meant by `path`, seen from the workspace; None if that is not memory."""
        if not path.strip() or "\0" in path or len(path) > 4096:
            return None
        try:
            found = os.path.realpath(os.path.join(self.workspace, os.path.expanduser(path.strip())))
            os.fsencode(found)
        except (OSError, ValueError):
            return None
        return found if found.endswith(".md") and self._root(found) else None

    def display_path(self, real: str) -> str:
        """Relative to the workspace where it is below it."""
        return real[len(self.workspace) + 1 :] if real.startswith(f"{self.workspace}/") else real

    def scan(self) -> Iterator[MemoryFile]:
        """Every file, each once, at most FILES. Links are left alone: what they lead to is memory or is not."""
        seen: set[str] = set()
        for root in self._roots:
            for entry in _below(root, DEPTH):
                if entry[0] in seen:
                    continue
                seen.add(entry[0])
                if len(seen) > FILES:
                    return
                yield MemoryFile(self.display_path(entry[0]), entry[0], entry[1], entry[2])

    def read(self, real: str) -> bytes | None:
        """At most BYTES; None if there is no such file. Raises OSError."""
        try:
            file = open_file_beneath(*self._place(real))
        except FileNotFoundError:
            return None
        except NotPlainFile:
            raise IsADirectoryError(f"{self.display_path(real)} is not a file") from None
        with file:
            return file.read(BYTES)

    def replace(self, real: str, data: bytes) -> None:
        """Put `data` there in one step, durable. Raises OSError."""
        write_file_beneath(*self._place(real), data, sync=True)

    def remove(self, real: str) -> None:
        """Raises OSError."""
        root, inner = self._place(real)
        with contextlib.suppress(FileNotFoundError), open_folder_beneath(root, os.path.dirname(inner)) as folder:
            os.unlink(os.path.basename(real), dir_fd=folder)

    def _root(self, real: str) -> str:
        return next((root for root in self._roots if is_inside(real, root)), "")

    def _place(self, real: str) -> tuple[str, str]:
        """The folder that a memory file may not leave, and the way from there. Raises PermissionError."""
        root = self._root(real)
        if not root:
            raise PermissionError(f"{real} is not memory")
        base = self.workspace if is_inside(root, self.workspace) else os.path.dirname(root)
        return base, os.path.relpath(real, base)


def _below(root: str, depth: int) -> Iterator[tuple[str, int, int]]:
    try:
        status = os.lstat(root)
    except OSError:
        return
    if stat.S_ISREG(status.st_mode):
        if root.endswith(".md"):
            yield root, status.st_size, status.st_mtime_ns
    elif stat.S_ISDIR(status.st_mode):
        yield from _walk(root, depth)


def _walk(folder: str, depth: int) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            entry.name.encode()
            if entry.is_dir(follow_symlinks=False):
                if depth and not entry.name.startswith("."):
                    yield from _walk(entry.path, depth - 1)
            elif entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield entry.path, status.st_size, status.st_mtime_ns
        except (OSError, UnicodeEncodeError):  # gone meanwhile, or a name that cannot be shown
            continue
