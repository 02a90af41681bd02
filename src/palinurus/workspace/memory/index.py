"""The index over memory files: SQLite FTS5, titles weigh more, and a vector for each piece where there are any.

Damaged or of another version it is made anew; where it cannot be written, one in main memory stands in. Holds
copies only, never the truth: files are.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from palinurus.cachefile import discard_database, is_passing, open_database
from palinurus.core.memory.indexing import MemoryQuery, space_characters, split_chunks
from palinurus.core.memory.results import MemoryMatch

VERSION = 2
TITLE = 4.0  # what a word in the title counts, one in the text being 1
CANDIDATES = 4  # for each result asked for
NEAR = 1.25  # cosine to score: texts that have nothing in common are below 0.2, related ones begin near 0.3
RANKED = 600  # matches compared with each other
_SCHEMA = """
CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE chunks (
  n INTEGER PRIMARY KEY, path TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, title TEXT NOT NULL,
  text TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE INDEX chunks_path ON chunks (path);
CREATE INDEX chunks_hash ON chunks (hash);
CREATE TABLE vectors (hash TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (title, text, content='', tokenize='porter unicode61 remove_diacritics 2');
"""
_STRENGTH = f"SELECT rowid, -bm25(words, {TITLE}, 1.0) FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"


class MemoryPiece(msgspec.Struct, frozen=True):
    """A text that has no vector yet, by its hash."""

    hash: str
    text: str


class MemoryIndex:
    """One agent's. Not for several threads at once. Methods raise sqlite3.Error."""

    def __init__(self, file: str, mark: str, chunk: int, overlap: int) -> None:
        self._file = file
        self._mark = f"{VERSION} {chunk}/{overlap} {mark}"
        self._sizes = (chunk, overlap)
        self._conn: sqlite3.Connection | None = None
        self.note = ""  # why the file is not used, if it is not
        self.behind = True  # pieces may have no vector

    @property
    def file(self) -> str:
        """Where the database is; "" while it is only in main memory."""
        return "" if self.note else self._file

    @property
    def conn(self) -> sqlite3.Connection:
        """The database, opened at the first use."""
        if self._conn is None:
            self._conn = self._open()
            self._conn.execute("PRAGMA synchronous = OFF")  # copies: what a power cut breaks is made anew
        return self._conn

    def _open(self) -> sqlite3.Connection:
        try:
            return open_database(self._file, _SCHEMA, self._mark)
        except sqlite3.Error as exc:
            self._give_up(exc)
        except OSError as exc:
            self.note = f"the memory index cannot be written ({exc.strerror})"
        try:
            return open_database(":memory:" if self.note else self._file, _SCHEMA, self._mark)
        except (sqlite3.Error, OSError) as exc:
            self.note = f"the memory index cannot be used ({exc})"
            return open_database(":memory:", _SCHEMA, self._mark)

    def renew(self, exc: sqlite3.Error) -> None:
        """Start from nothing after this error: with an empty file, or without one if that would not help."""
        self.close()
        self._give_up(exc)
        if self.note:
            self._conn = open_database(":memory:", _SCHEMA, self._mark)

    def _give_up(self, exc: sqlite3.Error) -> None:
        try:
            if not is_passing(exc):
                return discard_database(self._file)
            self.note = f"the memory index cannot be used ({exc})"
        except OSError as error:
            self.note = f"the memory index cannot be made anew ({error.strerror})"

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
                self.behind = True
                stem = os.path.splitext(path)[0].replace("/", " ")
                for piece in split_chunks(text, stem, *self._sizes):
                    row = (path, piece.start, piece.end, piece.title, piece.text, _hash(piece.title, piece.text))
                    made = conn.execute(
                        "INSERT INTO chunks (path, first, last, title, text, hash) VALUES (?,?,?,?,?,?)", row
                    )
                    conn.execute(
                        "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
                        (made.lastrowid, space_characters(piece.title), space_characters(piece.text)),
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
            [(n, space_characters(title), space_characters(text)) for n, title, text in rows],
        )
        self.conn.execute("DELETE FROM chunks WHERE path = ?", (path,))

    def matches(self, asked: MemoryQuery, limit: int) -> list[MemoryMatch]:
        """Candidates for `limit` results: those with every term, then those with some, then those where the words
        stand inside others."""
        if not asked.terms:
            return []
        every = self._best(asked.every())
        if len(every) >= limit or (every and len(asked.terms) == 1):
            return self._matches(every, dict.fromkeys(every, 1.0), limit)
        if len(asked.terms) == 1:
            return self._inside(asked, limit)
        shares, some = self._shares(asked)
        found = {**(self._best(some) if some else {}), **every}
        return self._matches(found, shares, limit) if found else self._inside(asked, limit)

    def _best(self, expression: str) -> dict[int, float]:
        """Row -> strength. Of what matches more than RANKED pieces, those indexed last are compared."""
        return dict(self.conn.execute(_STRENGTH, (expression, RANKED)).fetchall())

    def _shares(self, asked: MemoryQuery) -> tuple[dict[int, float], str]:
        """How much of the question each row has, rare terms weighing more; and the expression for rows with one of
        the rare ones."""
        have = {term: self._rows(term) for term in asked.terms}
        rare = [term for term in asked.terms if 0 < len(have[term]) < RANKED]
        some = " OR ".join(rare or [term for term in asked.terms if have[term]])
        if rare:  # rows of the others matter only where a rare one is too
            for term in asked.terms:
                if len(have[term]) >= RANKED:
                    have[term] = self._rows(f"{term} AND ({some})")
        count = self.size()[1]
        weights = {term: math.log(2 + count / (1 + len(rows))) for term, rows in have.items()}
        whole = sum(weights.values())
        shares: dict[int, float] = {}
        for term, rows in have.items():
            for row in rows:
                shares[row] = shares.get(row, 0.0) + weights[term] / whole
        return shares, some

    def _rows(self, expression: str) -> list[int]:
        sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
        return [row for (row,) in self.conn.execute(sql, (expression, RANKED))]

    def _matches(self, found: dict[int, float], shares: dict[int, float], limit: int) -> list[MemoryMatch]:
        first = sorted(found, key=lambda n: (-shares.get(n, 0.0), -found[n]))[: limit * CANDIDATES]
        marks = ",".join("?" * len(first))
        rows = self.conn.execute(f"SELECT n, path, first, last, text FROM chunks WHERE n IN ({marks})", first)
        return [
            MemoryMatch(path, start, end, text, share=shares.get(n, 0.0), strength=found[n])
            for n, path, start, end, text in rows
        ]

    def _inside(self, asked: MemoryQuery, limit: int) -> list[MemoryMatch]:
        """No word of the index fits: look through the texts. Such a match has no strength."""
        tests = [f"%{word.replace('!', '!!').replace('%', '!%').replace('_', '!_')}%" for word in asked.words]
        had = " + ".join(["(text LIKE ? ESCAPE '!')"] * len(tests))
        sql = f"SELECT * FROM (SELECT path, first, last, text, {had} AS had FROM chunks) WHERE had > 0"
        rows = self.conn.execute(f"{sql} ORDER BY had DESC LIMIT ?", (*tests, limit * CANDIDATES))
        return [
            MemoryMatch(path, first, last, text, share=had / len(tests), strength=0.0)
            for path, first, last, text, had in rows
        ]

    # --- vectors ------------------------------------------------------------------------------------------------

    def pieces_without_vector(self, limit: int) -> list[MemoryPiece]:
        """Pieces without a vector, each text once. When there are none, vectors of pieces that are gone go too."""
        found = self.conn.execute(
            "SELECT hash, title, text FROM chunks WHERE hash NOT IN (SELECT hash FROM vectors) GROUP BY hash LIMIT ?",
            (limit,),
        ).fetchall()
        if not found:
            self.conn.execute("DELETE FROM vectors WHERE hash NOT IN (SELECT hash FROM chunks)")
            self.behind = False
        return [MemoryPiece(digest, f"{title}\n{text}") for digest, title, text in found]

    def keep_vectors(self, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Keep vectors, by hash. One transaction."""
        with self.conn as conn:
            conn.execute("BEGIN IMMEDIATE")
            conn.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", vectors)

    def vectors(self) -> int:
        """How many there are."""
        return int(self.conn.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def pieces(self, near: Sequence[tuple[str, float]]) -> list[MemoryMatch]:
        """The pieces of these hashes; how near each is stands for its share of the question."""
        scores = dict(near)
        marks = ",".join("?" * len(scores))
        sql = f"SELECT hash, path, first, last, text FROM chunks WHERE hash IN ({marks})"
        rows = self.conn.execute(sql, list(scores))
        return [
            MemoryMatch(path, first, last, text, share=scores[name] * NEAR, strength=1.0)
            for name, path, first, last, text in rows
        ]

    def size(self) -> tuple[int, int]:
        """Files and chunks."""
        files = self.conn.execute("SELECT count(*) FROM files").fetchone()[0]
        return int(files), int(self.conn.execute("SELECT count(*) FROM chunks").fetchone()[0])


def _hash(title: str, text: str) -> str:
    return hashlib.sha256(f"{title}\n{text}".encode("utf-8", "replace")).hexdigest()[:32]
