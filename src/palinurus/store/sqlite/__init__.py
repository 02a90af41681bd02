"""The store on one machine: a SQLite file, one writer thread, a journal in front of the transcript files."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing

from palinurus.clock import Clock
from palinurus.store.sqlite import database, lock, schema
from palinurus.store.sqlite.database import to_state_error
from palinurus.store.sqlite.store import OpenedState, SqliteStore


async def open_sqlite_store(home: str, clock: Clock) -> SqliteStore:
    """Lock the state directory and open it, migrated. Call `recover()` before anything else.

    Raises StateLocked, StateUnwritable, StateBroken (damaged or from a newer version), DiskFull.
    """
    with ExitStack() as failing:
        held = lock.take_lock(home)
        failing.callback(held.release)
        conn = failing.enter_context(closing(database.open_for_writing(home)))
        try:
            schema.migrate_schema(conn, database.locate_database(home))
            schema.check_whole(conn, database.locate_database(home))
            store = SqliteStore(OpenedState(home, conn, held, clock))
        except sqlite3.Error as error:
            raise to_state_error(error, database.locate_database(home)) from None
        failing.pop_all()
        return store
