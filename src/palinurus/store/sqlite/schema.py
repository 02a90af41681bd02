"""The tables of state.db, and how an older file becomes a newer one. Pure SQL; `PRAGMA user_version` counts.

A migration is appended, never edited: released files have run it.
"""

from __future__ import annotations

import sqlite3

from palinurus.errors import StateBroken

_FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- Few indexes and no AUTOINCREMENT: each tree a change touches is one more page in its commit.
-- seq is the order of arrival (rows go oldest first, so it never goes back while any are left).
-- fence grows with every claim, attempts does not (yield_back takes one back)
CREATE TABLE inbox (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  dedupe TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,
  lane TEXT NOT NULL,
  body BLOB NOT NULL,
  at INTEGER NOT NULL,
  state TEXT NOT NULL,
  outcome TEXT,
  note TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0,
  absorbed_by TEXT NOT NULL DEFAULT '',
  claimed INTEGER NOT NULL DEFAULT 0,
  settled INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0
);
-- at most one run per session, whatever the code above believes
CREATE UNIQUE INDEX inbox_running ON inbox (session) WHERE state = 'running';
CREATE INDEX inbox_waiting ON inbox (session, seq) WHERE state = 'queued';
CREATE INDEX inbox_lane ON inbox (lane, seq, session) WHERE state = 'queued';

CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  item TEXT NOT NULL,
  channel TEXT NOT NULL,
  target TEXT NOT NULL,
  data BLOB NOT NULL,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL,
  receipt TEXT NOT NULL DEFAULT '',
  error TEXT NOT NULL DEFAULT '',
  due INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX outbox_open ON outbox (channel, target, seq) WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_item ON outbox (item);

CREATE TABLE sessions (
  key TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  session_id TEXT NOT NULL,
  updated INTEGER NOT NULL,
  data BLOB NOT NULL
);

CREATE TABLE spent (
  seq INTEGER PRIMARY KEY,
  item TEXT NOT NULL,
  run TEXT NOT NULL,
  session TEXT NOT NULL,
  agent TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  at INTEGER NOT NULL,
  input INTEGER NOT NULL,
  output INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost REAL,
  ms INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX spent_at ON spent (at);
CREATE INDEX spent_item ON spent (item);

CREATE TABLE slots (job TEXT NOT NULL, due INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (job, due)) WITHOUT ROWID;

CREATE TABLE steps (
  item TEXT NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  what TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (item, n)
) WITHOUT ROWID;

-- transcript lines whose file has not been synced yet
CREATE TABLE journal (
  seq INTEGER PRIMARY KEY,
  path TEXT NOT NULL,
  id TEXT NOT NULL,
  data BLOB NOT NULL
);
CREATE INDEX journal_path ON journal (path, seq);
"""

_KEPT = """
CREATE TABLE kept (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  data BLOB NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (kind, key)
) WITHOUT ROWID;
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _KEPT)

PRUNED = 500  # rows of a table that go in one commit: messages wait behind it

PRUNE: tuple[str, ...] = (
    "DELETE FROM inbox WHERE seq IN (SELECT seq FROM inbox"
    " WHERE state IN ('done', 'absorbed') AND max(at, settled) < :before ORDER BY seq LIMIT :rows)",
    "DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox"
    " WHERE state NOT IN ('pending', 'sending') AND at < :before ORDER BY seq LIMIT :rows)",
    "DELETE FROM steps WHERE (item, n) IN (SELECT item, n FROM steps"
    " WHERE at < :before AND item NOT IN (SELECT id FROM inbox) LIMIT :rows)",
    "DELETE FROM slots WHERE (job, due) IN"
    " (SELECT job, due FROM slots WHERE due < :before AND at < :before LIMIT :rows)",
)


def read_version(conn: sqlite3.Connection, file: str) -> int:
    """The file's schema version. Raises StateBroken if it is newer than this program."""
    found = int(conn.execute("PRAGMA user_version").fetchone()[0])
    if found > len(MIGRATIONS):
        raise StateBroken(
            f"{file} was written by a newer Palinurus (schema {found}, this one knows {len(MIGRATIONS)})",
            fix="update Palinurus; or `pal update --schema` takes back what the newer one added (a copy is kept)",
        )
    return found


def check_whole(conn: sqlite3.Connection, file: str) -> None:
    """Raises StateBroken while a copy into it is not finished."""
    for (source,) in conn.execute("SELECT value FROM meta WHERE key = 'copying'"):
        raise StateBroken(f"the copy of {source} into {file} is not finished", fix="run `pal store copy` again")


def migrate_schema(conn: sqlite3.Connection, file: str) -> None:
    """Bring the file to this program's schema, one transaction per step. Raises StateBroken if it is newer."""
    for number in range(read_version(conn, file), len(MIGRATIONS)):
        conn.executescript(f"BEGIN IMMEDIATE; {MIGRATIONS[number]} PRAGMA user_version = {number + 1}; COMMIT;")


def lower_schema(conn: sqlite3.Connection, file: str) -> list[str]:
    """Take back what a newer program added: tables, indexes, columns. Every row and column that this one knows stays,
    also those written since. One transaction; says what went. Raises StateBroken where something it knows is missing.
    """
    ours = sqlite3.connect(":memory:")
    try:
        for step in MIGRATIONS:
            ours.executescript(step)
        wanted, found = _list_things(ours), _list_things(conn)
        gone = [
            f"{kind} {name}"
            for (kind, name), columns in wanted.items()
            if (kind, name) not in found or not columns <= found[kind, name]
        ]
    finally:
        ours.close()
    if gone:
        raise StateBroken(
            f"{file} cannot go back to schema {len(MIGRATIONS)}: {', '.join(gone)} changed since",
            fix="use the newer Palinurus, or `pal backup restore` a backup from before",
        )
    extra = sorted((thing for thing in found if thing not in wanted), key=lambda thing: thing[0] == "table")
    steps = [f'DROP {kind.upper()} IF EXISTS "{name}"' for kind, name in extra]
    steps += [
        f'ALTER TABLE "{name}" DROP COLUMN "{column}"'
        for (kind, name), columns in wanted.items()
        for column in sorted(found[kind, name] - columns)
    ]
    conn.executescript(";".join(["BEGIN IMMEDIATE", *steps, f"PRAGMA user_version = {len(MIGRATIONS)}", "COMMIT"]))
    return steps


def _list_things(conn: sqlite3.Connection) -> dict[tuple[str, str], frozenset[str]]:
    """(kind, name) of what is in the file, with the columns of a table."""
    rows = conn.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'").fetchall()
    return {
        (kind, name): frozenset(row[0] for row in conn.execute("SELECT name FROM pragma_table_info(?)", (name,)))
        if kind == "table"
        else frozenset()
        for kind, name in rows
    }
