"""Who is watching which message: live events while it runs, and its end. In memory; the truth is in the store.

A sink watches one message; a follower watches them all (the gateway, which shows every session to its clients). What
other nodes run is shown to sinks, and to followers that want it (`relay.py` brings it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.services.inbox import Sink
from palinurus.store.port import InboxRow, Store


class RunFollower(Protocol):
    """Sees every message. Called inline: must be quick and must not raise."""

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """On disk; it runs now or waits. `session` is its lane: for commands "control:" and the key."""
        ...

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        """Its turn begins (again, after a restart)."""
        ...

    @property
    def on_event(self) -> Callable[[str, RunEvent], None] | None:
        """None: events are of no interest to it."""
        ...

    def on_merged(self, item: str, into: str) -> None:
        """A waiting message became part of the run of `into`; it ends with that."""
        ...

    def on_ended(self, item: str) -> None:
        """Its outcome is on disk."""
        ...


class RunFeeds:
    """Sinks are called inline, in the order of the events; they must be quick and must not raise."""

    def __init__(self) -> None:
        self._sinks: dict[str, list[Sink]] = {}
        self._ends: dict[str, list[asyncio.Future[None]]] = {}
        self._guests: dict[str, list[str]] = {}  # by run: messages that became part of it
        self._followers: list[RunFollower] = []
        self._told: list[Callable[[str, RunEvent], None]] = []  # of events
        self._wide: dict[RunFollower, Callable[[], bool]] = {}  # followers of other nodes' runs; is anybody there?
        self._here: set[str] = set()  # messages that were accepted here and have not ended
        self._running: set[str] = set()  # messages whose run is here: its last event is still to come

    def follow(self, follower: RunFollower, everywhere: Callable[[], bool] | None = None) -> Callable[[], None]:
        """Show everything to `follower` from now on; with `everywhere`, what other nodes run too, while that says that
        somebody is there to see it. Returns the function that ends it."""
        self._followers.append(follower)
        tell = follower.on_event
        self._told += [tell] if tell is not None else []
        if everywhere is not None:
            self._wide[follower] = everywhere

        def unfollow() -> None:
            self._followers.remove(follower)
            if tell is not None:
                self._told.remove(tell)
            self._wide.pop(follower, None)

        return unfollow

    def is_watched(self) -> bool:
        """Is anybody here who would see what another node runs?"""
        return bool(self._sinks) or any(present() for present in self._wide.values())

    def list_wide(self) -> tuple[RunFollower, ...]:
        """Those who follow other nodes' runs."""
        return tuple(self._wide)

    def show_foreign(self, item: str, event: RunEvent) -> None:
        """An event of a run that is elsewhere."""
        for sink in tuple(self._sinks.get(item, ())):
            sink(event)
        for follower in self._wide:
            if follower.on_event is not None:
                follower.on_event(item, event)

    def report_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """A new message is on disk."""
        self._here.add(item)
        for follower in self._followers:
            follower.on_accepted(item, session, inbound)

    def report_started(self, item: str, session: str, inbound: Inbound) -> None:
        """A message's turn begins."""
        self._running.add(item)
        for follower in self._followers:
            follower.on_started(item, session, inbound)

    def watch(self, item: str, sink: Sink) -> Callable[[], None]:
        """Show the item's run events to `sink`. Returns the function that ends it."""
        self._sinks.setdefault(item, []).append(sink)
        return lambda: self._drop(item, sink)

    def _drop(self, item: str, sink: Sink) -> None:
        sinks = self._sinks.get(item, [])
        if sink in sinks:
            sinks.remove(sink)
        if not sinks:
            self._sinks.pop(item, None)

    def show(self, item: str, event: RunEvent) -> None:
        """To all who watch now."""
        for sink in tuple(self._sinks.get(item, ())):
            sink(event)
        for tell in self._told:
            tell(item, event)

    def merge(self, item: str, into: str) -> None:
        """`item` became part of the run of `into`: its watchers watch that run now."""
        if item in self._guests.get(into, ()):
            return  # of another node's run it is told twice
        for follower in self._followers:
            follower.on_merged(item, into)
        self._guests.setdefault(into, []).append(item)
        moved = self._sinks.pop(item, [])
        if moved:
            self._sinks.setdefault(into, []).extend(moved)
        waiting = self._ends.pop(item, [])
        if waiting:
            self._ends.setdefault(into, []).extend(waiting)

    def report_ended(self, item: str, last: RunEvent | None = None) -> None:
        """The item's outcome is on disk; `last` is shown to its watchers before they go."""
        if last is not None:
            self.show(item, last)
        self._sinks.pop(item, None)
        self._running.discard(item)
        for name in (item, *self._guests.pop(item, ())):
            self._here.discard(name)
            for follower in self._followers:
                follower.on_ended(name)
        for future in self._ends.pop(item, ()):
            if not future.done():
                future.set_result(None)

    def is_awaited(self, item: str) -> bool:
        """Does somebody here want to hear its end?"""
        return item in self._here or item in self._sinks or item in self._ends

    def end(self, item: str) -> asyncio.Future[None]:
        """Done when `ended` is called for the item (or for the run it became part of). To be given to `forget`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(item, []).append(future)
        return future

    def forget(self, item: str, future: asyncio.Future[None]) -> None:
        """Nobody waits for it any more."""
        names = (item, *self._ends) if future not in self._ends.get(item, ()) else (item,)
        for name in names:
            waiting = self._ends.get(name, [])
            if future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._ends[name]
                return

    async def outcome(self, item: str, store: Store, timeout: float | None = None) -> InboxRow | None:
        """The row once its outcome is on disk, or as it stands after `timeout` seconds (which stop nothing). Of a run
        that is here watchers have seen the last event by then.

        Follows a message that became part of another's run. None: no such message.
        """
        now = asyncio.get_running_loop().time
        deadline = None if timeout is None else now() + timeout
        while True:
            end = self.end(item)
            try:
                row = await store.item(item)
                if row is None or (row.state == "done" and item not in self._running):
                    return row
                left = None if deadline is None else deadline - now()
                if row.state != "absorbed":
                    if left is not None and left <= 0:
                        return row
                    await (end if left is None else asyncio.wait((end,), timeout=left))
            finally:
                if not end.done() or end.cancelled():  # who waits was stopped
                    self.forget(item, end)
            item = row.absorbed_by or item
