"""Full-text search over transcript files: an index in home/index.db, brought up to date before each search.

The index holds copies only; damaged, of another version or not writable, it is made anew or done without. Reads
transcripts, changes none; needs no state lock.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import msgspec

from palinurus.cachefile import discard_database, is_passing
from palinurus.core.text import repair_surrogates
from palinurus.core.types.messages import AssistantMessage, ToolResult
from palinurus.errors import StateBroken, StateUnwritable
from palinurus.patterns import compile_late
from palinurus.sessions.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    MessageEntry,
    TranscriptEntry,
    get_moment,
    get_text,
    to_iso,
)
from palinurus.sessions.files import SessionFile, list_session_files, parse_archive_time
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import read_transcript
from palinurus.store.port import SessionRow

NAME = "index.db"
VERSION = 1
DOCUMENT = 50_000  # characters of one entry that are searched
AROUND = 60  # characters shown on each side of a find

_TERM = compile_late(r'"([^"]+)"|(\S+)')
# Scripts without spaces between words: the index sees a whole clause as one word there.
_DENSE = compile_late(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_SCHEMA = f"""
CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE TABLE entries (
  n INTEGER PRIMARY KEY, path TEXT NOT NULL, entry TEXT NOT NULL, who TEXT NOT NULL, at INTEGER NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX entries_path ON entries (path);
CREATE VIRTUAL TABLE words USING fts5 (text, content='entries', content_rowid='n',
  tokenize='unicode61 remove_diacritics 2');
CREATE TRIGGER entries_in AFTER INSERT ON entries BEGIN
  INSERT INTO words (rowid, text) VALUES (new.n, new.text);
END;
CREATE TRIGGER entries_out AFTER DELETE ON entries BEGIN
  INSERT INTO words (words, rowid, text) VALUES ('delete', old.n, old.text);
END;
PRAGMA user_version = {VERSION};
"""
_FOUND = "SELECT e.path, e.entry, e.who, e.at, e.text FROM entries e"


class TranscriptHit(msgspec.Struct, frozen=True):
    """An entry that has all the words. `text` is what stands around the first of them."""

    path: str  # of the file, relative to home
    entry: str
    who: str  # user, assistant, tool, summary
    at: int
    text: str


class TranscriptFindings(msgspec.Struct, frozen=True):
    """`note`: why the index was not used, if it was not."""

    hits: tuple[TranscriptHit, ...]
    note: str = ""


class TranscriptQuery(msgspec.Struct, frozen=True):
    terms: tuple[str, ...]
    agent: str | None = None
    since: int = 0
    limit: int = 20


def parse_query(text: str, agent: str | None = None, since: int = 0, limit: int = 20) -> TranscriptQuery:
    """Words are looked for in any order; "words in quotes" as they stand."""
    terms = (match[1] or match[2] for match in _TERM.finditer(repair_surrogates(text).replace("\0", " ")))
    return TranscriptQuery(tuple(term for term in terms if any(c.isalnum() for c in term)), agent, since, max(1, limit))


def map_transcript_keys(rows: Sequence[SessionRow]) -> dict[str, str]:
    """Transcript path without its suffix -> session key; earlier transcripts of a session included. `rows`: newest
    first."""
    return {path: row.key for row in reversed(rows) for path in _list_transcripts(row)}


def _list_transcripts(row: SessionRow) -> list[str]:
    try:
        record = SessionRecord.decode(row.data)
    except StateBroken:
        return []
    folder = f"agents/{row.agent}/sessions"
    return [*(f"{folder}/{ident}" for ident in record.usageFamilySessionIds or ()), record.path(row.agent)[:-6]]


def search_transcripts(home: str, asked: TranscriptQuery) -> TranscriptFindings:
    """Entries that have every term, newest first."""
    if not asked.terms:
        return TranscriptFindings(())
    seen = [file for file in list_session_files(home) if _searched(file)]
    if not seen and not os.path.exists(os.path.join(home, NAME)):
        return TranscriptFindings(())
    note = ""
    for attempt in range(2):
        try:
            with closing(_open(home)) as conn:
                _update(conn, home, seen)
                return TranscriptFindings(tuple(_indexed(conn, asked)))
        except sqlite3.Error as exc:
            note = f"the index cannot be used ({exc})"
            if attempt or is_passing(exc):
                break
            discard_database(os.path.join(home, NAME))
        except OSError as exc:
            note = f"the index cannot be written ({exc.strerror})"
            break
    return TranscriptFindings(tuple(_scanned(home, seen, asked)), note)


def forget_files(home: str, paths: Sequence[str]) -> None:
    """Take files that are gone out of the index, if there is one. What cannot be taken out now goes with the next
    search."""
    if not paths or not os.path.exists(os.path.join(home, NAME)):
        return
    try:
        with closing(_open(home)) as conn:
            conn.execute("BEGIN IMMEDIATE")
            for path in paths:
                _drop(conn, path)
            _erase(conn)
            conn.execute("COMMIT")
    except sqlite3.Error as exc:
        if not is_passing(exc):
            discard_database(os.path.join(home, NAME))
    except OSError:
        return


def _open(home: str) -> sqlite3.Connection:
    """The index, empty if it was missing or of another version. Raises sqlite3.Error, OSError."""
    file = os.path.join(home, NAME)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    os.chmod(file, 0o600)
    conn = sqlite3.connect(file, timeout=5.0, isolation_level=None)
    try:
        conn.execute("PRAGMA synchronous = OFF")  # a copy: what a power cut breaks is made anew
        conn.execute("PRAGMA secure_delete = ON")
        found = int(conn.execute("PRAGMA user_version").fetchone()[0])
        tables = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and found != VERSION:
            raise sqlite3.DatabaseError(f"version {found}, this program writes {VERSION}")
        if not tables:
            conn.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
    except BaseException:
        conn.close()
        raise
    return conn


def _update(conn: sqlite3.Connection, home: str, seen: Sequence[SessionFile]) -> None:
    """Read files that changed since, forget those that are gone. One transaction a file: it may die in between."""
    known = {path: (size, at) for path, size, at in conn.execute("SELECT path, size, at FROM files")}
    gone = known.keys() - {file.path for file in seen}
    for path in gone:
        _drop(conn, path)
    if gone:
        _erase(conn)
    for file in seen:
        if known.get(file.path) == (file.size, file.at):
            continue
        entries = [(file.path, hit.entry, hit.who, hit.at, hit.text) for hit in _entries(home, file)]
        conn.execute("BEGIN IMMEDIATE")
        _drop(conn, file.path)
        conn.executemany("INSERT INTO entries (path, entry, who, at, text) VALUES (?, ?, ?, ?, ?)", entries)
        conn.execute("INSERT INTO files VALUES (?, ?, ?)", (file.path, file.size, file.at))
        conn.execute("COMMIT")


def _drop(conn: sqlite3.Connection, path: str) -> None:
    conn.execute("DELETE FROM entries WHERE path = ?", (path,))
    conn.execute("DELETE FROM files WHERE path = ?", (path,))


def _erase(conn: sqlite3.Connection) -> None:
    """Words of dropped entries stay in the index until it is merged; what was deleted shall not stay in the file."""
    conn.execute("INSERT INTO words (words) VALUES ('optimize')")


def _indexed(conn: sqlite3.Connection, asked: TranscriptQuery) -> Iterator[TranscriptHit]:
    where = ["e.at >= ?"]
    args: list[object] = [asked.since]
    if asked.agent is not None:
        where.append("instr(e.path, ?) = 1")
        args.append(f"agents/{asked.agent}/")
    words = [term for term in asked.terms if not _DENSE.search(term)]
    for term in asked.terms:
        if _DENSE.search(term):
            where.append("instr(lower(e.text), lower(?)) > 0")
            args.append(term)
    sql = _FOUND
    if words:
        sql += " JOIN words ON words.rowid = e.n"
        where.append("words MATCH ?")
        args.append(" ".join(_phrase(term) for term in words))
    rows = conn.execute(f"{sql} WHERE {' AND '.join(where)} ORDER BY e.at DESC, e.n DESC LIMIT ?", (*args, asked.limit))
    for path, entry, who, at, text in rows:
        yield TranscriptHit(path, entry, who, at, text=cut_excerpt(text, asked.terms))


def _phrase(term: str) -> str:
    """A term for the index: nothing in it is syntax but a * at its end."""
    bare = term.rstrip("*").replace('"', '""')
    return f'"{bare}"*' if term.endswith("*") else f'"{bare}"'


def _scanned(home: str, seen: Iterable[SessionFile], asked: TranscriptQuery) -> list[TranscriptHit]:
    terms = [term.rstrip("*").casefold() for term in asked.terms]
    hits = [
        msgspec.structs.replace(hit, text=cut_excerpt(hit.text, asked.terms))
        for file in seen
        if asked.agent in (None, file.agent)
        for hit in _entries(home, file)
        if hit.at >= asked.since and all(term in hit.text.casefold() for term in terms)
    ]
    hits.sort(key=lambda hit: hit.at, reverse=True)
    return hits[: asked.limit]


def _searched(file: SessionFile) -> bool:
    """Transcripts, and those that were reset; not what a person deleted."""
    return file.name.endswith(".jsonl") or (parse_archive_time(file.name) is not None and ".jsonl.reset." in file.name)


def _entries(home: str, file: SessionFile) -> Iterator[TranscriptHit]:
    try:
        transcript = read_transcript(os.path.join(home, file.path))
    except StateUnwritable:
        return
    for entry in transcript.entries:
        text = get_text(entry)
        if text.strip():
            yield TranscriptHit(file.path, entry.id, _who(entry), get_moment(entry), text=text[:DOCUMENT])


def _who(entry: TranscriptEntry) -> str:
    if isinstance(entry, CompactionEntry | BranchSummaryEntry):
        return "summary"
    message = entry.message if isinstance(entry, MessageEntry) else None
    return (
        "tool" if isinstance(message, ToolResult) else "assistant" if isinstance(message, AssistantMessage) else "user"
    )


def cut_excerpt(text: str, terms: Sequence[str]) -> str:
    """What stands around the first term that is found, on one line."""
    low = text.casefold() if len(text.casefold()) == len(text) else text.lower()
    places = [at for term in terms if (at := low.find(term.rstrip("*").casefold())) >= 0]
    at = min(places, default=0)
    start, end = max(0, at - AROUND), at + AROUND * 2
    piece = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{piece}{'…' if end < len(text) else ''}"


def format_hit_time(hit: TranscriptHit) -> str:
    """When, for people."""
    return to_iso(hit.at)[:16] if hit.at else "-"
