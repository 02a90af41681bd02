"""One moment of a state directory, taken beside a running gateway.

The gateway's writer is held for the blink in which the files of transcripts are linked and the database's snapshot is
begun. A line that is safe then is in its file or in the snapshot's journal; what is appended later is cut off by the
sizes noted then. The next start writes journal lines that a file lacks, as after a crash.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from palinurus.store.sqlite.database import NAME, to_state_error

STAGE = ".backup"  # in the state directory, while one is taken
_ENDED = "restored from a backup; nobody knows what became of it since"


class MomentFile(NamedTuple):
    """A file of the moment: its place in the state directory, where its bytes are, how many of them count."""

    place: str
    path: str
    size: int


@contextlib.contextmanager
def hold_moment(home: str, appended: list[str]) -> Iterator[list[MomentFile]]:
    """The database and the files `appended` (places of files that only grow) as of one moment.

    Raises StateError, OSError. Killed in between it leaves a folder that the next one removes.
    """
    stage = os.path.join(home, STAGE)
    shutil.rmtree(stage, ignore_errors=True)
    os.mkdir(stage, 0o700)
    file = os.path.join(home, NAME)
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as writer:
            with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as reader:
                writer.execute("BEGIN IMMEDIATE")
                try:
                    held = [each for number, place in enumerate(appended) for each in _link(home, place, number)]
                    reader.execute("BEGIN")
                    # The snapshot begins with the first read.
                    reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
                finally:
                    writer.execute("ROLLBACK")
                copy = os.path.join(stage, NAME)
                _copy(reader, copy)
        yield [MomentFile(NAME, copy, os.path.getsize(copy)), *held]
    except sqlite3.Error as error:
        raise to_state_error(error, file) from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def copy_database(path: str, target: str) -> None:
    """Another SQLite file as it is at one moment, whoever writes it. Raises StateError."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as source:
            _copy(source, target)
    except sqlite3.Error as error:
        raise to_state_error(error, path) from None


def _copy(source: sqlite3.Connection, target: str) -> None:
    with contextlib.closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def _link(home: str, place: str, number: int) -> Iterator[MomentFile]:
    """By a link: whoever renames or replaces the file later leaves these bytes alone."""
    path = os.path.join(home, STAGE, str(number))
    with contextlib.suppress(FileNotFoundError):
        os.link(os.path.join(home, place), path, follow_symlinks=False)
        yield MomentFile(place, path, os.stat(path).st_size)


def end_unfinished(file: str) -> tuple[int, int]:
    """In the database of a home that is restored: what waited or ran, and replies not sent, are over.

    Returns how many of each. Raises StateError.
    """
    try:
        with contextlib.closing(sqlite3.connect(file)) as base, base:
            messages = base.execute(
                "UPDATE inbox SET state = 'done', outcome = 'aborted', note = ? WHERE state IN ('queued', 'running')",
                (_ENDED,),
            ).rowcount
            replies = base.execute(
                "UPDATE outbox SET state = 'failed', error = ? WHERE state IN ('pending', 'sending')", (_ENDED,)
            ).rowcount
        return messages, replies
    except sqlite3.Error as error:
        raise to_state_error(error, file) from None
