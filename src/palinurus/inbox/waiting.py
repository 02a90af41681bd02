"""What waits, as whoever wrote it may still change it: in which order, and whether it waits for the end of the run.

An order is on disk before it is told. Being read by the run at once is a wish: killed before the run has read it, the
message waits again, as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palinurus.inbox.lanes import SessionQueues
from palinurus.inbox.message import InboxMessage, MessageReader
from palinurus.inbox.queue import HurryEvent, MoveEvent, QueueEvent
from palinurus.store.port import Store


class WaitingMessages:
    """Implements `services.inbox.WaitingPort`. `step` is the dispatcher's."""

    def __init__(
        self,
        store: Store,
        book: SessionQueues,
        reader: MessageReader,
        step: Callable[[str, str, QueueEvent, InboxMessage | None], object],
    ) -> None:
        self._store = store
        self._book = book
        self._reader = reader
        self._step = step

    async def move(self, session: str, ids: Sequence[str]) -> list[str]:
        """See the port."""
        order = await self._store.rearrange(session, ids)
        self._step(session, self._book.lane(session), MoveEvent(tuple(order)), None)
        return order

    async def hurry(self, item: str) -> bool:
        """See the port."""
        row = await self._store.item(item)
        message = self._reader.reopen(row) if row is not None and row.state == "queued" else None
        if row is None or message is None or message.control or message.inbound.files:
            return False  # files are looked at before a turn begins
        self._step(row.session, row.lane, HurryEvent(row.id), message)
        return self.is_handed(row.session, row.id)

    def is_handed(self, session: str, item: str) -> bool:
        """See the port."""
        known = self._book.row(session, item)
        return known is not None and known.state in ("handed", "taken")
