"""The files that make an agent what it is (SOUL.md, AGENTS.md, memory, skills …), held as they are while a command
runs; after untrusted content also those that steer other programs (git hooks, settings of editors …).

A command may write its whole workspace, so the kernel does not keep it from these files. `PersonaWatch` remembers them
before the call and puts back after it what the call had no leave to change; the change is set aside for the owner, who
may take it after all (`apply`). Nothing is too much to be noticed: what was too large to be remembered goes aside.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from palinurus.core.folders import is_inside
from palinurus.core.policy.lasting import (
    SHAPING_FOLDERS,
    STEERING_HOME,
    is_project_order,
    is_shaping_file,
    is_steering_file,
    list_git_orders,
    may_steer,
)
from palinurus.core.types.tool import ToolFailure
from palinurus.files import find_real_path, write_whole_file
from palinurus.tools.files import handles
from palinurus.tools.files.paths import ResolvedPath

log = logging.getLogger(__name__)

BYTES = 16 << 20  # that are remembered, of all files of a workspace
_LINKS = (*SHAPING_FOLDERS, ".agents")  # also watched themselves, where they are links
_STEERING_DEPTH = 4  # folders below the workspace in which people start other programs
_Listed: TypeAlias = "dict[str, list[os.DirEntry[str]] | None]"  # what was found in folders, in one look
_HEAVY = frozenset(("node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".cache"))


class PersonaSnapshot(NamedTuple):
    """A file as it was. `data` None: too much to be remembered; `link` where it leads, if it is a link."""

    stamp: tuple[int, ...]
    data: bytes | None
    link: str = ""


class PersonaChange(msgspec.Struct, frozen=True):
    """What was put back. `name` as seen from the workspace; None: there was, or would be, no such file."""

    path: str
    name: str
    old: PersonaSnapshot | None
    new: PersonaSnapshot | None

    def show(self) -> str:
        """The change as lines of a diff."""
        before, after = (_lines(one) for one in (self.old, self.new))
        return "\n".join(difflib.unified_diff(before, after, f"{self.name} now", f"{self.name} then", lineterm="", n=1))


class PersonaWatch:
    """One workspace, from a moment on. `pids`: processes that may still change it. `home`: of the commands, where their
    programs' settings are watched too; "": only the agent's own files are. `project`: a folder of the owner's, in which
    there are none of those."""

    def __init__(
        self,
        workspace: str,
        aside: str,
        home: str = "",
        known: dict[str, PersonaSnapshot] | None = None,
        *,
        project: bool = False,
    ):
        self.project = project
        self._undone: list[PersonaChange] = []  # and nobody was told of it yet
        self.workspace = find_real_path(workspace)
        self.pids: set[int] = set()
        self.aside = aside
        self.home = find_real_path(home) if home else ""
        self._cache = known if known is not None else {}
        self._known = self._look()

    @property
    def wide(self) -> bool:
        """Did it begin after untrusted content was read?"""
        return bool(self.home)

    @property
    def known(self) -> Mapping[str, PersonaSnapshot]:
        """The files as they should be."""
        return self._known

    def go_by(self, known: dict[str, PersonaSnapshot]) -> None:
        """These are right, whatever is there."""
        self._known = known

    def accept(self, path: str) -> None:
        """The file is now as it should be."""
        self._known.pop(path, None)
        self._known.update(self._look((path,)))

    def undo(self) -> list[PersonaChange]:
        """Put back what was changed, and say what was since this was last asked."""
        self.put_back()
        told, self._undone = self._undone, []
        return told

    def put_back(self) -> bool:
        """Put back what was changed, to be told later. Was there anything?"""
        now = self._look(contents=False)
        changed = [p for p in dict.fromkeys((*self._known, *now)) if _differs(self._known.get(p), now.get(p))]
        self._undone += [made for path in changed if (made := self._back(path)) is not None]
        return bool(changed)

    def inherit(self, older: PersonaWatch) -> None:
        """What an older watch of the same files goes by is right: a process may have changed them since."""
        for path in dict.fromkeys((*older._known, *self._known)):
            if older._watches(path) and self._watches(path) and _differs(older._known.get(path), self._known.get(path)):
                self._known.pop(path, None)
                if path in older._known:
                    self._known[path] = older._known[path]

    def _watches(self, path: str) -> bool:
        return self.wide or path in self._known or self.shapes(os.path.relpath(path, self.workspace))

    def shapes(self, name: str) -> bool:
        """Is it, as seen from the workspace, one of the agent's own files?"""
        return not self.project and is_shaping_file(name)

    def apply(self, change: PersonaChange) -> None:
        """Let it be as the command wanted it. Raises OSError, ToolFailure."""
        _put(self._top(change.path), change.path, change.new)
        self.accept(change.path)

    def _back(self, path: str) -> PersonaChange | None:
        old = self._known.get(path)
        new = self._look((path,)).get(path)
        change = PersonaChange(path, os.path.relpath(path, self.workspace), old, new)
        if (old is None and new is None) or _is_harmless(
            change
        ):  # it went when another was put back; or still the same
            self.accept(path)
            return None
        if new is not None and new.data:
            self._keep(path, new.data)
        try:
            if new is not None and new.data is None and not new.link and not self._move(path):
                log.error("%s was changed by a command and is too large to be set aside", path)
            _put(self._top(path), path, old)
        except (OSError, ToolFailure) as exc:
            log.error("%s was changed by a command and could not be put back: %s", path, exc)
        self.accept(path)
        return change

    def _top(self, path: str) -> str:
        return self.workspace if is_inside(path, self.workspace) else self.home

    def _keep(self, path: str, data: bytes) -> None:
        if not self.aside:
            return
        try:
            os.makedirs(self.aside, mode=0o700, exist_ok=True)
            write_whole_file(self._name_aside(path), data, sync=False)  # our own
        except OSError as exc:
            log.warning("what was written to %s could not be set aside: %s", path, exc)

    def _move(self, path: str) -> bool:
        """Set a file aside that is too large to be read."""
        place = ResolvedPath(path, path, self._top(path))
        try:
            os.makedirs(self.aside or self.workspace, mode=0o700, exist_ok=True)
            with handles.open_folder(place, place.parts[:-1]) as parent:
                os.rename(place.parts[-1], self._name_aside(path), src_dir_fd=parent)
        except OSError:
            return False
        return True

    def _name_aside(self, path: str) -> str:
        return os.path.join(self.aside, f"{os.path.basename(path)}.{secrets.token_hex(4)}")

    def _look(self, only: tuple[str, ...] = (), *, contents: bool = True) -> dict[str, PersonaSnapshot]:
        found: dict[str, PersonaSnapshot] = {}
        room = BYTES if contents else 0
        for path in only or self._paths():
            try:
                status = os.lstat(path)
            except OSError:
                continue
            stamp = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)
            known = self._cache.get(path)
            if known is not None and known.stamp == stamp:
                room -= len(known.data or b"")
                found[path] = known
            elif stat.S_ISLNK(status.st_mode):
                with contextlib.suppress(OSError):
                    found[path] = PersonaSnapshot(stamp, None, os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                data = _read(self._top(path), path) if status.st_size <= room else None
                room -= len(data or b"")
                found[path] = PersonaSnapshot(stamp, data)
        if contents and not only:
            self._cache.clear()
            self._cache.update(found)
        return found

    def _paths(self) -> Iterator[str]:
        """Every file that is watched, and what a link among them leads to in the workspace."""
        start = _count_top(self.workspace)
        top = _list(self.workspace)
        if top is not None:  # of a hundred names that are looked at twice a call, few can be ours
            top = [e for e in top if may_steer(e.name) or e.is_dir(follow_symlinks=False) or e.name in _LINKS]
        listed: _Listed = {self.workspace: top}  # once for both walks: the dearest system call of a look
        for path, is_link in () if self.project else _walk_shaping(self.workspace, listed):
            if not is_shaping_file(name := path[start:]) and name not in _LINKS:
                continue
            yield path
            if is_link:
                real = os.path.realpath(path)
                if is_inside(real, self.workspace) and os.path.isfile(real):  # a folder that is a link: not walked
                    yield real
        if self.home:
            steers = is_project_order if self.project else is_steering_file
            for path, is_link in _walk(self.workspace, listed, _STEERING_DEPTH):
                # a link may stand for a whole folder: hooks of git, settings of an editor
                if steers(path[start:]) or (is_link and steers(f"{path[start:]}/config")):
                    yield path
            yield from (f"{self.home}/{name}" for name in _choose_present(STEERING_HOME, _list(self.home)))


def _differs(old: PersonaSnapshot | None, new: PersonaSnapshot | None) -> bool:
    return (old and old.stamp) != (new and new.stamp)


def _is_harmless(change: PersonaChange) -> bool:
    """Touched and still the same; or a git config that says nothing else about programs and places."""
    old, new = change.old, change.new
    if old is not None and new is not None and old.data is not None and old[1:] == new[1:]:
        return old.stamp[-1] == new.stamp[-1] or is_shaping_file(change.name)
    name = os.path.basename(change.path)
    if name not in ("config", "config.worktree") or (new is not None and new.data is None):
        return False
    orders = [list_git_orders((one.data or b"").decode("utf-8", "replace")) if one else () for one in (old, new)]
    return set(orders[1]) <= set(orders[0])


def _lines(one: PersonaSnapshot | None) -> list[str]:
    if one is None:
        return []
    if one.link:
        return [f"(a link to {one.link})"]
    return one.data.decode("utf-8", "replace").splitlines() if one.data is not None else ["(too large to be shown)"]


def _walk_shaping(workspace: str, listed: _Listed) -> Iterator[tuple[str, bool]]:
    """Paths, and whether they are links."""
    top = listed[workspace]
    for entry in top or ():
        if (is_shaping_file(entry.name) or entry.name in _LINKS) and not entry.is_dir(follow_symlinks=False):
            yield entry.path, entry.is_symlink()
    for folder in _choose_present(SHAPING_FOLDERS, top):
        path = os.path.join(workspace, folder)
        link = next((p for p in (os.path.dirname(path), path) if p != workspace and os.path.islink(p)), "")
        if link:  # what it leads to is not ours to look through
            yield link, True
        else:
            yield from _walk(path, listed)


def _choose_present(paths: tuple[str, ...], entries: list[os.DirEntry[str]] | None) -> list[str]:
    """Those that can be there, as far as their first step tells: a folder is listed once, instead of asked about each
    name that could be in it. All of them where it cannot be listed. Some file systems take ABC for abc."""
    if entries is None:
        return list(paths)
    there = {entry.name.casefold() for entry in entries}
    return [path for path in paths if path.partition("/")[0].casefold() in there]


def _count_top(workspace: str) -> int:
    """How many characters of a path that was found below the workspace are the workspace's. Asking `relpath` for every
    file was a third of a call."""
    return len(os.path.join(workspace, ""))


def _walk(top: str, listed: _Listed, depth: int = -1) -> Iterator[tuple[str, bool]]:
    """Files and links (True) below a folder, to the bottom unless told: then only those that may steer other programs,
    as far as names tell. A folder that was closed to us is opened."""
    waiting = [(top, depth)]
    while waiting:
        folder, left = waiting.pop()
        every = depth < 0 or "/." in folder[len(top) :]
        if folder not in listed:
            listed[folder] = _list(folder)
        for entry in listed[folder] or ():
            if not entry.is_dir(follow_symlinks=False):
                if every or may_steer(entry.name):
                    yield entry.path, entry.is_symlink()
            elif left < 0 or entry.name in (".git", ".github"):
                waiting.append((entry.path, -1 if left < 0 else left))
            elif left > 0 and entry.name not in _HEAVY and (entry.name != "objects" or "/.git" not in folder):
                waiting.append((entry.path, left - 1))


def _list(folder: str) -> list[os.DirEntry[str]] | None:
    """What is in it. None: it will not say, though there is one."""
    for _ in range(2):
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except PermissionError:
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
        except OSError:
            return []
    return None


def _read(top: str, path: str) -> bytes | None:
    try:
        return handles.read_whole(ResolvedPath(path, path, top), BYTES)
    except ToolFailure:
        return None


def _put(top: str, path: str, wanted: PersonaSnapshot | None) -> None:
    """As it was; a link or a folder that stands in the way goes first."""
    place = ResolvedPath(path, path, top)
    _clear(top, place.parts)
    if wanted is None:
        return
    with handles.open_folder(place, place.parts[:-1], make=True) as parent:
        if wanted.link:
            os.symlink(wanted.link, place.parts[-1], dir_fd=parent)
        elif wanted.data is not None:
            handles.replace_file(place, wanted.data)
            os.chmod(place.parts[-1], stat.S_IMODE(wanted.stamp[-1]), dir_fd=parent)


def _clear(top: str, parts: tuple[str, ...]) -> None:
    """Take away what is at the end of the path, and the first step of it that has become something else."""
    place = ResolvedPath("", top, top)
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
