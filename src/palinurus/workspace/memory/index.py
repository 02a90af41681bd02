"""The full-text index over memory files: SQLite FTS5, titles weigh more. Holds copies only.

Damaged or of another version it is made anew; where it cannot be written, one in main memory stands in. Never the
truth: files are.
"""

from __future__ import annotations

import os
import sqlite3

from palinurus.core.memory.chunk import chunks
from palinurus.core.memory.query import Query, spaced
from palinurus.core.memory.rank import Match
from palinurus.workspace.memory.database import discard, opened, passing

VERSION = 1
TITLE = 4.0  # what a word in the title counts, one in the text being 1
CANDIDATES = 4  # for each result asked for
_SCHEMA = """
CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE chunks (
  n INTEGER PRIMARY KEY, path TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, title TEXT NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX chunks_path ON chunks (path);
CREATE VIRTUAL TABLE words USING fts5 (title, text, content='', tokenize='porter unicode61 remove_diacritics 2');
"""
_BEST = f"""
SELECT rowid, -bm25(words, {TITLE}, 1.0) FROM words WHERE words MATCH ? ORDER BY bm25(words, {TITLE}, 1.0) LIMIT ?
"""


class Index:
    """One agent's. Not for several threads at once. Methods raise sqlite3.Error."""

    def __init__(self, file: str, mark: str, chunk: int, overlap: int) -> None:
        self._file = file
        self._mark = f"{VERSION} {chunk}/{overlap} {mark}"
        self._sizes = (chunk, overlap)
        self._conn: sqlite3.Connection | None = None
        self.note = ""  # why the file is not used, if it is not

    @property
    def conn(self) -> sqlite3.Connection:
        """The database, opened at the first use."""
        if self._conn is None:
            self._conn = self._open()
            self._conn.execute("PRAGMA synchronous = OFF")  # copies: what a power cut breaks is made anew
        return self._conn

    def _open(self) -> sqlite3.Connection:
        for attempt in range(2):
            try:
                return opened(self._file, _SCHEMA, self._mark)
            except sqlite3.Error as exc:
                self.note = f"the memory index cannot be used ({exc})"
                if attempt or passing(exc):
                    break
                try:
                    discard(self._file)
                    self.note = ""
                except OSError:
                    break
            except OSError as exc:
                self.note = f"the memory index cannot be written ({exc.strerror})"
                break
        return opened(":memory:", _SCHEMA, self._mark)

    def renew(self) -> None:
        """Start from nothing: what was there is damaged. Raises OSError."""
        self.close()
        discard(self._file)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def known(self) -> dict[str, tuple[int, int, str]]:
        """path -> (size, mtime, hash)"""
        rows = self.conn.execute("SELECT path, size, mtime, hash FROM files")
        return {path: (size, mtime, digest) for path, size, mtime, digest in rows}

    def put(self, path: str, stands: tuple[int, int, str], text: str | None) -> None:
        """What the file holds now; without `text` only when it was looked at. One transaction."""
        conn = self.conn
        with conn:
            conn.execute("BEGIN IMMEDIATE")
            if text is not None:
                self._drop(path)
                stem = os.path.splitext(path)[0].replace("/", " ")
                for piece in chunks(text, stem, *self._sizes):
                    row = (path, piece.start, piece.end, piece.title, piece.text)
                    made = conn.execute("INSERT INTO chunks (path, first, last, title, text) VALUES (?,?,?,?,?)", row)
                    conn.execute(
                        "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
                        (made.lastrowid, spaced(piece.title), spaced(piece.text)),
                    )
            conn.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (path, *stands))

    def drop(self, path: str) -> None:
        """The file is gone."""
        with self.conn:
            self.conn.execute("BEGIN IMMEDIATE")
            self._drop(path)
            self.conn.execute("DELETE FROM files WHERE path = ?", (path,))

    def _drop(self, path: str) -> None:
        rows = self.conn.execute("SELECT n, title, text FROM chunks WHERE path = ?", (path,)).fetchall()
        self.conn.executemany(
            "INSERT INTO words (words, rowid, title, text) VALUES ('delete', ?, ?, ?)",
            [(n, spaced(title), spaced(text)) for n, title, text in rows],
        )
        self.conn.execute("DELETE FROM chunks WHERE path = ?", (path,))

    def matches(self, asked: Query, limit: int) -> list[Match]:
        """Candidates for `limit` results: those with every term, then those with some, then those where the words
        stand inside others."""
        if not asked.terms:
            return []
        wanted = max(limit, 1) * CANDIDATES
        best: dict[int, float] = dict(self.conn.execute(_BEST, (asked.every(), wanted)).fetchall())
        counts = dict.fromkeys(best, len(asked.terms))
        if len(asked.terms) > 1 and len(best) < limit:
            more: dict[int, float] = dict(self.conn.execute(_BEST, (asked.some(), wanted)).fetchall())
            counts = {**self._counts(asked, [n for n in more if n not in best]), **counts}
            best = {**more, **best}
        return self._matches(best, counts) if best else self._inside(asked, wanted)

    def _counts(self, asked: Query, rows: list[int]) -> dict[int, int]:
        """How many of the terms each row has."""
        counts = dict.fromkeys(rows, 0)
        marks = ",".join("?" * len(rows))
        for term in asked.terms if rows else ():
            for (n,) in self.conn.execute(
                f"SELECT rowid FROM words WHERE words MATCH ? AND rowid IN ({marks})", (term, *rows)
            ):
                counts[n] += 1
        return counts

    def _matches(self, best: dict[int, float], counts: dict[int, int]) -> list[Match]:
        marks = ",".join("?" * len(best))
        rows = self.conn.execute(f"SELECT n, path, first, last, text FROM chunks WHERE n IN ({marks})", tuple(best))
        return [Match(path, first, last, text, counts[n], best[n]) for n, path, first, last, text in rows]

    def _inside(self, asked: Query, wanted: int) -> list[Match]:
        """No word of the index fits: look through the texts."""
        tests = [f"%{word.replace('!', '!!').replace('%', '!%').replace('_', '!_')}%" for word in asked.words]
        share = " + ".join(["(text LIKE ? ESCAPE '!')"] * len(tests))
        sql = f"SELECT * FROM (SELECT path, first, last, text, {share} AS had FROM chunks) WHERE had > 0"
        rows = self.conn.execute(f"{sql} ORDER BY had DESC LIMIT ?", (*tests, wanted))
        # no strength: a word that stands as such counts more than one inside another
        return [Match(path, first, last, text, had, 0.0) for path, first, last, text, had in rows]

    def size(self) -> tuple[int, int]:
        """Files and chunks."""
        files = self.conn.execute("SELECT count(*) FROM files").fetchone()[0]
        return int(files), int(self.conn.execute("SELECT count(*) FROM chunks").fetchone()[0])
