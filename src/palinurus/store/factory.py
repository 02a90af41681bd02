"""Which store this program has. The one place that names an implementation: a state directory is SQLite's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from palinurus.clock import Clock
from palinurus.store.port import InboxRow, OutboxRow, SessionRow, Store, StoreRecord, TraceStep, UsageRow
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.reader import open_sqlite_reader

StoreOpener: TypeAlias = Callable[[str, Clock], Awaitable[Store]]


class StateReader(Protocol):
    """The state seen from outside: everything that is committed, read-only, beside a running gateway or without one.
    A port, for the command line: its calls wait. A context manager."""

    def __enter__(self) -> StateReader: ...

    def __exit__(self, *exc: object) -> None: ...

    def item(self, ident: str) -> InboxRow | None:
        """By id, or by a prefix that only one id has."""
        ...

    def items(self, limit: int = 50, session: str | None = None, state: str | None = None) -> list[InboxRow]:
        """Newest first."""
        ...

    def replies(self, item: str) -> list[OutboxRow]:
        """The reply parts of one message, in order, whatever became of them."""
        ...

    def session(self, key: str) -> SessionRow | None: ...

    def sessions(self, agent: str | None = None) -> list[SessionRow]:
        """Newest first."""
        ...

    def list_usage(self, since: int = 0, session: str | None = None) -> list[UsageRow]:
        """The usage ledger, oldest first."""
        ...

    def trace(self, ident: str) -> list[TraceStep]:
        """Everything recorded about one message, oldest first."""
        ...

    def list_records(self, kind: str) -> list[StoreRecord]:
        """Small records of a part of the program, by key."""
        ...

    def integrity(self) -> list[str]:
        """What a whole check finds; empty if it is sound. Slow on large states."""
        ...

    def close(self) -> None: ...


async def open_store(home: str, clock: Clock) -> Store:
    """Open the state of `home`, alone. Call `recover()` before anything else.

    Raises StateLocked, StateUnwritable, StateBroken (damaged or from a newer version), DiskFull.
    """
    return await open_sqlite_store(home, clock)


def open_reader(home: str) -> StateReader:
    """Look at the state of `home`, beside a running gateway or without one. Raises NotFound if there is none yet,
    StateBroken, StateUnwritable."""
    return open_sqlite_reader(home)
