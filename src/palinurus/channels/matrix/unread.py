"""Encrypted messages whose key has not come: kept, asked for, and at last told of. A key that comes in time makes a
message of them; after that the person is asked to say it again, once for each key.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from palinurus.channels.kit import ChannelKit, MemoTable, RecentDict
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

MOST = 50  # messages that wait
PATIENCE = 45.0  # seconds for a key to come
UNREADABLE = (
    "I could not read your last message: its key did not reach me ({why}). Please send it again; if that does not help,"
    " verify this device in your client's settings, or sign in there anew."
)

# Reads an event of a room and hands it in; False while it still cannot be read. Or is told that it never will, and why.
ReadLate = Callable[[str, Mapping[str, Any]], Awaitable[bool]]
Unreadable = Callable[[str, Mapping[str, Any], str], Awaitable[None]]


class Undecipherable(Exception):
    """It cannot be read; says why, for people. `missing`: the key may still come."""

    def __init__(self, why: str, missing: bool = False) -> None:
        super().__init__(why)
        self.missing = missing


class UnreadMessages:
    """For one account. What waits outlives the process."""

    def __init__(self, kit: ChannelKit, give_up: Unreadable) -> None:
        self._kit = kit
        self._give_up = give_up
        self._table = MemoTable(kit.memo, "unread", MOST)
        self._told: RecentDict[str, bool] = RecentDict(MOST)
        self._timers = TaskSet("matrix: waiting for a key")
        self._read: ReadLate | None = None

    async def start(self, read: ReadLate) -> None:
        """Go on waiting for what an earlier process waited for."""
        self._read = read
        for ident in list(await self._table.rows()):
            self._timers.start(self._wait(ident))

    async def close(self) -> None:
        await self._timers.close()

    async def add(self, room: str, event: Mapping[str, Any], why: str) -> None:
        """On disk when this returns."""
        ident = str(event.get("event_id"))
        if ident not in await self._table.rows():
            await self._table.put(ident, {"room": room, "event": dict(event), "why": why})
            self._timers.start(self._wait(ident))

    async def take(self, sessions: set[str] | None = None) -> None:
        """Try again what waits for the keys of these sessions, or all of it: a key may have been saved by a process
        that was killed before it read what had waited for it."""
        for ident, row in list((await self._table.rows()).items()):
            if sessions is None or (row["event"].get("content") or {}).get("session_id") in sessions:
                await self._try(ident, row)

    async def _try(self, ident: str, row: Mapping[str, Any]) -> bool:
        if self._read is None or not await self._read(row["room"], row["event"]):
            return False
        await self._table.remove(ident)
        return True

    async def _wait(self, ident: str) -> None:
        await self._kit.clock.sleep(PATIENCE)
        row = (await self._table.rows()).get(ident)
        if row is None or await self._try(ident, row):
            return
        session = str((row["event"].get("content") or {}).get("session_id"))
        if session not in self._told:
            self._told[session] = True
            await self._give_up(row["room"], row["event"], str(row["why"]))
        await self._table.remove(ident)
