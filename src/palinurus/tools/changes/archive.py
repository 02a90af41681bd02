"""What is on disk of changes, below `changes` in the state directory: a journal per run (`runs`), contents by hash
(`blobs`), workspaces as they were last seen (`base`), calls that go on (`open`), an undo that goes on (`pending`).

A journal is a file of JSON lines that only grows; half a line at its end is a killed program's, and does not count.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from palinurus.core.types.changes import FileChange, FileState, RunChanges, UndoStep, fold_changes
from palinurus.files import NotPlainFile, read_plain_file, write_whole_file
from palinurus.tools.changes import FOLDER
from palinurus.tools.changes.blobs import BlobStore
from palinurus.tools.changes.look import SeenFiles

log = logging.getLogger(__name__)

MOST = 64 << 20  # bytes of a journal, a base or a plan that is read
NOTES = 20  # of one run
ENDED = 8  # journals that were written last


class RunHeader(msgspec.Struct, frozen=True):
    """Whose changes they are."""

    item: str
    session: str
    agent: str
    workspace: str
    at: int


class JournalLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: whose it is, what a call changed, what could not be kept, or that it was undone or done again."""

    run: RunHeader | None = None
    changes: tuple[FileChange, ...] = ()
    note: str = ""
    undo: tuple[UndoStep, ...] | None = None
    redo: bool = False
    plan: str = ""  # the undo or redo that this line ends


class OpenCall(msgspec.Struct, frozen=True):
    """A call that goes on. `paths`: what a file tool is to write, as it was; {} = a command, see `base`."""

    run: RunHeader
    tool: str
    paths: dict[str, FileState | None] = {}


class UndoPlan(msgspec.Struct, frozen=True):
    """What is about to be done to a workspace, whole or not at all."""

    id: str
    item: str
    workspace: str
    steps: tuple[UndoStep, ...]
    redo: bool = False


class ChangeArchive:
    """Reads and writes all of it. Raises OSError where it cannot."""

    def __init__(self, home: str) -> None:
        self._top = os.path.join(home, FOLDER)
        self.blobs = BlobStore(os.path.join(self._top, "blobs"))
        self.pending = os.path.join(self._top, "pending")
        self._noted: set[tuple[str, str]] = set()
        self._prepared = False

    def prepare(self) -> None:
        """Make the folders, before the first thing is kept."""
        if not self._prepared:
            for name in ("runs", "base", "open", "blobs"):
                os.makedirs(self._path(name), mode=0o700, exist_ok=True)
            self._prepared = True

    # journals of runs

    def add(self, header: RunHeader, changes: Sequence[FileChange]) -> None:
        """What a call of the run changed."""
        self._append(header.item, JournalLine(header, tuple(changes)))

    def note(self, header: RunHeader, note: str) -> None:
        """What could not be kept, said once."""
        if (header.item, note) not in self._noted and len(self._noted) < 10_000:
            self._noted.add((header.item, note))
            with contextlib.suppress(OSError):
                self._append(header.item, JournalLine(header, note=note))

    def load(self, item: str) -> RunChanges | None:
        """What a run changed; None if nothing is on file."""
        return _fold(self._read(item))

    def _read(self, item: str) -> list[JournalLine]:
        if os.path.basename(item) != item:
            return []
        try:
            data = read_plain_file(self._path("runs", f"{item}.jsonl"), MOST)  # our own
        except (OSError, NotPlainFile):
            return []
        return [line for text in data.split(b"\n") if (line := _decode(text)) is not None]

    def list_runs(self) -> list[str]:
        """The ids of all runs on file, the last changed first."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self._path("runs")) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl"):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name.removesuffix(".jsonl")))
        return [name for _, name in sorted(found, reverse=True)]

    def forget(self, item: str) -> None:
        """Its journal; contents go with the next sweep."""
        with contextlib.suppress(OSError):
            os.unlink(self._path("runs", f"{item}.jsonl"))

    def _append(self, item: str, line: JournalLine, *, sync: bool = False) -> None:
        path = self._path("runs", f"{item}.jsonl")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)  # our own
        try:
            # the line break first: half a line that a killed program left stays alone
            os.write(handle, b"\n" + msgspec.json.encode(line))
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)

    # workspaces as they were last seen

    def load_base(self, workspace: str) -> SeenFiles | None:
        """None: it is not there, or damaged."""
        try:
            data = read_plain_file(self._base(workspace), MOST)  # our own
            return msgspec.msgpack.decode(data, type=SeenFiles)
        except (OSError, NotPlainFile, msgspec.DecodeError):
            return None

    def save_base(self, workspace: str, found: SeenFiles) -> None:
        write_whole_file(self._base(workspace), msgspec.msgpack.encode(found), sync=False)  # our own

    def _base(self, workspace: str) -> str:
        return self._path(
            "base", hashlib.blake2b(workspace.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        )

    def read_clock(self) -> int:
        """The file system's time, in nanoseconds."""
        path = self._path("clock")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)  # our own
        try:
            os.utime(handle)
            return os.fstat(handle).st_ctime_ns
        finally:
            os.close(handle)

    # calls that go on

    def mark_open(self, call: OpenCall) -> str:
        """Returns what to give to `unmark`."""
        path = self._path("open", f"{os.getpid()}.{os.urandom(6).hex()}")
        write_whole_file(path, msgspec.json.encode(call), sync=False)  # our own
        return path

    def unmark(self, marker: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(marker)

    def list_open(self, lives: Callable[[int], bool]) -> list[tuple[str, OpenCall]]:
        """Calls of processes that are gone, by marker."""
        found = []
        for name in sorted(_list(self._path("open"))):
            pid = name.lstrip(".").partition(".")[0]
            if not pid.isdigit() or lives(int(pid)):
                continue
            marker = self._path("open", name)
            if name.startswith("."):  # it was being written: the call had not begun
                self.unmark(marker)
                continue
            try:
                found.append((marker, msgspec.json.decode(read_plain_file(marker, MOST), type=OpenCall)))  # our own
            except (OSError, NotPlainFile, msgspec.DecodeError):
                self.unmark(marker)
        return found

    # an undo that is being done

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Of several who undo, one at a time."""
        self.prepare()
        handle = os.open(self._path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # our own
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def save_plan(self, plan: UndoPlan) -> None:
        """On disk when this returns."""
        write_whole_file(self.pending, msgspec.json.encode(plan))  # our own

    def load_plan(self) -> UndoPlan | None:
        """What was begun and is not ended."""
        try:
            return msgspec.json.decode(read_plain_file(self.pending, MOST), type=UndoPlan)  # our own
        except FileNotFoundError:
            return None
        except (OSError, NotPlainFile, msgspec.DecodeError) as exc:
            log.error("an undo that was begun cannot be read: %s", exc)
            return None

    def end_plan(self, plan: UndoPlan, steps: tuple[UndoStep, ...]) -> None:
        """It is done, with these steps: say so in the run's journal, for good."""
        if plan.id not in {line.plan for line in self._read(plan.item)}:
            self._append(plan.item, JournalLine(None, undo=steps, redo=plan.redo, plan=plan.id), sync=True)

    def find_ended(self, plan: str) -> tuple[RunChanges, tuple[UndoStep, ...]] | None:
        """The run that this plan undid or did again, and with which steps; only the last ones are looked at."""
        for item in self.list_runs()[:ENDED]:
            for line in self._read(item):
                run = self.load(item) if line.plan == plan else None
                if run is not None:
                    return run, line.undo or ()
        return None

    def drop_plan(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.pending)

    # what goes

    def prune(
        self, before: int, most: int, room: int, *, gone: Collection[str] = (), held: Collection[str] = ()
    ) -> int:
        """Forget runs older than `before` (milliseconds) and beyond the `most` newest, those that are `gone`, and, the
        oldest first, as many as it takes for all contents to fit into `room` bytes; at last also what is known of
        workspaces. `held`: contents somebody is about to need. Returns how many runs."""
        kept: list[RunChanges] = []
        forgotten = 0
        for item in self.list_runs():
            run = self.load(item)
            if run is None or run.at < before or len(kept) >= most or item in gone:
                self.forget(item)
                forgotten += 1
            else:
                kept.append(run)
        bases = self._list_bases(before)
        while self.blobs.sweep({*held, *self._list_used(kept, bases)}) > room and (kept or bases):
            if kept:
                for run in kept[-max(1, len(kept) // 10) :]:
                    self.forget(run.item)
                    forgotten += 1
                del kept[-max(1, len(kept) // 10) :]
            else:
                self._drop_base(bases.pop())
        return forgotten

    def _list_bases(self, before: int) -> list[str]:
        """The newest first; those in which nothing has changed for so long go: they would be looked at anew."""
        found: list[tuple[int, str]] = []
        for name in _list(self._path("base")):
            with contextlib.suppress(OSError):
                found.append((os.stat(self._path("base", name)).st_mtime_ns, name))
        for at, name in found:
            if at < before * 1_000_000:
                self._drop_base(name)
        return [name for at, name in sorted(found, reverse=True) if at >= before * 1_000_000]

    def _drop_base(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path("base", name))

    def _list_used(self, runs: Sequence[RunChanges], bases: Sequence[str]) -> set[str]:
        used: set[str] = set()
        for run in runs:
            for change in run.changes:
                used |= {state.hash for state in (change.before, change.after) if state is not None}
            for step in run.undone or ():
                used |= {state.hash for state in (step.was, step.to) if state is not None}
        for name in bases:
            with contextlib.suppress(OSError, NotPlainFile, msgspec.DecodeError):
                data = read_plain_file(self._path("base", name), MOST)  # our own
                used |= {seen.state.hash for seen in msgspec.msgpack.decode(data, type=SeenFiles).values()}
        return used

    def _path(self, *parts: str) -> str:
        return os.path.join(self._top, *parts)


_decoder = msgspec.json.Decoder(JournalLine)


def _decode(text: bytes) -> JournalLine | None:
    try:
        return _decoder.decode(text) if text else None
    except msgspec.DecodeError:
        return None


def _fold(lines: list[JournalLine]) -> RunChanges | None:
    header = next((line.run for line in lines if line.run is not None), None)
    if header is None:
        return None
    ends = [line for line in lines if line.undo is not None]
    undone = ends[-1].undo if ends and not ends[-1].redo else None
    return RunChanges(
        item=header.item,
        session=header.session,
        agent=header.agent,
        workspace=header.workspace,
        at=header.at,
        changes=fold_changes([change for line in lines for change in line.changes]),
        notes=tuple(dict.fromkeys(line.note for line in lines if line.note))[:NOTES],
        undone=undone,
    )


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
