"""One look at a workspace: the state of every file, with the contents of those that were not known yet kept.

What is known stays valid as long as inode, time of change, size and mode are the same. Not looked at: version control's
own folders, caches and installed packages (`PASSED`), and anything whose name is no text.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping

import msgspec

from palinurus.beneath import FolderWalk, FoundEntry, find_beneath
from palinurus.core.types.changes import ChangeRules, FileChange, FileState
from palinurus.tools.changes.blobs import BlobStore

PASSED = frozenset(
    ".git .hg .svn node_modules .venv venv __pycache__ .tox .nox .cache .mypy_cache .pytest_cache .ruff_cache target"
    " .gradle .next".split()
)
TICK = 20_000_000  # nanoseconds: file times are coarser than the clock


class SeenFile(msgspec.Struct, frozen=True, array_like=True):
    """What was seen at a path. `stamp` (): it was written just then, and a second time would not be noticed."""

    stamp: tuple[int, ...]
    state: FileState


SeenFiles = dict[str, SeenFile]


class FileLook:
    """How files are looked at: with these rules, their contents going there."""

    def __init__(self, rules: ChangeRules, blobs: BlobStore) -> None:
        self._rules = rules
        self._blobs = blobs

    def look(self, workspace: str, known: Mapping[str, SeenFile], now: int) -> SeenFiles | None:
        """All of a workspace, a real path; `now` by the file system's clock, in nanoseconds. None: it is too large."""
        found: SeenFiles = {}
        room = self._rules.bytes // 2 - sum([seen.state.size for seen in known.values() if seen.state.hash])
        walk = FolderWalk(workspace)
        for prefix, handle, entries in walk:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # gone meanwhile
                    continue
                path = prefix + entry.name
                old = known.get(path)
                stamp = (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)
                if old is not None and old.stamp == stamp:
                    found[path] = old
                    continue
                if stat.S_ISDIR(status.st_mode):
                    if entry.name in PASSED:
                        continue
                    walk.enter(path)
                if old is not None and old.state.hash:
                    room += old.state.size  # the new content takes its place
                seen = self._see(FoundEntry(path, status, handle), old, now, room)
                if seen is None:
                    continue
                if seen.state.hash:
                    room -= seen.state.size
                found[path] = seen
                if len(found) > self._rules.files:
                    return None
        return found if len(found) <= self._rules.files else None  # they may have been made fewer

    def look_at(self, workspace: str, paths: Iterable[str], now: int) -> SeenFiles:
        """Some paths of it. Raises OSError where a link is on the way."""
        found: SeenFiles = {}
        for path in paths:
            for entry in find_beneath(workspace, path):
                seen = self._see(entry, None, now, self._rules.bytes)
                if seen is not None:
                    found[path] = seen
        return found

    def _see(self, entry: FoundEntry, known: SeenFile | None, now: int, room: int) -> SeenFile | None:
        """None: nothing that is kept."""
        status = entry.status
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            return known if known is not None and known.stamp == (mode,) else _folder(entry, mode)
        stamp = (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)
        if known is not None and known.stamp == stamp:
            return known
        try:
            entry.inner.encode()
            if stat.S_ISLNK(status.st_mode):
                state = FileState("link", 0o777, link=entry.follow())
                state.link.encode()
            elif stat.S_ISREG(status.st_mode):
                state = self._read(entry, mode, room)
            else:
                return None
        except (OSError, UnicodeEncodeError):  # it went meanwhile, or has no name that can be written down
            return None
        return SeenFile(stamp if status.st_ctime_ns < now - TICK else (), state)

    def _read(self, entry: FoundEntry, mode: int, room: int) -> FileState:
        status = entry.status
        if status.st_size <= min(self._rules.file_bytes, room):
            try:
                data = entry.read(self._rules.file_bytes)
                return FileState("file", mode, len(data), self._blobs.put(data))
            except OSError:  # not readable, or it grew, or the disk is full: known by its mark
                pass
        return FileState("file", mode, status.st_size, mark=f"{status.st_ino}:{status.st_mtime_ns}")


def _folder(entry: FoundEntry, mode: int) -> SeenFile | None:
    try:
        entry.inner.encode()
    except UnicodeEncodeError:
        return None
    return SeenFile((mode,), FileState("folder", mode))


def compare_looks(before: Mapping[str, SeenFile], after: Mapping[str, SeenFile], tool: str) -> list[FileChange]:
    """What is another."""
    made = []
    for path in dict.fromkeys((*before, *after)):
        old, new = before.get(path), after.get(path)
        if old is new:
            continue
        was, now = (one.state if one is not None else None for one in (old, new))
        if was != now:
            made.append(FileChange(path, was, now, tool))
    return made
