"""The one thread that changes the database. It takes all that is queued, applies it in one transaction, commits,
writes the transcript files, and only then tells the callers.

Knows transactions and faults, not tables. An operation is a function of `StoreTransaction` that
can be run again from the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from palinurus import crashpoints
from palinurus.clock import Clock
from palinurus.errors import StateBroken, StateError
from palinurus.store.news import NewsKind, StoreNews
from palinurus.store.port import TranscriptLine
from palinurus.store.sqlite import journal as journals
from palinurus.store.sqlite.database import to_state_error
from palinurus.store.sqlite.journal import TranscriptJournal

log = logging.getLogger(__name__)

IDLE = 1.0  # seconds without work before transcript files are synced
SLICE = 8  # files synced before looking whether there is work again


_STEP = (
    "INSERT INTO steps (item, n, at, what, detail)"
    " VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM steps WHERE item = ?1), ?2, ?3, ?4)"
)


class StoreTransaction:
    """What an operation sees: the connection, the time, and what is to follow its commit."""

    __slots__ = ("after", "before", "by", "conn", "journal", "lines", "news", "now", "shared")

    def __init__(self, conn: sqlite3.Connection, journal: TranscriptJournal, now: int, shared: bool = False) -> None:
        self.conn = conn
        self.journal = journal
        self.now = now
        self.lines: list[tuple[int, TranscriptLine]] = []
        self.before: list[str] = []  # crash points just before and just after the commit
        self.after: list[str] = []
        self.shared = shared  # are there nodes that could hear news?
        self.by = 0  # the node whose operation it is
        self.news: list[tuple[int, StoreNews]] = []

    def tell(self, what: NewsKind, key: str, session: str = "", detail: str = "") -> None:
        """Other nodes hear of it after the commit."""
        if self.shared:
            self.news.append((self.by, StoreNews(what, key, session, detail)))

    def append(self, lines: tuple[TranscriptLine, ...] | list[TranscriptLine]) -> None:
        """Journal these lines; their files are written after the commit."""
        self.lines += journals.insert_lines(self.conn, lines)

    def step(self, item: str, at: int, what: str, detail: str) -> None:
        """One more line in a message's trace."""
        self.conn.execute(_STEP, (item, at, what, detail))


Run: TypeAlias = Callable[[StoreTransaction], Any]


class _Op(msgspec.Struct, frozen=True):
    run: Run
    future: asyncio.Future[Any]
    by: int
    receipt: bool = False  # it says what has happened outside: taken as long as the database itself is sound


_Result: TypeAlias = tuple[asyncio.Future[Any], Any, BaseException | None]


class _Retry(Exception):
    """An operation failed in an unguarded batch: apply it again, each operation with its own savepoint."""


# What SQLite raises when the transaction as a whole is lost; other errors belong to one operation.
_WHOLE = (sqlite3.OperationalError, sqlite3.InternalError, sqlite3.DatabaseError)


class StoreWriter:
    """Owns the writing connection; `ended` is called from its thread once that is closed.

    `put` from the event loop; the future resolves after the commit.
    """

    def __init__(
        self,
        conn: sqlite3.Connection,
        file: str,
        journal: TranscriptJournal,
        clock: Clock,
        *,
        ended: Callable[[], None],
        heard: Callable[[list[tuple[int, StoreNews]]], None] = lambda news: None,
    ) -> None:
        self._ended = ended
        self._heard = heard  # on the loop, before whoever made the news is told
        self.shared = False
        self._conn = conn
        self._file = file
        self._journal = journal
        self._name = secrets.token_hex(8)
        self._known = False  # has the database our name?
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._queue: list[_Op] = []
        self._stopping = False
        self._broken: StateError | None = None
        self._news: list[tuple[int, StoreNews]] = []  # of the batch that is being committed
        self._sound = True  # the database; if something is broken, it is a transcript's disk
        self._thread = threading.Thread(target=self._main, name="palinurus-store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, run: Run, *, by: int = 0, receipt: bool = False) -> asyncio.Future[Any]:
        """Queue an operation of the node `by`. It happens even if the caller stops waiting. Raises StateError after
        `stop`."""
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._wake:
            if self._stopping:
                raise StateError("the store is closed")
            self._queue.append(_Op(run, future, by, receipt))
            self._wake.notify()
        return future

    def stop(self) -> None:
        """Take nothing more. Returns at once; `join` waits until all that was queued is on disk."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def join(self) -> None:
        self._thread.join()

    def _main(self) -> None:
        while True:
            with self._wake:
                if not self._queue and not self._stopping:
                    self._wake.wait(IDLE if self._journal.pending and self._broken is None else None)
                ops, self._queue = self._queue, []
                stopping = self._stopping
            if ops:
                self._tell(self._batch(ops))
                if self._journal.rows > journals.MANY:
                    self._try(self._forget)
            elif stopping:
                break
            else:
                self._idle()
        self._idle()
        _attempt(self._conn.close)
        self._ended()

    # --- one batch ---------------------------------------------------------------------------------------------

    def _batch(self, ops: list[_Op]) -> list[_Result]:
        self._news = []
        if self._broken is not None:
            refused = _refused([op for op in ops if not (op.receipt and self._sound)], self._broken)
            ops = [op for op in ops if op.receipt and self._sound]
            return refused + self._apply(ops) if ops else refused
        return self._apply(ops)

    def _apply(self, ops: list[_Op]) -> list[_Result]:
        results, error = _attempt(self._commit, ops, self._plain)
        if isinstance(error, _Retry):
            results, error = _attempt(self._commit, ops, self._guarded)
        if error is None:
            return results  # type: ignore[no-any-return]
        self._rollback()
        self._news = []
        return _refused(ops, self._fault(error))

    def _commit(self, ops: list[_Op], apply: Callable[[_Op, StoreTransaction], _Result]) -> list[_Result]:
        """Apply and commit. Raises _Retry if an operation failed that was not guarded."""
        conn = self._conn
        tx = StoreTransaction(conn, self._journal, self._clock.now(), self.shared)
        conn.execute("BEGIN IMMEDIATE")
        self._hold()
        results = [apply(op, tx) for op in ops]
        self._news = tx.news
        for name in tx.before:
            crashpoints.pass_crashpoint(name)
        conn.execute("COMMIT")
        self._known = True
        for name in tx.after:
            crashpoints.pass_crashpoint(name)
        if tx.lines:
            _, error = _attempt(self._journal.write, tx.lines, conn)
            if error is not None:  # it is committed: whatever happens to the files, the callers have succeeded
                failed = self._fault(error)
                self._journal.stuck.update((line.path, failed.message) for _, line in tx.lines)
        return results

    def _hold(self) -> None:
        """The first transaction says that we write this database, every other asks. Raises StateBroken."""
        if not self._known:
            self._conn.execute("INSERT OR REPLACE INTO meta VALUES ('writer', ?)", (self._name,))
        elif self._conn.execute("SELECT value FROM meta WHERE key = 'writer'").fetchone() != (self._name,):
            raise StateBroken(f"{self._file}: another gateway has taken over this database", fix="stop one of them")

    def _plain(self, op: _Op, tx: StoreTransaction) -> _Result:
        # no savepoint: almost nothing fails, and each statement is a chance to lose the interpreter lock
        tx.by = op.by
        result, error = _attempt(op.run, tx)
        if error is not None:
            self._rollback()
            raise _Retry
        return op.future, result, None

    def _guarded(self, op: _Op, tx: StoreTransaction) -> _Result:
        tx.by, kept = op.by, (len(tx.lines), len(tx.before), len(tx.after), len(tx.news))
        tx.conn.execute("SAVEPOINT op")
        result, error = _attempt(op.run, tx)
        if error is not None:
            if type(error) in _WHOLE:
                raise error
            tx.conn.execute("ROLLBACK TO op")
            del tx.lines[kept[0] :], tx.before[kept[1] :], tx.after[kept[2] :], tx.news[kept[3] :]
        tx.conn.execute("RELEASE op")
        return op.future, result, to_state_error(error, self._file) if isinstance(error, sqlite3.Error) else error

    def _fault(self, error: Exception) -> StateError:
        """The error callers get. StateBroken is remembered: nothing more is tried."""
        if isinstance(error, StateError):
            failed = error  # if somebody has taken over, `_hold` says so to receipts, too
        elif isinstance(error, sqlite3.Error):
            failed = to_state_error(error, self._file)
            self._sound = self._sound and not isinstance(failed, StateBroken)
        else:
            log.error("the store's thread met a bug", exc_info=error)
            failed = StateError(f"{self._file}: {error!r}")
        if isinstance(failed, StateBroken) and self._broken is None:
            self._broken = failed
            log.critical("%s; nothing more is accepted", failed.message)
        else:
            log.error("%s", failed.message)
        return failed

    def _rollback(self) -> None:
        if self._conn.in_transaction:
            _, error = _attempt(self._conn.execute, "ROLLBACK")
            if error is not None:
                self._fault(
                    StateBroken(
                        f"{self._file}: a transaction could not be undone ({error})",
                        fix="restart the gateway; `pal doctor` looks whether the database is whole",
                    )
                )

    def _tell(self, results: list[_Result]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it everyone who waited
            if self._news:
                self._loop.call_soon_threadsafe(self._heard, self._news)
            self._loop.call_soon_threadsafe(_resolve, results)

    # --- between batches ---------------------------------------------------------------------------------------

    def _idle(self) -> None:
        """Write what could not be written, sync what is not, until somebody wants something; at the end nobody does."""
        if self._broken is None:
            self._try(self._mend)
        while self._journal.touched and self._broken is None and not self._queue:
            self._try(self._forget)

    def _try(self, run: Callable[[], None]) -> None:
        _, error = _attempt(run)
        if error is not None:
            self._rollback()
            self._fault(error)

    def _mend(self) -> None:
        for path in list(self._journal.stuck):
            self._journal.mend(path, self._conn)

    def _forget(self) -> None:
        """Sync some transcript files and forget their rows. Rows that stay are compared with the file later."""
        synced = self._journal.sync(SLICE)
        self._conn.execute("BEGIN IMMEDIATE")
        journals.forget_lines(self._conn, synced)
        self._conn.execute("COMMIT")


def _attempt(run: Callable[..., Any], *args: Any) -> tuple[Any, Exception | None]:
    """The border of the thread: whatever goes wrong becomes a value, or everyone would wait for ever."""
    try:
        return run(*args), None
    except Exception as error:  # noqa: BLE001 - boundary of the thread
        return None, error


def _refused(ops: list[_Op], error: StateError) -> list[_Result]:
    return [(op.future, None, type(error)(error.message, fix=error.fix)) for op in ops]


def _resolve(results: list[_Result]) -> None:
    for future, value, error in results:
        if future.done():
            continue  # whoever waited was cancelled; it happened all the same
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
