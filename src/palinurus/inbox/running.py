"""A run in flight: what the dispatcher holds of it, and who watches it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from palinurus.abort import Abort
from palinurus.agent.steer import Mailbox
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.inbox.feed import RunFeeds
from palinurus.inbox.queue import BeginEffect
from palinurus.store.port import RunClaim

log = logging.getLogger(__name__)

_decoder = msgspec.json.Decoder(Inbound)


def decode_stored(ident: str, body: bytes, at: int) -> Inbound:
    """The message as it was accepted; without text if the row cannot be read (the turn explains that)."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as exc:
        log.error("message %s: the stored row cannot be read: %s", ident, exc)
        return Inbound(Target("unknown"), Sender(""), "", "", at, push=False)


class ActiveRun:
    """A session's run. `over` once its lane is free again; `late` counts the times it was told that it must end."""

    __slots__ = ("abort", "absorbed", "begin", "claim", "inbound", "late", "mailbox", "over", "task", "timer")

    def __init__(self, claim: RunClaim, inbound: Inbound, begin: BeginEffect, mailbox: Mailbox) -> None:
        self.claim = claim
        self.inbound = inbound
        self.begin = begin
        self.mailbox = mailbox
        self.abort = Abort()
        self.absorbed: set[str] = set()
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.late = 0
        self.over = False


class RunAudience:
    """The audience of one run: the sinks of its message, and of those that were steered into it."""

    def __init__(self, feeds: RunFeeds, run: ActiveRun, absorbed: Callable[[ActiveRun, tuple[str, ...]], None]) -> None:
        self._feeds = feeds
        self._run = run
        self._tell = absorbed

    def show(self, event: RunEvent) -> None:
        self._feeds.show(self._run.claim.id, event)

    def absorbed(self, items: tuple[str, ...]) -> None:
        self._tell(self._run, items)
