"""The files that make an agent what it is (SOUL.md, AGENTS.md, memory, skills …), held as they are while something runs
that untrusted content may have asked for.

A command may write its whole workspace, so the kernel does not keep it from these files. `PersonaWatch` remembers them
before the call and puts back after it what the call had no leave to change; the change is set aside for the owner.
Knows files, no policy but `taint.is_shaping_file`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from palinurus.core.policy.taint import is_shaping_file
from palinurus.core.types.sandbox import is_inside
from palinurus.core.types.tool import ToolFailure
from palinurus.files import write_whole_file
from palinurus.tools.files import handles
from palinurus.tools.files.paths import ResolvedPath

log = logging.getLogger(__name__)

FILES = 2000  # that are looked at
BYTES = 8 << 20  # that are remembered, of all of them
_DEPTH = 6
_FOLDERS = ("memory", "skills", os.path.join(".agents", "skills"))
_LINKS = (*_FOLDERS, ".agents")  # also watched themselves, where they are links


class PersonaSnapshot(NamedTuple):
    """A file as it was. `data` None: too much to be remembered; `link` where it leads, if it is a link."""

    stamp: tuple[int, ...]
    data: bytes | None
    link: str = ""


class PersonaWatch:
    """One workspace, from a moment on. `pids`: processes that may still change it."""

    def __init__(self, workspace: str, aside: str) -> None:
        self.workspace = os.path.realpath(workspace)
        self.pids: set[int] = set()
        self._aside = aside
        self._known = _look(self.workspace)

    def accept(self, path: str) -> None:
        """The file is now as it should be."""
        now = _look(self.workspace, (path,))
        self._known.pop(path, None)
        self._known.update(now)

    def undo(self) -> list[str]:
        """Put back what was changed. The names of those files, seen from the workspace."""
        now = _look(self.workspace, contents=False)
        changed = [p for p in dict.fromkeys((*self._known, *now)) if _differs(self._known.get(p), now.get(p))]
        return [os.path.relpath(path, self.workspace) for path in changed if self._back(path)]

    def _back(self, path: str) -> bool:
        old = self._known.get(path)
        new = _look(self.workspace, (path,)).get(path)
        if old is None and new is None:  # it went when another one was put back
            return False
        if old is not None and new is not None and old.data is not None and old[1:] == new[1:]:
            self._known[path] = new  # touched, and still the same
            return False
        if old is not None and old.data is None and not old.link:
            log.warning("%s was changed under taint and is too large to be put back", path)
            self.accept(path)
            return False
        if new is not None and new.data:
            self._keep(path, new.data)
        try:
            _put(self.workspace, path, old)
        except (OSError, ToolFailure) as exc:
            log.error("%s was changed under taint and could not be put back: %s", path, exc)
        self.accept(path)
        return True

    def _keep(self, path: str, data: bytes) -> None:
        if not self._aside:
            return
        name = f"{os.path.basename(path)}.{secrets.token_hex(4)}"
        try:
            os.makedirs(self._aside, mode=0o700, exist_ok=True)
            write_whole_file(os.path.join(self._aside, name), data, sync=False)
        except OSError as exc:
            log.warning("what was written to %s could not be set aside: %s", path, exc)


class PersonaWatches:
    """The watches that go on now, of all workspaces."""

    def __init__(self) -> None:
        self._watches: list[PersonaWatch] = []

    @contextlib.contextmanager
    def watch(self, workspace: str, aside: str) -> Iterator[PersonaWatch]:
        """Watch while a call runs. Whoever leaves processes behind adds them to `pids`; then the watch goes on."""
        watch = PersonaWatch(workspace, aside)
        self._watches.append(watch)
        try:
            yield watch
        finally:
            if not watch.pids:
                self._watches.remove(watch)

    def accept(self, paths: Iterable[str]) -> None:
        """These files were written with leave: nobody puts them back."""
        for path in paths:
            for watch in self._watches:
                if is_inside(path, watch.workspace):
                    watch.accept(path)

    def undo_strays(self, workspace: str) -> list[str]:
        """What processes that were left behind have changed, put back; those that ended are forgotten."""
        real, undone = os.path.realpath(workspace), list[str]()
        for watch in [one for one in self._watches if one.pids and one.workspace == real]:
            watch.pids = {pid for pid in watch.pids if _lives(pid)}
            undone += watch.undo()
            if not watch.pids:
                self._watches.remove(watch)
        return undone


get_persona_watches = cache(PersonaWatches)  # one for the process, whose children they follow


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _differs(old: PersonaSnapshot | None, new: PersonaSnapshot | None) -> bool:
    return (old and old.stamp) != (new and new.stamp)


def _look(workspace: str, only: tuple[str, ...] = (), *, contents: bool = True) -> dict[str, PersonaSnapshot]:
    found: dict[str, PersonaSnapshot] = {}
    room = BYTES if contents else 0
    for path in only or _paths(workspace):
        try:
            status = os.lstat(path)
        except OSError:
            continue
        stamp = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            with contextlib.suppress(OSError):
                found[path] = PersonaSnapshot(stamp, None, os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            data = _read(workspace, path) if status.st_size <= room else None
            room -= len(data or b"")
            found[path] = PersonaSnapshot(stamp, data)
    return found


def _paths(workspace: str) -> Iterator[str]:
    """Every shaping file, and what a link among them leads to in the workspace."""
    count = 0
    for path in _walk(workspace):
        name = os.path.relpath(path, workspace)
        if not is_shaping_file(name) and name not in _LINKS:
            continue
        count += 1
        if count > FILES:
            return
        yield path
        if os.path.islink(path):
            real = os.path.realpath(path)
            if is_inside(real, workspace) and os.path.isfile(real):  # a folder that is a link: see _walk
                yield real


def _walk(workspace: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(workspace) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield entry.path
    for folder in _FOLDERS:
        top = os.path.join(workspace, folder)
        link = next((p for p in (os.path.dirname(top), top) if p != workspace and os.path.islink(p)), "")
        if link:  # what it leads to is not ours to look through
            yield link
            continue
        for root, folders, names in os.walk(top):
            if root[len(top) :].count(os.sep) >= _DEPTH:
                folders.clear()
            linked = [name for name in folders if os.path.islink(os.path.join(root, name))]
            yield from (os.path.join(root, name) for name in (*names, *linked))


def _read(workspace: str, path: str) -> bytes | None:
    try:
        return handles.read_whole(ResolvedPath(path, path, workspace), BYTES)
    except ToolFailure:
        return None


def _put(workspace: str, path: str, old: PersonaSnapshot | None) -> None:
    """As it was; a link or a folder that stands in the way goes first."""
    place = ResolvedPath(path, path, workspace)
    _clear(workspace, place.parts)
    if old is None:
        return
    if old.link:
        with handles.open_folder(place, place.parts[:-1], make=True) as parent:
            os.symlink(old.link, place.parts[-1], dir_fd=parent)
    elif old.data is not None:
        handles.replace_file(place, old.data)


def _clear(workspace: str, parts: tuple[str, ...]) -> None:
    """Take away what is at the end of the path, and the first step of it that has become something else."""
    place = ResolvedPath("", workspace, workspace)
    for at, part in enumerate(parts):
        try:
            with handles.open_folder(place, parts[:at]) as parent:
                mode = os.stat(part, dir_fd=parent, follow_symlinks=False).st_mode
                if at < len(parts) - 1 and stat.S_ISDIR(mode):
                    continue
                if stat.S_ISDIR(mode):
                    os.rename(part, f"{part}.{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)
                else:
                    os.unlink(part, dir_fd=parent)
                return
        except FileNotFoundError:
            return
