"""Who changed what: around every call that may write files, the files are looked at before and after, and what differs
is written to the journal of the run (one file per message in the state directory).

Never in the way: where something cannot be kept, the log says so and the call goes on. A marker in `open` tells a start
after `kill -9` which call was cut off; what that one had changed by then is found and added.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache, partial
from typing import Any, TypeVar

from palinurus.core.policy.command import only_reads
from palinurus.core.types.changes import ChangeRules, FileChange
from palinurus.core.types.tool import ToolContext
from palinurus.crashpoints import pass_crashpoint
from palinurus.files import find_real_path
from palinurus.tools.changes.archive import ChangeArchive, OpenCall, RunHeader
from palinurus.tools.changes.look import FileLook, SeenFile, SeenFiles, compare_looks
from palinurus.tools.watches import is_alive

log = logging.getLogger(__name__)
T = TypeVar("T")

FILES = frozenset(("write", "edit", "apply_patch"))
COMMANDS = frozenset(("exec", "process"))
SMALL = 200  # files of a workspace that are looked at without leaving the event loop's thread
KEPT = 4  # workspaces that are remembered
TOLD = 100  # paths that a result names
AGAIN = 50  # commands until a workspace that was too large is looked at again
LARGE = "{where} has more than {most:,} files: what commands change there is not kept (tools.changes.maxFiles)"
UNKNOWN = "what {where} held before is not known any more: what the command changed there is not kept"
OUTSIDE = "{path} lies outside the workspace: not kept"


class ChangeWindow:
    """One call, from its beginning until nothing it started can write any more."""

    def __init__(self, header: RunHeader, tool: str, rules: ChangeRules) -> None:
        self.header = header
        self.tool = tool
        self.rules = rules
        self.before: SeenFiles = {}  # of a file tool: its paths
        self.paths: tuple[str, ...] = ()  # () = all of the workspace
        self.pids: set[int] = set()  # left in the background
        self.going = True
        self.marker = ""
        self.changed: dict[str, None] = {}  # paths

    @property
    def lives(self) -> bool:
        self.pids = {pid for pid in self.pids if is_alive(pid)}
        return self.going or bool(self.pids)


class ChangeJournal:
    """Of one state directory."""

    def __init__(self, home: str) -> None:
        self.archive = ChangeArchive(home)
        self._known: dict[str, SeenFiles] = {}
        self._unsaved: set[str] = set()  # workspaces of which something else lies on disk
        self._large: dict[str, int] = {}
        self._open: list[ChangeWindow] = []
        self._lock = threading.RLock()  # looks take turns, in whatever thread

    async def begin(
        self, ctx: ToolContext, tool: str, args: Mapping[str, Any], paths: tuple[str, ...]
    ) -> ChangeWindow | None:
        """Before a call. `paths`: the real paths that a file tool is to write. None: there is nothing to look at."""
        self.archive.prepare()
        workspace = find_real_path(ctx.workspace)
        header = RunHeader(ctx.item, ctx.session, ctx.agent, workspace, at=ctx.now())
        window = ChangeWindow(header, tool, ctx.settings.changes)
        if tool in FILES:
            inner = [os.path.relpath(path, workspace) for path in paths]
            for path in inner:
                if path.startswith("../"):
                    self.archive.note(header, OUTSIDE.format(path=path))
            window.paths = _with_parents(path for path in inner if not path.startswith("../"))
            return await self._work(self._begin_paths, window, small=True) if window.paths else None
        if tool == "exec":
            return None if only_reads(str(args.get("command") or "")) else await self._begin_command(window)
        left = any(one.pids for one in self._open if one.header.workspace == workspace)
        return window if left else None  # it starts nothing; what it looks after may have written meanwhile

    async def end(self, window: ChangeWindow, pid: int) -> tuple[str, ...] | None:
        """After it; `pid` of what it left running, or 0. Returns the paths it changed; None: not known, or not all."""
        window.going = False
        if pid and not window.paths:  # it has only begun; the next look finds what it changes
            window.pids.add(pid)
            return None
        small = bool(window.paths) or self._is_small(window.header.workspace)
        known = await self._work(self._end, window, small=small)
        return tuple(window.changed) if known and len(window.changed) <= TOLD else None

    async def refresh(self) -> None:
        """Before somebody asks: what background commands have changed since they were last looked at."""
        for workspace in {one.header.workspace for one in self._open}:
            rules = next((one.rules for one in self._open if one.header.workspace == workspace), ChangeRules())
            await asyncio.to_thread(self._look, workspace, None, rules)

    def accept(self, workspace: str, paths: tuple[str, ...], rules: ChangeRules) -> None:
        """These were changed by who may: no command did it."""
        with self._lock:
            if workspace in self._known:
                self._put(workspace, paths, self._look_at(workspace, paths, rules))

    def prune(self, rules: ChangeRules, before: int = 0, gone: Collection[str] = ()) -> int:
        """Forget what is old or too much (`ChangeArchive.prune`), but nothing that a call needs which goes on."""
        with self._lock, self.archive.hold():
            seen = [*self._known.values(), *(one.before for one in self._open)]
            held = {one.state.hash for files in seen for one in files.values()}
            self._unsaved.update(self._known)  # what is on disk of them may go
            return self.archive.prune(before, rules.runs, rules.bytes, gone=gone, held=held)

    def recover(self, rules: ChangeRules) -> int:
        """At the start: what calls that a killed program did not end had changed. Returns how many calls."""
        left = self.archive.list_open(is_alive)
        for marker, call in left:
            window = ChangeWindow(call.run, call.tool, rules)
            window.paths = tuple(call.paths)
            window.before = {path: SeenFile((), state) for path, state in call.paths.items() if state is not None}
            window.going, window.marker = False, marker
            self._end(window)
        return len(left)

    async def _work(self, work: Callable[[ChangeWindow], T], window: ChangeWindow, *, small: bool) -> T | None:
        try:
            return work(window) if small else await asyncio.to_thread(work, window)
        except OSError as exc:
            log.warning("what %s changes could not be kept: %s", window.tool, exc)
            return None

    async def _begin_command(self, window: ChangeWindow) -> ChangeWindow | None:
        return await self._work(self._begin_look, window, small=self._is_small(window.header.workspace))

    def _is_small(self, workspace: str) -> bool:
        return 0 < len(self._known.get(workspace, ())) < SMALL or workspace in self._large

    def _begin_paths(self, window: ChangeWindow) -> ChangeWindow:
        with self._lock:
            window.before = self._look_at(window.header.workspace, window.paths, window.rules)
            states = {path: seen.state if (seen := window.before.get(path)) else None for path in window.paths}
            window.marker = self.archive.mark_open(OpenCall(window.header, window.tool, states))
            self._open.append(window)
        return window

    def _begin_look(self, window: ChangeWindow) -> ChangeWindow | None:
        workspace = window.header.workspace
        with self._lock:
            if not self._look(workspace, None, window.rules):
                self.archive.note(window.header, LARGE.format(where=workspace, most=window.rules.files))
                return None
            window.marker = self.archive.mark_open(OpenCall(window.header, window.tool, {}))
            self._open.append(window)
        return window

    def _end(self, window: ChangeWindow) -> bool:
        """False: what it changed is not known."""
        workspace = window.header.workspace
        with self._lock:
            known = True
            try:
                pass_crashpoint("change.before")
                if window.paths:
                    after = self._look_at(workspace, window.paths, window.rules)
                    self._write(window, compare_looks(window.before, after, window.tool))
                    if workspace in self._known:
                        self._put(workspace, window.paths, after)
                elif not self._look(workspace, window if window.tool != "process" else None, window.rules):
                    known = False
                    self.archive.note(window.header, LARGE.format(where=workspace, most=window.rules.files))
            finally:
                if not window.lives:
                    self._close(window)
            if self.archive.blobs.written > window.rules.bytes // 4:  # not only once a day
                self.prune(window.rules)
            return known

    def _look(self, workspace: str, window: ChangeWindow | None, rules: ChangeRules) -> bool:
        """Look at all of it. What is another now is the window's, or else that of the last call that goes on there, or
        somebody else's. False: it is too large."""
        with self._lock:
            if self._large.get(workspace, 0) > 0:
                self._large[workspace] -= 1
                return False
            known = self._recall(workspace)
            found = FileLook(rules, self.archive.blobs).look(workspace, known or {}, self.archive.read_clock())
            if found is None:
                self._large[workspace] = AGAIN
                self._known.pop(workspace, None)
                self._open = [one for one in self._open if one.header.workspace != workspace or one.paths]
                return False
            self._large.pop(workspace, None)
            ours = [one for one in self._open if one.header.workspace == workspace and not one.paths]
            whose = window or next((one for one in reversed(ours)), None)
            if whose is not None and known is None:  # not: all of it is new
                self.archive.note(whose.header, UNKNOWN.format(where=workspace))
            elif whose is not None and known is not None:
                self._write(whose, compare_looks(known, found, whose.tool))
            self._known[workspace] = found
            for one in ours:
                if not one.lives:
                    self._close(one)
            if known is None or workspace in self._unsaved or not _is_same(known, found):
                self.archive.save_base(workspace, found)
                self._unsaved.discard(workspace)
            return True

    def _look_at(self, workspace: str, paths: tuple[str, ...], rules: ChangeRules) -> SeenFiles:
        return FileLook(rules, self.archive.blobs).look_at(workspace, paths, self.archive.read_clock())

    def _put(self, workspace: str, paths: tuple[str, ...], now: SeenFiles) -> None:
        known = self._known[workspace]
        for path in paths:
            known.pop(path, None)
        known.update(now)
        self._unsaved.add(workspace)

    def _recall(self, workspace: str) -> SeenFiles | None:
        """As it was seen last. None: nobody knows."""
        known = self._known.pop(workspace, None)
        if known is None:
            known = self.archive.load_base(workspace)
        if known is not None:
            self._known[workspace] = known
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return known

    def _write(self, window: ChangeWindow, changes: list[FileChange]) -> None:
        if changes:
            window.changed.update(dict.fromkeys(change.path for change in changes))
            self.archive.add(window.header, changes)

    def _close(self, window: ChangeWindow) -> None:
        with contextlib.suppress(ValueError):
            self._open.remove(window)
        if window.marker:
            pass_crashpoint("change.after")
            self.archive.unmark(window.marker)


@cache
def get_change_journal(home: str) -> ChangeJournal:
    """One for the process and state directory."""
    return ChangeJournal(home)


async def begin_window(
    ctx: ToolContext, tool: str, args: Mapping[str, Any], paths: tuple[str, ...]
) -> Callable[[int], Awaitable[tuple[str, ...] | None]] | None:
    """See `ChangeJournal.begin`; returns how to end it."""
    journal = get_change_journal(ctx.settings.protected[0])
    window = await journal.begin(ctx, tool, args, paths)
    return partial(journal.end, window) if window is not None else None


def _is_same(known: SeenFiles, found: SeenFiles) -> bool:
    return len(found) == len(known) and all(known.get(path) is seen for path, seen in found.items())


def _with_parents(paths: Any) -> tuple[str, ...]:
    """The paths and the folders on the way, which the call may make."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        found.update(dict.fromkeys("/".join(parts[:at]) for at in range(1, len(parts) + 1)))
    return tuple(found)
