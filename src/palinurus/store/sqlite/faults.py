"""SQLite's result codes as our errors, each with the way out. A table; nothing else knows the codes."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile

from palinurus.errors import DiskFull, StateBroken, StateError, StateUnwritable

_DOCTOR = "run `pal doctor`: it checks the database and keeps a copy before it changes anything"
_SPACE = "free some space; nothing has to be restarted"

_KINDS: dict[int, tuple[type[StateError], str, str]] = {
    sqlite3.SQLITE_FULL: (DiskFull, "the disk is full", _SPACE),
    sqlite3.SQLITE_IOERR: (StateBroken, "the disk fails under the database", f"check the disk, then {_DOCTOR}"),
    sqlite3.SQLITE_CORRUPT: (StateBroken, "the database is damaged", _DOCTOR),
    sqlite3.SQLITE_NOTADB: (StateBroken, "the file is not a database", _DOCTOR),
    sqlite3.SQLITE_READONLY: (StateUnwritable, "the database cannot be written", "make the state directory writable"),
    sqlite3.SQLITE_CANTOPEN: (StateUnwritable, "the database cannot be opened", "make the state directory writable"),
    sqlite3.SQLITE_PERM: (StateUnwritable, "the database may not be opened", "make the state directory writable"),
    sqlite3.SQLITE_BUSY: (StateError, "another program keeps the database locked", "close it and try again"),
}

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def to_state_error(error: sqlite3.Error, file: str) -> StateError:
    """The error to raise for one of SQLite's. StateBroken means: do not go on with this connection."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    primary = code & 0xFF
    # SQLite says "full" for ENOSPC only; a quota or a size limit looks like a failing disk to it
    if code == sqlite3.SQLITE_IOERR_WRITE and not has_room(file):
        primary = sqlite3.SQLITE_FULL
    kind, said, fix = _KINDS.get(primary, (StateError, "the database refused", ""))
    return kind(f"{file}: {said} ({error})", fix=fix)


def has_room(file: str) -> bool:
    """False when a file beside `file` cannot grow past it for lack of space, quota or allowed size."""
    try:
        end = max(os.path.getsize(name) for name in (file, f"{file}-wal") if os.path.exists(name))
        with tempfile.TemporaryFile(dir=os.path.dirname(file), buffering=0) as probe:
            return os.pwrite(probe.fileno(), b"\0" * 65536, end) == 65536
    except OSError as error:
        return error.errno not in _FULL
