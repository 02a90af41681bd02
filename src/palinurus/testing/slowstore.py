"""A store that takes its time, as a database elsewhere does: reads begin late, and whoever changes something hears that
it is done after others could see it. What depends on a read that never gives up the loop, or on being the first to
know, breaks on it; the delays are drawn from a seed, so what broke breaks again.

    app.open_store = open_slow_store(seed=7)

And one that several Apps share: what believes it is alone breaks on that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Protocol, cast

from palinurus.clock import Clock
from palinurus.store.factory import StoreOpener, open_store
from palinurus.store.port import Store

READS = frozenset(
    """find get_record item list_due_replies list_records list_running list_usage list_waiting
    read_tail reply session sessions trace""".split()
)


class SlowStore:
    """Every read of `store` waits for up to `longest` seconds first, and every change that long at its end, some of
    them not at all. Changes begin at once: their order is that of the calls."""

    def __init__(self, store: Store, seed: int = 0, longest: float = 0.01) -> None:
        self._store = store
        self._seed = seed
        self._chance = random.Random(seed)
        self._longest = longest
        self.reads = 0

    def share(self) -> Store:
        """A handle of one more node, as slow."""
        return slow_down(share_store(self._store), self._seed + 1, self._longest)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in READS:
            return self._read_late(found)
        return self._tell_late(found) if iscoroutinefunction(found) and name != "close" else found

    def _read_late(self, read: Callable[..., Any]) -> Callable[..., Any]:
        async def wait_and_read(*args: Any, **more: Any) -> Any:
            self.reads += 1
            await self._wait()
            return await read(*args, **more)

        return wait_and_read

    def _tell_late(self, change: Callable[..., Any]) -> Callable[..., Any]:
        async def change_and_wait(*args: Any, **more: Any) -> Any:
            try:
                return await change(*args, **more)
            finally:
                await self._wait()

        return change_and_wait

    async def _wait(self) -> None:
        if self._chance.random() < 0.8:
            await asyncio.sleep(self._chance.random() * self._longest)


def slow_down(store: Store, seed: int = 0, longest: float = 0.01) -> Store:
    """The same store, with slow reads."""
    return cast("Store", SlowStore(store, seed, longest))


class _Shareable(Protocol):
    def share(self) -> Store: ...


def share_store(store: Store) -> Store:
    """A handle of one more node on the state that `store` has opened."""
    return cast("_Shareable", store).share()


class SharedStates:
    """Several Apps in one process, each a node, on one state: whoever comes first opens it.

    shared = SharedStates()
    for app in (one, two):
        app.open_store = shared.open
    """

    def __init__(self, opener: StoreOpener = open_store) -> None:
        self._opener = opener
        self._opened: dict[str, Store] = {}

    async def open(self, home: str, clock: Clock) -> Store:
        """As `store.factory.open_store`."""
        if home in self._opened:
            return share_store(self._opened[home])
        self._opened[home] = await self._opener(home, clock)
        return self._opened[home]


def open_slow_store(seed: int = 0, longest: float = 0.01) -> StoreOpener:
    """Opens a state directory as the program does, with slow reads."""

    async def open_slowly(home: str, clock: Clock) -> Store:
        return slow_down(await open_store(home, clock), seed, longest)

    return open_slowly
