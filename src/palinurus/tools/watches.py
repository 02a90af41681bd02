"""The watches over the agent's own files that go on now, and what prompts may read meanwhile.

While a command runs, or has left a process behind, a prompt shows these files as they should be, whatever the command
made of them. What they should be is on disk, too, beside a marker: where the program was killed in between, the next
start puts them back.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import msgspec

from palinurus.core.folders import is_inside
from palinurus.files import find_real_path, write_whole_file
from palinurus.late import load_part

if TYPE_CHECKING:  # loaded with the first watch
    from palinurus.tools.persona import PersonaChange, PersonaSnapshot, PersonaWatch

log = logging.getLogger(__name__)
T = TypeVar("T")

TRIES = 3  # to read files while a command changes them all the time
_KEPT = 8  # workspaces whose files are remembered between calls
ASIDE = "aside"  # the folder of the state directory for what was put back
_HELD = "-held"  # after its name: the folder for what is right while commands run


class HeldFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it should be, for the next start. `data` None: it was too large."""

    path: str
    stamp: tuple[int, ...]
    data: bytes | None = None
    link: str = ""


class HeldWorkspace(msgspec.Struct, frozen=True):
    """One watch, as it is kept on disk."""

    workspace: str
    home: str
    files: tuple[HeldFile, ...]
    project: bool = False


class PersonaWatches:
    """The watches that go on now, of all workspaces."""

    def __init__(self) -> None:
        self._watches: list[PersonaWatch] = []
        self._caches: dict[tuple[str, str], dict[str, PersonaSnapshot]] = {}
        self._kept: dict[str, tuple[object, ...]] = {}  # by marker: what was last written beside it

    @contextlib.contextmanager
    def watch(self, workspace: str, aside: str, home: str = "", *, project: bool = False) -> Iterator[PersonaWatch]:
        """Watch while a call runs. Whoever leaves processes behind adds them to `pids`; then the watch goes on."""
        cached = self._caches.pop((workspace, home), {})
        self._caches[workspace, home] = cached
        if len(self._caches) > _KEPT:
            del self._caches[next(iter(self._caches))]
        watch: PersonaWatch = load_part("persona").PersonaWatch(workspace, aside, home, cached, project=project)
        for older in self._watches:
            if older.workspace == watch.workspace:
                watch.inherit(older)
        self._watches.append(watch)
        self._keep(watch)
        try:
            yield watch
        finally:
            if not watch.pids:
                self._end(watch)

    def accept(self, paths: Iterable[str]) -> None:
        """These files were written with leave: nobody puts them back."""
        for path in paths:
            for watch in self._watches:
                if is_inside(path, watch.workspace):
                    watch.accept(path)
                    self._keep(watch)

    def put_back(self, workspace: str) -> bool:
        """Before these files are read for a prompt: put back what commands that still run have changed; who made the
        change is told with its result. Was there anything?"""
        if not self._watches:
            return False
        real = find_real_path(workspace)
        changed = [watch.put_back() for watch in self._watches if watch.workspace == real]
        return any(changed)

    def get_held(self, workspace: str, name: str) -> tuple[bytes | None] | None:
        """What a file of the workspace should hold while commands run there, whatever it holds; (None,): it should not
        be there. None: no command runs, or the file is a link or too large, and is as it is after `put_back`."""
        real = find_real_path(workspace) if self._watches else ""
        watch = next((one for one in self._watches if one.workspace == real), None)
        if watch is None:
            return None
        found = watch.known.get(os.path.join(real, name))
        return (None,) if found is None else None if found.data is None else (found.data,)

    def read_settled(self, workspace: str, read: Callable[[], T]) -> T | None:
        """What `read` finds there while nothing was changed without leave; None if that does not come about."""
        for _ in range(TRIES):
            self.put_back(workspace)
            found = read()
            if not self.put_back(workspace):
                return found
        return None

    def undo_strays(self, workspace: str) -> list[tuple[PersonaWatch, PersonaChange]]:
        """What processes that were left behind have changed, put back; those that ended are forgotten."""
        undone: list[tuple[PersonaWatch, PersonaChange]] = []
        left = [one for one in self._watches if one.pids]
        real = find_real_path(workspace) if left else ""
        for watch in [one for one in left if one.workspace == real]:
            watch.pids = {pid for pid in watch.pids if is_alive(pid)}
            undone += [(watch, change) for change in watch.undo()]
            if not watch.pids:
                self._end(watch)
        return undone

    def release(self, aside: str) -> None:
        """The program ends, and its commands have."""
        for watch in [one for one in self._watches if one.aside == aside]:
            watch.put_back()
            self._end(watch)

    def recover(self, aside: str) -> list[PersonaChange]:
        """At the start: put back what commands had changed when the program was killed."""
        undone: list[PersonaChange] = []
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(aside + _HELD)):
                pid, _, ident = name.partition(".")
                if ident and pid.isdigit() and not is_alive(int(pid)):
                    undone += _put_back_held(aside, ident)
                    os.unlink(os.path.join(aside + _HELD, name))
        for change in undone:
            log.warning("%s was changed by a command when the program was killed; it was put back", change.path)
        return undone

    def _keep(self, watch: PersonaWatch) -> None:
        """What is right, on disk while commands run; written only where it is not there already."""
        if not watch.aside:
            return
        folder = watch.aside + _HELD
        ident = _name_held(watch)
        state = tuple((path, one.stamp) for path, one in watch.known.items())
        try:
            if self._kept.get(ident) != state:
                files = tuple(HeldFile(path, one.stamp, one.data, one.link) for path, one in watch.known.items())
                os.makedirs(folder, mode=0o700, exist_ok=True)
                data = msgspec.msgpack.encode(HeldWorkspace(watch.workspace, watch.home, files, watch.project))
                write_whole_file(os.path.join(folder, ident), data, sync=False)  # our own; killed is not without power
                self._kept[ident] = state
            marker = os.path.join(folder, f"{os.getpid()}.{ident}")
            os.close(os.open(marker, os.O_CREAT | os.O_WRONLY, 0o600))  # our own
        except OSError as exc:
            log.warning("what commands may not change could not be kept for the next start: %s", exc)

    def _end(self, watch: PersonaWatch) -> None:
        self._watches.remove(watch)
        ident = _name_held(watch)
        if watch.aside and not any(_name_held(one) == ident for one in self._watches):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(watch.aside + _HELD, f"{os.getpid()}.{ident}"))


get_persona_watches = cache(PersonaWatches)  # one for the process, whose children they follow


def is_alive(pid: int) -> bool:
    """Does the process still exist?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _name_held(watch: PersonaWatch) -> str:
    return hashlib.sha256(f"{watch.workspace}\n{watch.home}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _put_back_held(aside: str, ident: str) -> list[PersonaChange]:
    persona = load_part("persona")
    try:
        with open(os.path.join(aside + _HELD, ident), "rb") as file:  # our own
            held = msgspec.msgpack.decode(file.read(), type=HeldWorkspace)
        watch: PersonaWatch = persona.PersonaWatch(held.workspace, aside, held.home, project=held.project)
    except (OSError, msgspec.MsgspecError) as exc:
        log.error("what a command may have changed before the program was killed is not known: %s", exc)
        return []
    watch.go_by({one.path: persona.PersonaSnapshot(one.stamp, one.data, one.link) for one in held.files})
    return watch.undo()
