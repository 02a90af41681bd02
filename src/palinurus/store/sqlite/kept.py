"""Small durable records of parts of the program: written, replaced and removed whole, with a compare before."""

from __future__ import annotations

import sqlite3

from palinurus.store.port import ANY_RECORD, StoreRecord
from palinurus.store.sqlite.writer import StoreTransaction


def put_record(tx: StoreTransaction, kind: str, key: str, data: bytes | None, expect: bytes | None) -> bool:
    """See the port."""
    if expect is not ANY_RECORD and expect != ANY_RECORD:
        found = get_record(tx.conn, kind, key)
        if (found.data if found else None) != expect:
            return False
    if data is None:
        tx.conn.execute("DELETE FROM kept WHERE kind = ? AND key = ?", (kind, key))
    else:
        tx.conn.execute(
            "INSERT OR REPLACE INTO kept (kind, key, data, at) VALUES (?, ?, ?, ?)", (kind, key, data, tx.now)
        )
    return True


def get_record(conn: sqlite3.Connection, kind: str, key: str) -> StoreRecord | None:
    found = conn.execute("SELECT kind, key, data, at FROM kept WHERE kind = ? AND key = ?", (kind, key)).fetchone()
    return StoreRecord(*found) if found else None


def list_records(conn: sqlite3.Connection, kind: str) -> list[StoreRecord]:
    """By key."""
    return [
        StoreRecord(*r)
        for r in conn.execute("SELECT kind, key, data, at FROM kept WHERE kind = ? ORDER BY key", (kind,))
    ]
