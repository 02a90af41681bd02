"""Which store this program has. The one place that names an implementation: a state directory is SQLite's, or says that
its state is in a fleet's PostgreSQL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlsplit

from palinurus import late
from palinurus.clock import Clock
from palinurus.config.paths import STORE_VARIABLE
from palinurus.files import read_plain_file, write_whole_file
from palinurus.store.port import InboxRow, OutboxRow, SessionRow, Store, StoreRecord, TraceStep, UsageRow
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.lock import take_lock
from palinurus.store.sqlite.reader import open_sqlite_reader

if TYPE_CHECKING:
    from palinurus.store.fleet import MemberFacts

POINTER = "store-url"  # in a home whose state is elsewhere

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

    def read_lines(self, path: str, size: int) -> bytes:
        """The first bytes of a transcript; none where transcripts are files of the home."""
        ...

    def integrity(self) -> list[str]:
        """What a whole check finds; empty if it is sound. Slow on large states."""
        ...

    def close(self) -> None: ...


async def open_store(home: str, clock: Clock) -> Store:
    """Open the state of `home`, alone. Call `recover()` before anything else.

    Raises StateLocked, StateUnwritable, StateBroken (damaged or from a newer version), DiskFull.
    """
    store = await open_sqlite_store(home, clock)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(home, POINTER))
    return store


def open_fleet_store(
    url: str, node: str, lease: float, lost: Callable[[str], None] | None, facts: MemberFacts
) -> StoreOpener:
    """Opens the state at `url` as the node `node`, with `home` for what stays on this machine. `lost` is told why, if
    the others go on without it, and ends the process."""

    async def open_shared(home: str, clock: Clock) -> Store:
        held = take_lock(home)
        try:
            member = late.load_part("fleet-member")(node, lease, lost, held.release, facts=facts)
            store: Store = await late.load_part("fleet")(url, home, clock, member)
        except BaseException:
            held.release()
            raise
        _write_pointer(home, url)
        return store

    return open_shared


def _write_pointer(home: str, url: str) -> None:
    """For commands that look at this home: where its state is. Without the password, which is not ours to copy."""
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")
    bare = parts._replace(netloc=f"{where[0].partition(':')[0]}{where[1]}{where[2]}")
    write_whole_file(os.path.join(home, POINTER), bare.geturl().encode(), sync=False)


def find_shared_store(home: str) -> str:
    """The address of the fleet's database that has the state of this home; "": it is here."""
    url = os.environ.get(STORE_VARIABLE, "")
    if not url:
        with contextlib.suppress(OSError):
            url = read_plain_file(os.path.join(home, POINTER), 4096).decode()
    return url


def open_reader(home: str) -> StateReader:
    """Look at the state of `home`, beside a running gateway or without one. Raises NotFound if there is none yet,
    StateBroken, StateUnwritable."""
    if url := find_shared_store(home):
        reader: StateReader = late.load_part("fleet-reader")(url)
        return reader
    return open_sqlite_reader(home)
