"""The search process: reads one job from stdin, writes one JSON line per finding, and a summary at the end.

It is a process because Python's regular expressions cannot be interrupted and hold the interpreter: a pattern
like (a+)+$ would stop every session. Here it only runs into its own alarm. Standard library only, started
without site packages. It gets an open folder and never handles a path from above it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from palinurus.tools.search.glob import GlobPattern, IgnoreFile, is_ignored, parse_ignore_file, widen_pattern

_MAX_DEPTH = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_IGNORE = 256 * 1024
_MAX_FILE = 16 << 20  # bytes searched of one file
_MAX_LINE = 10_000  # characters of a line the pattern sees
_SHOWN = 500  # characters of a line that are shown
_MEMORY = 2 << 30


class WalkEntry(NamedTuple):
    """`parent` is an open handle, good until the next step of the walk."""

    path: tuple[str, ...]
    folder: bool
    parent: int


def walk_folder(
    handle: int, barred: frozenset[tuple[int, int]], rules: tuple[IgnoreFile, ...], above: tuple[str, ...] = ()
) -> Iterator[WalkEntry]:
    """Everything below `handle`, depth first, names in order; ignored and barred folders are left out. Every step is
    opened relative to the folder above it and follows no link: a walk that starts inside cannot end up outside."""
    text = _small(handle, ".gitignore")
    if text:
        rules = (*rules, parse_ignore_file(text, len(above)))
    try:
        with os.scandir(handle) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:
        return
    for name, folder in found:
        path = (*above, name)
        if (folder and name == ".git") or is_ignored(path, folder, rules):
            continue
        if not folder:
            yield WalkEntry(path, False, handle)
            continue
        deeper = _deeper(handle, name, barred)
        if deeper is None:
            continue
        try:
            yield WalkEntry(path, True, handle)
            if len(path) < _MAX_DEPTH:
                yield from walk_folder(deeper, barred, rules, path)
        finally:
            os.close(deeper)


def _deeper(handle: int, name: str, barred: frozenset[tuple[int, int]]) -> int | None:
    try:
        deeper = os.open(name, _FOLDER, dir_fd=handle)
    except OSError:
        return None
    status = os.fstat(deeper)
    if (status.st_dev, status.st_ino) in barred:
        os.close(deeper)
        return None
    return deeper


def open_regular(parent: int, name: str) -> int | None:
    """An open handle of a regular file; None for anything else or if it cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return None
        handle = os.open(name, _FILE, dir_fd=parent)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def _small(parent: int, name: str) -> str:
    handle = open_regular(parent, name)
    if handle is None:
        return ""
    try:
        return os.read(handle, _MAX_IGNORE).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def main() -> None:
    """Do the job on stdin."""
    job = json.load(sys.stdin)
    _limit(job["seconds"])
    modes: dict[str, Callable[[dict[str, Any], _Report], None]] = {"find": _find, "grep": _grep}
    report = _Report(job["limit"], job["room"])
    try:
        modes[job["mode"]](job, report)
    except re.error as exc:
        report.error = f"the pattern is not a valid regular expression: {exc}"
    except (RecursionError, OverflowError, MemoryError):
        report.error = "the pattern is too large"
    report.finish()


def _limit(seconds: float) -> None:
    """The alarm's default action ends the process even in the middle of a match."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    for what, value in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(what, (value, value))
        except (ValueError, OSError):
            continue


class _Report:
    """Findings within the limits. `full` says when to stop."""

    def __init__(self, limit: int, room: int) -> None:
        self.limit = limit
        self.room = room
        self.count = 0
        self.full = ""
        self.error = ""

    def line(self, text: str) -> None:
        self.room -= len(text) + 1
        if self.room < 0:
            self.full = self.full or "size"
            return
        sys.stdout.write(json.dumps(text) + "\n")
        sys.stdout.flush()  # what is found survives the alarm

    def hit(self) -> bool:
        """Count one; False when there were enough before."""
        if self.count >= self.limit:
            self.full = self.full or "limit"
            return False
        self.count += 1
        return True

    def finish(self) -> None:
        sys.stdout.write(json.dumps({"count": self.count, "full": self.full, "error": self.error}) + "\n")
        sys.stdout.flush()


def _entries(job: dict[str, Any]) -> Iterator[WalkEntry]:
    if job["only"]:
        yield WalkEntry((job["only"],), False, job["folder"])
        return
    rules = tuple(parse_ignore_file(text, 0, tuple(above)) for text, above in job["ignores"])
    yield from walk_folder(job["folder"], frozenset((d, i) for d, i in job["barred"]), rules)


def _find(job: dict[str, Any], report: _Report) -> None:
    glob = GlobPattern(widen_pattern(job["pattern"]))
    for found in _entries(job):
        if glob.match(found.path):
            if not report.hit():
                return
            report.line(job["prefix"] + "/".join(found.path) + ("/" if found.folder else ""))
        if report.full:
            return


def _grep(job: dict[str, Any], report: _Report) -> None:
    source = re.escape(job["pattern"]) if job["literal"] else job["pattern"]
    search = re.compile(source, re.IGNORECASE if job["ignoreCase"] else 0).search
    if job["literal"] and not job["ignoreCase"]:
        needle = job["pattern"]

        def matches(line: str) -> bool:
            return needle in line
    else:

        def matches(line: str) -> bool:
            return search(line) is not None

    glob = GlobPattern(widen_pattern(job["glob"])) if job["glob"] else None
    barred = frozenset((d, i) for d, i in job["barred"])
    for found in _entries(job):
        if found.folder or (glob is not None and not glob.match(found.path)):
            continue
        text = _text(found, barred)
        if text is not None:
            _grep_text(text, job["prefix"] + "/".join(found.path), matches, job["context"], report=report)
        if report.full:
            return


def _text(found: WalkEntry, barred: frozenset[tuple[int, int]]) -> str | None:
    """The file's text; None if it is binary or cannot be read."""
    handle = open_regular(found.parent, found.path[-1])
    if handle is None:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if (status.st_dev, status.st_ino) in barred:
            return None
        try:
            head = file.read(8192)
            if b"\x00" in head:
                return None
            return (head + file.read(_MAX_FILE)).decode("utf-8", "replace")
        except OSError:
            return None


def _grep_text(text: str, name: str, matches: Callable[[str], bool], context: int, report: _Report) -> None:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    shown = -1  # last line written
    after = -1  # context is written up to here
    for at, line in enumerate(lines):
        if matches(line[:_MAX_LINE].rstrip("\r")):
            if not report.hit():
                return
            start = max(at - context, shown + 1)
            if context and 0 <= shown < start - 1:
                report.line("--")
            for before in range(start, at):
                report.line(f"{name}-{before + 1}- {_short(lines[before])}")
            report.line(f"{name}:{at + 1}: {_short(line)}")
            shown, after = at, at + context
        elif at <= after:
            report.line(f"{name}-{at + 1}- {_short(line)}")
            shown = at
        if report.full == "size":
            return


def _short(line: str) -> str:
    text = line.rstrip("\r")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… [{len(text)} characters]"
