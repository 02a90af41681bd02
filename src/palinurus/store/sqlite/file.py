"""Opening state.db: modes, pragmas, and one clear error for each way it can be unusable."""

from __future__ import annotations

import os
import sqlite3
from urllib.parse import quote

from palinurus.errors import StateBroken
from palinurus.store.sqlite.faults import to_state_error
from palinurus.store.sqlite.lock import check_owner, explain_unwritable

NAME = "state.db"
CHECKED = 64 << 20  # bytes up to which every start checks the whole file

_PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -4000",
    "PRAGMA journal_size_limit = 16777216",
)


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
        raise explain_unwritable(file, error) from None
    conn = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            conn.execute(pragma)
        check_database(conn, file)
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
        raise StateBroken(
            f"{file}: the database is damaged ({found})",
            fix="run `pal doctor`: it checks the database and keeps a copy before it changes anything",
        )
