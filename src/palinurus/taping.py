"""What a run reads of the world (time, chance, what plugins answer and files say) goes through its lane, where it has
one: so that it can be written down, and served again (`agent/tapes`). Without a lane nothing happens here but a look.

A lane belongs to one task. What others do meanwhile in copies of its context is not the run's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from palinurus.clock import Clock

T = TypeVar("T")


class TapeLane(Protocol):
    """One strand of a run: the run itself, or one of its tool calls."""

    task: object  # whose it is
    plays: bool  # what it is asked comes from a tape: nobody else hears of it

    def read(self, kind: str, make: Callable[[], T], /) -> T:
        """A small value: a reading of the clock, an id."""
        ...

    async def ask(self, name: str, make: Callable[[], Awaitable[T]], form: object, /) -> T:
        """What something outside says. `form` is the type to read it back as."""
        ...

    def ask_now(self, name: str, make: Callable[[], T], form: object, /) -> T:
        """As `ask`, where nothing may wait."""
        ...

    async def sleep(self, seconds: float, clock: Clock, /) -> None: ...


_LANE: ContextVar[TapeLane | None] = ContextVar("lane", default=None)


def find_lane() -> TapeLane | None:
    """The lane of what runs now; None: it has none."""
    lane = _LANE.get()
    if lane is None:
        return None
    try:
        return lane if asyncio.current_task() is lane.task else None
    except RuntimeError:  # a thread
        return None


@contextmanager
def use_lane(lane: TapeLane | None) -> Iterator[None]:
    """For what runs inside; None: what it reads is nobody's business."""
    if lane is not None:
        lane.task = asyncio.current_task()
    token = _LANE.set(lane)
    try:
        yield
    finally:
        _LANE.reset(token)


def read_taped(kind: str, make: Callable[[], T]) -> T:
    """A reading, by way of the lane."""
    return make() if _LANE.get() is None or (lane := find_lane()) is None else lane.read(kind, make)


def draw_token(size: int) -> str:
    """So many bytes of chance, as hexadecimal digits."""
    if _LANE.get() is None:
        return os.urandom(size).hex()
    return read_taped("id", lambda: os.urandom(size).hex())


async def ask_taped(name: str, make: Callable[[], Awaitable[T]], form: object) -> T:
    """What the world says, by way of the lane."""
    return await make() if (lane := find_lane()) is None else await lane.ask(name, make, form)


def ask_taped_now(name: str, make: Callable[[], T], form: object) -> T:
    """The same at once."""
    return make() if (lane := find_lane()) is None else lane.ask_now(name, make, form)


class TapedClock:
    """The clock of runs. Implements `Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> int:
        return self._clock.now() if _LANE.get() is None else read_taped("now", self._clock.now)

    def monotonic(self) -> float:
        return self._clock.monotonic() if _LANE.get() is None else read_taped("mono", self._clock.monotonic)

    def boottime(self) -> float:
        return self._clock.boottime()

    async def sleep(self, seconds: float) -> None:
        if (lane := find_lane()) is None:
            await self._clock.sleep(seconds)
        else:
            await lane.sleep(seconds, self._clock)
