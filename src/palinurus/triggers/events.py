"""Things to tell a session with its next turn: durable, each told in exactly one turn, before the turn's own message.

An event is given to a message (by its inbox id) before that message's turn begins; a turn that is taken up again after
a crash gets the same ones, and no other turn does.
"""

from __future__ import annotations

import msgspec

from palinurus.core.policy.taint import write_sources
from palinurus.errors import StateError
from palinurus.store.records import Records
from palinurus.triggers.ports import TriggerStore

EVENT = "event"  # the kind of its records
MOST = 20  # waiting for one session; the oldest go
SHORT = 4000  # characters of one


class SystemEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """`item`: the message it is told with; "" while it waits. `source`: whose words it holds (taint)."""

    id: str
    session: str
    text: str
    at: int
    source: str = ""
    item: str = ""

    @property
    def key(self) -> str:
        return f"{self.session} {self.id}"


class SystemEventText(msgspec.Struct, frozen=True):
    text: str = ""
    source: str = ""


NOTHING = SystemEventText()


class SystemEvents:
    """All that waits, by session."""

    def __init__(self, store: TriggerStore) -> None:
        self._kept = Records(store, EVENT, SystemEvent)
        self._by_session: dict[str, list[SystemEvent]] = {}

    async def load(self) -> None:
        """What waits on disk."""
        self._by_session.clear()
        for event in (await self._kept.all()).values():
            self._by_session.setdefault(event.session, []).append(event)
        for events in self._by_session.values():
            events.sort(key=lambda event: event.at)

    def has_waiting(self, session: str, since: int = -1) -> bool:
        """Is there something this session was not told, and that came not before `since`?"""
        return any(not event.item and event.at >= since for event in self._by_session.get(session, ()))

    def peek(self, session: str) -> SystemEventText:
        """What waits there, for a turn of another session: it goes on waiting."""
        return _told([event for event in self._by_session.get(session, ()) if not event.item])

    def texts(self) -> list[str]:
        """All that waits, for people who look."""
        return [event.text for events in self._by_session.values() for event in events if not event.item]

    async def add(self, event: SystemEvent) -> None:
        """On disk when it returns. The same id twice is one event."""
        events = self._by_session.setdefault(event.session, [])
        if any(known.id == event.id for known in events):
            return
        event = msgspec.structs.replace(event, text=event.text[:SHORT])
        events.append(event)
        await self._kept.put(event.key, event)
        waiting = [known for known in events if not known.item]
        for old in waiting[: max(0, len(waiting) - MOST)]:
            await self._drop(old)

    async def take(self, session: str, item: str) -> SystemEventText:
        """What to tell with the message `item`. What was told with earlier ones is forgotten."""
        events = self._by_session.get(session)
        if not events:
            return NOTHING
        told: list[SystemEvent] = []
        for event in tuple(events):
            if event.item and event.item != item:
                await self._drop(event)
            elif not event.item:
                given = msgspec.structs.replace(event, item=item)
                if await self._kept.swap(event.key, event, given):  # else another node tells it
                    told.append(given)
                if event in events:
                    events[events.index(event)] = given
            else:
                told.append(event)
        return _told(told)

    async def reread(self, key: str) -> None:
        """Another node has changed it, or taken it away."""
        event = await self._kept.get(key)
        for session, events in tuple(self._by_session.items()):
            self._by_session[session] = [known for known in events if known.key != key]
        if event is not None:
            self._by_session.setdefault(event.session, []).append(event)
            self._by_session[event.session].sort(key=lambda known: known.at)

    async def _drop(self, event: SystemEvent) -> None:
        events = self._by_session.get(event.session, [])
        if event in events:
            events.remove(event)
        if not events:
            self._by_session.pop(event.session, None)
        try:
            await self._kept.drop(event.key)
        except StateError:
            return  # a full disk: it is forgotten next time


def _told(events: list[SystemEvent]) -> SystemEventText:
    if not events:
        return NOTHING
    sources = write_sources(event.source for event in events)
    return SystemEventText("\n".join(f"System: {event.text}" for event in events), sources)
