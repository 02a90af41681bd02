"""Opening state.db: modes, pragmas, and one clear error for each way it can be unusable."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from urllib.parse import quote

from palinurus.errors import DiskFull, StateBroken, StateError, StateUnwritable
from palinurus.store.sqlite.lock import check_owner, explain_unusable

NAME = "state.db"
CHECKED = 64 << 20  # bytes up to which every start checks the whole file
_DOCTOR = "run `pal doctor`: it checks the database and keeps a copy before it changes anything"
_SPACE = "free some space; nothing has to be restarted"

# SQLite's result codes as our errors, each with the way out. Nothing else knows the codes.
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

# What fails where a file cannot grow: the database, its WAL or the index of that.
_GROWING = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP)
_PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -256",  # for the check: every page goes through once, and would stay
    "PRAGMA journal_size_limit = 16777216",
)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def to_state_error(error: sqlite3.Error, file: str) -> StateError:
    """The error to raise for one of SQLite's. StateBroken means: do not go on with this connection."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    primary = code & 0xFF
    # SQLite says "full" for ENOSPC only; a quota or a size limit looks like a failing disk to it
    if code in _GROWING and not has_room(file):
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


def locate_database(home: str) -> str:
    """Where the database of a state directory is."""
    return os.path.join(home, NAME)


def open_for_writing(home: str) -> sqlite3.Connection:
    """The connection that writes, usable from one other thread. Raises StateUnwritable, StateBroken, DiskFull."""
    file = locate_database(home)
    # made here, not by SQLite, so that it never exists with a wider mode; -wal and -shm take over its mode
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        check_owner(file, os.stat(file))
        os.chmod(file, 0o600)
    except OSError as error:
        raise explain_unusable(file, error) from None
    conn = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            conn.execute(pragma)
        check_database(conn, file)
        conn.execute("PRAGMA cache_size = -4000")
    except sqlite3.Error as error:
        conn.close()
        raise to_state_error(error, file) from None
    except StateBroken:
        conn.close()
        raise
    return conn


def open_for_reading(home: str) -> sqlite3.Connection:
    """A connection that can only read; works beside a running gateway. Raises StateUnwritable, StateBroken."""
    file = locate_database(home)
    try:
        conn = sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise to_state_error(error, file) from None
    try:
        conn.execute("PRAGMA busy_timeout = 5000")
        conn.execute("PRAGMA cache_size = -1000")
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        conn.close()
        raise to_state_error(error, file) from None
    return conn


def check_database(conn: sqlite3.Connection, file: str) -> None:
    """Raise StateBroken if the file is damaged. Files too large to check at a start are left to `pal doctor`."""
    if os.path.getsize(file) > CHECKED:
        return
    found = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StateBroken(f"{file}: the database is damaged ({found})", fix=_DOCTOR)
