"""The journal in front of the transcript files. A line is safe once its row is committed; the file follows.

Rows are deleted only after the file has been synced, so a line missing in a file can always be written again.
Runs in the writer's thread. Knows lines and files, not what the lines mean (only that each is JSON with an id).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import stat
from collections.abc import Iterable, Sequence

import msgspec

from palinurus import crashpoints
from palinurus.errors import StateBroken, StateError, StateUnwritable
from palinurus.patterns import decode_late
from palinurus.store.lines import is_transcript_path
from palinurus.store.port import TranscriptLine

log = logging.getLogger(__name__)

TAIL = 1 << 20  # how much of a file's end is searched before the whole of it
MANY = 2_000  # rows that force a sync although the store is not idle


class _Entry(msgspec.Struct):
    id: str = ""


_ids = decode_late(_Entry)


class TranscriptJournal:
    """What has been appended but not synced, and which files could not be written."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.touched: dict[str, int] = {}  # path -> seq of its last row that is in the file
        self.stuck: dict[str, str] = {}  # path -> why it cannot be written
        self.rows = 0
        self._made: set[str] = set()  # directories that got a new file and must be synced too

    @property
    def pending(self) -> bool:
        """Is there anything to do when the store is idle?"""
        return bool(self.touched or self.stuck)

    def write(self, rows: Sequence[tuple[int, TranscriptLine]], conn: sqlite3.Connection) -> None:
        """Append committed rows to their files, one write per file. Never raises for a file that cannot be written:
        its rows stay in the journal."""
        crashpoints.pass_crashpoint("journal.before")
        files: dict[str, list[tuple[int, TranscriptLine]]] = {}
        for row in rows:
            files.setdefault(row[1].path, []).append(row)
        for path, mine in files.items():
            if path in self.stuck:
                self.mend(path, conn)  # earlier lines come first
            else:
                self._append(path, b"".join(line.data + b"\n" for _, line in mine), mine[-1][0])
        self.rows += len(rows)
        crashpoints.pass_crashpoint("journal.after")

    def mend(self, path: str, conn: sqlite3.Connection) -> bool:
        """Append those of the path's journal rows that are not in its file. False if it cannot be written."""
        rows = conn.execute("SELECT seq, id, data FROM journal WHERE path = ? ORDER BY seq", (path,)).fetchall()
        if not rows:
            self.stuck.pop(path, None)
            return True
        try:
            present, torn = _look(self._full(path), {ident for _, ident, _ in rows})
        except OSError as error:
            return self._failed(path, error)
        missing = [bytes(data) for _, ident, data in rows if ident not in present]
        data = b"".join(line + b"\n" for line in missing)
        ours = bool(torn and missing and missing[0].startswith(torn))
        # our own half line gets its other half; somebody else's is ended by a newline
        return self._append(path, data[len(torn) :] if ours else data, rows[-1][0], glue=ours)

    def complete(self, path: str, conn: sqlite3.Connection) -> None:
        """Have every line of `path` in its file and on disk, and none here. Raises StateUnwritable, StateBroken."""
        for _ in range(3):  # what is in the file, what the journal has beyond it, nothing
            if path not in self.touched and not self.mend(path, conn):
                break
            if path not in self.touched:
                return
            self.touched = {path: self.touched.pop(path), **self.touched}
            forget_lines(conn, self.sync(1))
        raise StateUnwritable(f"{self._full(path)} cannot be written: {self.stuck.get(path)}", fix="try again later")

    def drop(self, path: str, conn: sqlite3.Connection) -> None:
        """Forget the lines of a file that is gone for good."""
        conn.execute("DELETE FROM journal WHERE path = ?", (path,))
        self.touched.pop(path, None)
        self.stuck.pop(path, None)

    def recover(self, conn: sqlite3.Connection) -> int:
        """Mend every file that has rows. Returns how many files that were."""
        paths = [row[0] for row in conn.execute("SELECT DISTINCT path FROM journal")]
        for path in paths:
            self.mend(path, conn)
        return len(paths)

    def sync(self, limit: int) -> list[tuple[str, int]]:
        """Sync up to `limit` touched files; returns (path, seq) whose rows may go. Raises StateBroken on EIO: the
        kernel may have dropped the data and will not say so twice."""
        while self._made:
            directory = self._made.pop()
            self._sync(directory, directory)
        gone: list[tuple[str, int]] = []
        for path in list(self.touched)[:limit]:
            seq = self.touched.pop(path)
            if self._sync(path, self._full(path)):
                gone.append((path, seq))
        if not self.touched:
            self.rows = 0
        return gone

    def _sync(self, path: str, full: str) -> bool:
        try:
            fd = os.open(full, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except FileNotFoundError:
            return True  # written, then removed by somebody: the lines went with it on purpose
        except OSError as error:
            if error.errno == errno.EIO:
                raise StateBroken(
                    f"{full}: the disk did not keep what was written ({error.strerror})",
                    fix="check the disk, then run `pal doctor`",
                ) from None
            return self._failed(path, error)
        return True

    def _full(self, path: str) -> str:
        return os.path.join(self.home, path)

    def _append(self, path: str, data: bytes, seq: int, glue: bool = False) -> bool:
        full = self._full(path)
        try:
            self._made |= _write(full, data, glue)
        except OSError as error:
            return self._failed(path, error)
        self.touched[path] = seq
        if self.stuck.pop(path, None):
            log.warning("%s can be written again; it is complete", full)
        return True

    def _failed(self, path: str, error: OSError) -> bool:
        reason = error.strerror or str(error)
        if self.stuck.get(path) != reason:
            log.error("%s cannot be written (%s); its lines are kept in state.db and tried again", path, reason)
        self.stuck[path] = reason
        return False


def insert_lines(conn: sqlite3.Connection, lines: Iterable[TranscriptLine]) -> list[tuple[int, TranscriptLine]]:
    """Put lines into the journal table. Raises StateError for a path outside the state directory."""
    rows = []
    for line in lines:
        if not is_transcript_path(line.path):
            raise StateError(f"{line.path!r} is not a transcript path inside the state directory")
        done = conn.execute("INSERT INTO journal (path, id, data) VALUES (?, ?, ?)", (line.path, line.id, line.data))
        rows.append((done.lastrowid or 0, line))
    return rows


def forget_lines(conn: sqlite3.Connection, synced: Iterable[tuple[str, int]]) -> None:
    """Delete the rows of files that are safe on disk."""
    conn.executemany("DELETE FROM journal WHERE path = ? AND seq <= ?", synced)


def _write(full: str, data: bytes, glue: bool) -> set[str]:
    """Append all of `data` or nothing; on a line of its own unless `glue`. Returns the directories that changed."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    changed: set[str] = set()
    try:
        fd = _regular(full, flags)
    except FileNotFoundError:
        _parents(os.path.dirname(full), changed)
        fd = _regular(full, flags)
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            changed.add(os.path.dirname(full))
        elif data and not glue and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data
        try:
            if data and os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            _cut(fd, size)
            raise
    finally:
        os.close(fd)
    return changed


def _regular(full: str, flags: int = os.O_RDONLY) -> int:
    """Open a plain file. A pipe or a device in its place is an OSError: reading it could go on for ever."""
    fd = os.open(full, flags | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file")
    return fd


def _cut(fd: int, size: int) -> None:
    """Take back a half-written line, so that none is left in the middle of the file."""
    with contextlib.suppress(OSError):  # mend() sees the torn end and starts a new line behind it
        if os.fstat(fd).st_size > size:
            os.ftruncate(fd, size)


def _parents(directory: str, changed: set[str]) -> None:
    """As makedirs, but every level is 0700, and the directories that got an entry are collected."""
    if not os.path.isdir(directory):
        above = os.path.dirname(directory)
        _parents(above, changed)
        os.mkdir(directory, 0o700)
        changed.add(above)


def _look(full: str, wanted: set[str]) -> tuple[set[str], bytes]:
    """Which of the wanted ids the file has, and its last line if that has no newline at its end."""
    try:
        with open(_regular(full), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")
            torn = lines.pop()
            present = _present(lines, wanted)
            if size > TAIL and len(present) < len(wanted):
                file.seek(0)
                present = _present((line for line in file if line.endswith(b"\n")), wanted)
    except FileNotFoundError:
        return set(), b""
    return present, torn


def _present(lines: Iterable[bytes], wanted: set[str]) -> set[str]:
    found = set()
    for line in lines:
        try:
            ident = _ids.decode(line).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # a broken line; reading transcripts is somebody else's business
        if ident in wanted:
            found.add(ident)
    return found
