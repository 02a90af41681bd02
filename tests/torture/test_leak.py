"""Twenty thousand messages over two thousand chats in one process that nobody kills: what it holds after the last is
what it held after the first few thousand. Counted in what Python has allocated, which no other program disturbs; what
the system gave for it is told. The small size runs here and now, the whole one under `make torture`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from flow.test_app import running
from palinurus.app import App
from palinurus.testing.channel import FakeChannel
from torture.test_crowd import CONFIG, Parrot, memory

TOGETHER = 20  # chats at a time
EACH = 10  # messages of a chat: then the next twenty begin
MOST = 0.2  # blocks that a message may leave behind: a leak of one object a chat is 0.1 and more
HABITS = ("", "", "", "", "twice", "", "", "steered", "", "stopped")  # by number of a chat's message


class Held(NamedTuple):
    """What the process holds at one moment."""

    messages: int
    blocks: int
    kinds: Counter[str]
    resident: int
    descriptors: int


def look(messages: int, *, whole: bool) -> Held:
    """`whole`: with what there is of each kind. That takes room itself."""
    gc.collect()
    kinds = Counter(type(one).__qualname__ for one in gc.get_objects() if whole)
    return Held(messages, sys.getallocatedblocks(), kinds, memory(), len(os.listdir("/proc/self/fd")))


def fit_slope(points: list[tuple[int, int]]) -> float:
    """How much the second grows with the first (least squares)."""
    x, y = (sum(point[at] for point in points) / len(points) for at in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


class Talk:
    """People who write to a channel and forget what they read."""

    def __init__(self, channel: FakeChannel) -> None:
        self.channel = channel
        self.app: App | None = None

    async def say(self, number: int) -> None:
        round_, chat = divmod(number, TOGETHER)
        name, habit = f"chat{round_ // EACH * TOGETHER + chat}", HABITS[round_ % len(HABITS)]
        again = [number] * (2 if habit == "twice" else 1)
        idents = [await self._tell(name, f"message #{number}", f"e{each}") for each in again]
        if habit == "steered":
            idents.append(await self._tell(name, f"also #{number}", f"s{number}"))
        if habit == "stopped":
            idents.append(await self._tell(name, "/stop", f"x{number}"))
        assert self.app is not None
        for ident in idents:
            await self.app.wait(ident)

    async def _tell(self, chat: str, text: str, event: str) -> str:
        (ident,) = await self.channel.receive(text, event=event, sender=chat, to=chat)
        return ident

    def forget(self) -> None:
        for kept in (self.channel.seen, self.channel.sends, self.channel.acts, self.channel.accepted):
            kept.clear()


async def hold(home: Path, messages: int, looks: int) -> list[Held]:
    channel = FakeChannel()
    talk, found = Talk(channel), []
    agents = {"defaults": {"model": {"primary": "fake/m"}, "maxConcurrent": 8}}
    async with running(home, Parrot(0.0), channel, **CONFIG, agents=agents) as app:
        talk.app = app
        for begun in range(0, messages, TOGETHER):
            await asyncio.gather(*(talk.say(number) for number in range(begun, begun + TOGETHER)))
            talk.forget()
            done = begun + TOGETHER
            if done % (messages // looks) == 0:
                found.append(look(done, whole=len(found) in (looks // 4, looks - 1)))
                print(done, found[-1].blocks, "blocks", found[-1].resident >> 10, "KB", flush=True)
    return found


def tell_growth(found: list[Held]) -> Iterator[str]:
    """What grew with the messages, after a quarter of them. Caches with a limit fill and are emptied: the least of each
    half is compared."""
    warm = found[len(found) // 4 :]
    first, last = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    came = last[0].messages - first[0].messages
    blocks, resident = (
        (min(one[at] for one in last) - min(one[at] for one in first)) / came
        for at in (Held._fields.index("blocks"), Held._fields.index("resident"))
    )
    print(f"a message leaves {blocks:.3f} blocks behind, {resident:.0f} bytes of the system's")
    if blocks > MOST:
        yield f"{blocks:.2f} blocks a message: {(warm[-1].kinds - warm[0].kinds).most_common(8)}"
    if warm[-1].descriptors > warm[0].descriptors + 2:
        yield f"descriptors: {warm[0].descriptors} -> {warm[-1].descriptors}"


@pytest.mark.torture
async def test_twenty_thousand_messages_leave_nothing_behind(tmp_path: Path) -> None:
    assert [*tell_growth(await hold(tmp_path / "h", 20_000, 20))] == []


def test_a_leak_is_told() -> None:
    def held(messages: int, blocks: int, files: int = 9) -> Held:
        return Held(messages, blocks, Counter(Entry=blocks), 0, files)

    flat = [held(n, 1_000 + n % 2) for n in range(0, 8_000, 1_000)]
    assert [*tell_growth(flat)] == []
    (said,) = tell_growth([held(n, 1_000 + n) for n in range(0, 8_000, 1_000)])
    assert said.startswith("1.00 blocks a message: [('Entry', ")
    assert len([*tell_growth([*flat[:-1], held(8_000, 1_000, files=40)])]) == 1
