"""What other nodes do with the state we share, made known to our queues: a message that waits there waits here, too, so
whoever is free first may run it; what one of them took, ended or stopped is so for us.

One node alone never hears anything. The store decides who gets a message; nothing here has to be true for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING

from palinurus.core.types.events import AgentEnd
from palinurus.core.types.messages import AssistantMessage, TextBlock
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import StateError
from palinurus.inbox import queue
from palinurus.inbox.feed import RunFeeds
from palinurus.inbox.lanes import SessionQueues
from palinurus.inbox.message import InboxMessage
from palinurus.inbox.policy import QueuePolicy
from palinurus.inbox.queue import QueueEvent
from palinurus.inbox.running import ActiveRun, make_refused_end, make_row
from palinurus.store.news import StoreNews
from palinurus.store.port import InboxRow, Store
from palinurus.tasks import TaskSet

if TYPE_CHECKING:  # loaded in a fleet (`late`)
    from palinurus.inbox.relay import RunRelay

log = logging.getLogger(__name__)


class PeerNews:
    """`reread` gives a stored message and how it waits; `step` is the dispatcher's."""

    def __init__(
        self,
        store: Store,
        book: SessionQueues,
        running: Mapping[str, ActiveRun],
        feeds: RunFeeds,
        *,
        tickets: MutableMapping[str, asyncio.Lock],
        reread: Callable[[InboxRow], Awaitable[tuple[InboxMessage, QueuePolicy]]],
        step: Callable[[str, str, QueueEvent, InboxMessage | None], object],
    ) -> None:
        self._store = store
        self._book = book
        self._running = running
        self._feeds = feeds
        self._tickets = tickets
        self._reread = reread
        self._step = step
        self._tasks = TaskSet("hearing of another node's message")
        self.relay: RunRelay | None = None  # shows what others run while it happens

    def hear(self, news: StoreNews) -> None:
        """What is about messages; of one session in the order in which it is told."""
        if news.what in _HEARD:
            self._tasks.start(self._take_in(news))

    async def close(self) -> None:
        await self._tasks.close()

    async def _take_in(self, news: StoreNews) -> None:
        async with self._tickets.setdefault(news.session, asyncio.Lock()):
            try:
                await _HEARD[news.what](self, news)
            except StateError as exc:  # out of order, or closing: the store knows who is next
                log.warning("message %s of another node: %s", news.key, exc.message)

    async def _queued(self, news: StoreNews) -> None:
        row = await self._store.item(news.key)
        if row is None:
            return
        message, rules = await self._reread(row)
        row = await self._store.item(news.key)  # as it is now: another may have been faster
        run = self._running.get(news.session)
        if row is None or row.state != "queued" or self._book.row(row.session, row.id) is not None:
            return
        made = make_row(row.id, message.inbound, rules, asyncio.get_running_loop().time())
        arrived = queue.ArrivalEvent(made, rules) if run is not None else queue.RestoreEvent(made)
        self._step(row.session, row.lane, arrived, message)

    async def _taken(self, news: StoreNews) -> None:
        self._step(news.session, self._book.lane(news.session), queue.AbsorbEvent((news.key,)), None)

    async def _absorbed(self, news: StoreNews) -> None:
        await self._taken(news)
        self._feeds.merge(news.key, news.detail)

    async def _moved(self, news: StoreNews) -> None:
        waits = await self._store.list_waiting(news.session)
        order = queue.MoveEvent(tuple(row.id for row in waits))
        self._step(news.session, self._book.lane(news.session), order, None)

    async def _ended(self, news: StoreNews) -> None:
        """Its session is free: what waits there may begin."""
        if self.relay is not None and self.relay.follows(news.key):
            self._tasks.start(self._end_shown(self.relay, news.key))
        else:
            await self._report_end(news.key, shown=self._feeds.is_awaited(news.key))
        self._step(news.session, news.detail, queue.VerdictEvent(news.key), None)

    async def _end_shown(self, relay: RunRelay, item: str) -> None:
        """Its last event is on its way, or lost."""
        if not await relay.wait_ended(item):
            await self._report_end(item, shown=True)

    async def _report_end(self, item: str, *, shown: bool) -> None:
        row = await self._store.item(item) if shown else None
        last = _make_end(row) if row is not None and row.state == "done" else None
        if last is not None:
            self._feeds.show_foreign(item, last)
        self._feeds.report_ended(item)


_HEARD: dict[str, Callable[[PeerNews, StoreNews], Awaitable[None]]] = {
    "queued": PeerNews._queued,
    "taken": PeerNews._taken,
    "absorbed": PeerNews._absorbed,
    "moved": PeerNews._moved,
    "ended": PeerNews._ended,
}


def _make_end(row: InboxRow) -> AgentEnd:
    """The last event of a run that was elsewhere, as far as the store tells."""
    if row.outcome not in ("answered", "silent"):
        return make_refused_end(row.outcome or "failed", row.note, row.settled)
    said = (AssistantMessage((TextBlock(row.note),), timestamp=row.settled),) if row.note else ()
    return AgentEnd(said, "stop", TokenUsage(), ended=row.settled)
