"""What triggers need of the program: a few verbs of the store and of the inbox. Handed in by `app`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol

import msgspec

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Target
from palinurus.core.types.keys import SessionKey
from palinurus.services.inbox import InboxPort
from palinurus.store.port import SessionRow, UsageRow
from palinurus.store.records import RecordStore


class TriggerStore(RecordStore, Protocol):
    """The part of the store that triggers use."""

    async def claim_slot(self, job: str, due: int) -> bool: ...

    async def grant(self, name: str) -> bool: ...

    async def session(self, key: str) -> SessionRow | None: ...

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]: ...


class TriggerPort(msgspec.Struct, frozen=True):
    """The program, as far as triggers use it."""

    settings: Settings
    store: TriggerStore
    clock: Clock
    inbox: InboxPort
    post: Callable[[str, bytes, dict[str, str]], Awaitable[int]] | None = None  # url, body, headers -> HTTP status
    say: Callable[[Target, str, str], Awaitable[None]] | None = None  # a chat, a text, an id: once, without a run
    channels: Collection[str] = ()  # those replies can go to
    run: Callable[[SessionKey, str, float], Awaitable[str | None]] | None = None  # a command: its output; None: failed
    tell: Callable[[str, dict[str, Any]], None] = lambda event, payload: None  # who follows
    zone: str = ""  # the machine's, for cron lines where neither they nor the config name one
