"""What waits for a node until it looks: requests of the gateway (`work`: tell how you are, where you are) and commands
that a phone could not do while its app was in the background (`action`).

Rows of the store are the truth, read anew each time: both are rare. At kill -9 what was told as queued is queued. A row
is there until the node has said that it took it, or until its time is over; the node may see it twice before that.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.node import NodeOrder
from palinurus.store.records import Records, RecordStore

KIND = "node-pending"
WORK_MS, ACTION_MS = 24 * 3600 * 1000, 10 * 60 * 1000
MOST = 64  # actions of one node
ORDER = {"high": 0, "normal": 1}


class PendingItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of either kind: `type` is a request's, `command` an action's."""

    id: str
    node: str
    created: int
    expires: int
    type: str = ""
    priority: str = "normal"
    command: str = ""
    params: str = ""
    key: str = ""


class PendingItems:
    """Of all nodes."""

    def __init__(self, store: RecordStore, clock: Clock) -> None:
        self._records = Records(store, KIND, PendingItem)
        self._clock = clock

    async def add_work(self, node: str, kind: str, priority: str, life: int | None) -> PendingItem:
        """A request; one of its kind that waits already is the one."""
        for item in await self.list_work(node):
            if item.type == kind:
                return item
        now = self._clock.now()
        item = PendingItem(str(uuid.uuid4()), node, now, now + (life or WORK_MS), type=kind, priority=priority)
        await self._records.put(item.id, item)
        return item

    async def list_work(self, node: str) -> list[PendingItem]:
        """Requests that wait, the urgent ones first."""
        found = [item for item in await self._all(node) if item.type]
        return sorted(found, key=lambda item: (ORDER.get(item.priority, 1), item.created))

    async def add_action(self, order: NodeOrder) -> PendingItem:
        """A command for later; the same order twice is one. The oldest of too many goes."""
        waiting = await self.list_actions(order.node, lambda command: True)
        for item in waiting:
            if item.key == order.key:
                return item
        for old in waiting[: max(0, len(waiting) - MOST + 1)]:
            await self._records.drop(old.id)
        now = self._clock.now()
        item = PendingItem(
            *(str(uuid.uuid4()), order.node, now, now + ACTION_MS),
            command=order.command,
            params=msgspec.json.encode(order.params).decode(),
            key=order.key,
        )
        await self._records.put(item.id, item)
        return item

    async def list_actions(self, node: str, allowed: Callable[[str], bool]) -> list[PendingItem]:
        """Commands that wait, in their order. One that is not allowed any more is forgotten."""
        found = sorted((item for item in await self._all(node) if item.command), key=lambda item: item.created)
        for item in found:
            if not allowed(item.command):
                await self._records.drop(item.id)
        return [item for item in found if allowed(item.command)]

    async def drop(self, node: str, only: tuple[str, ...] | None = None) -> int:
        """The node took these (None: nothing of it shall wait); how many actions are left."""
        rows = await self._all(node)
        gone = {item.id for item in rows if only is None or item.id in only}
        for ident in gone:
            await self._records.drop(ident)
        return sum(1 for item in rows if item.command and item.id not in gone)

    async def _all(self, node: str) -> list[PendingItem]:
        now, found = self._clock.now(), []
        for item in (await self._records.all()).values():
            if item.expires <= now:
                await self._records.drop(item.id)
            elif item.node == node:
                found.append(item)
        return found
