"""What triggers need of the program: a few verbs of the store and of the inbox. Handed in by `app`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.store.port import ANY_RECORD, Acceptance, InboxRow, SessionRow, StoreRecord, UsageRow

Sink = Callable[[RunEvent], None]


class TriggerStore(Protocol):
    """The part of the store that triggers use."""

    async def put_record(
        self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = ANY_RECORD
    ) -> bool: ...

    async def get_record(self, kind: str, key: str) -> StoreRecord | None: ...

    async def list_records(self, kind: str) -> list[StoreRecord]: ...

    async def claim_slot(self, job: str, due: int) -> bool: ...

    async def session(self, key: str) -> SessionRow | None: ...

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]: ...


class TriggerSubmit(Protocol):
    """Put a message on disk; its dedupe key makes it one message. `sink` sees its run."""

    def __call__(self, inbound: Inbound, sink: Sink | None = None, /) -> Awaitable[Acceptance]: ...


class TriggerPort(NamedTuple):
    """The program, as far as triggers use it."""

    settings: Settings
    store: TriggerStore
    clock: Clock
    submit: TriggerSubmit
    wait: Callable[[str], Awaitable[InboxRow]]  # until a message's outcome is on disk
    running: Callable[[str], bool]  # does a turn of this session run now?
    busy: Callable[[], int] = lambda: 0  # how many turns run now
    post: Callable[[str, bytes, dict[str, str]], Awaitable[int]] | None = None  # url, body, headers -> HTTP status
    channels: Callable[[], tuple[str, ...]] = tuple  # those replies can go to
    run: Callable[[SessionKey, str, float], Awaitable[str | None]] | None = None  # a command: its output; None: failed
    tell: Callable[[str, dict[str, Any]], None] = lambda event, payload: None  # who follows
