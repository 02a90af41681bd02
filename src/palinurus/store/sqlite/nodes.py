"""The nodes that share one opened state in this process: who runs which message, who does what alone, which sessions
are held, who hears of what. In memory: with the process all of them are gone.

One App is one node, and then nothing here costs anything. Called on the loop's thread, `held` from the writer's too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from palinurus.clock import Clock
from palinurus.store.news import NewsListener, StoreNews, hand_news


class StoreNodes:
    """Nodes are numbered from 0; the first is whoever opened the state."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next = 0
        self._listeners: dict[int, list[NewsListener]] = {}  # of the nodes there are now
        self._grants: dict[str, int] = {}
        self._runs: dict[str, int] = {}  # messages by whom they run
        self._holds: dict[str, float] = {}  # sessions that are held, until when (monotonic)

    @property
    def several(self) -> bool:
        """Is there anybody who could hear news?"""
        return len(self._listeners) > 1

    def join(self) -> int:
        """One more. Returns its number."""
        number, self._next = self._next, self._next + 1
        self._listeners[number] = []
        return number

    def leave(self, node: int) -> bool:
        """It is gone. True if it was the last."""
        del self._listeners[node]
        given = [name for name, holder in self._grants.items() if holder == node]
        for name in given:
            del self._grants[name]
        self._runs = {item: runner for item, runner in self._runs.items() if runner != node}
        self.tell([(node, StoreNews("released", name)) for name in given])
        return not self._listeners

    def grant(self, node: int, name: str) -> bool:
        return self._grants.setdefault(name, node) == node

    def give_up(self, node: int, name: str) -> None:
        if self._grants.get(name) == node:
            del self._grants[name]
            self.tell([(node, StoreNews("released", name))])

    def note_runs(self, node: int, items: Iterable[str]) -> None:
        """It has claimed these."""
        if self.several:
            self._runs.update(dict.fromkeys(items, node))

    def list_foreign(self, node: int) -> frozenset[str]:
        """Messages that others claimed. Some of them have ended."""
        return frozenset(item for item, runner in self._runs.items() if runner != node)

    def hold(self, session: str, seconds: float) -> None:
        self._holds.pop(session, None)
        if seconds > 0:
            self._holds[session] = self._clock.monotonic() + seconds

    def list_held(self) -> list[str]:
        """Sessions of which nothing may be claimed now."""
        if not self._holds:
            return []
        now = self._clock.monotonic()
        self._holds = {session: until for session, until in self._holds.items() if until > now}
        return list(self._holds)

    def watch(self, node: int, listener: NewsListener) -> Callable[[], None]:
        heard = self._listeners[node]
        heard.append(listener)
        return lambda: heard.remove(listener) if listener in heard else None

    def tell(self, news: Iterable[tuple[int, StoreNews]]) -> None:
        """Hand news to everybody but those who made them."""
        for by, one in news:
            if one.what in ("ended", "queued"):
                self._runs.pop(one.key, None)
            for node, listeners in self._listeners.items():
                for listener in tuple(listeners) if node != by else ():
                    hand_news(listener, one)
