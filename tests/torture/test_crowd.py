"""Very many messages: into one chat, and over a thousand. Every one gets an end, order is kept, memory stays flat, and
who writes elsewhere hardly notices. The small size runs here and now, the whole one under `make torture`.
"""

from __future__ import annotations

import asyncio
import re
import resource
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flow.test_app import running, until
from palinurus.abort import Abort
from palinurus.app import App
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.core.types.model import ModelEvent, ModelRequest, StreamDone, TextDelta
from palinurus.errors import QueueFull
from palinurus.testing.channel import FakeChannel

THINKS = 0.25  # seconds a model takes for its answer: fast, for a model
SUMMARY = "The user sends a numbered message, then another message; every message was read by number. " * 4
DROPPED = re.compile(r"Dropped (\d+) message")
NUMBER = re.compile(r"#(\d+)")
MODEL = {"id": "m", "contextWindow": 32_000, "maxTokens": 1_000}
CONFIG: dict[str, Any] = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [MODEL]}}},
    "session": {"dmScope": "per-channel-peer"},
}


class Parrot:
    """Implements `Model`: says the number of the last message it was shown, and remembers no request."""

    def __init__(self, thinks: float) -> None:
        self.thinks = thinks
        self.asked = 0
        self.dropped: dict[str, int] = {}  # messages it was told of that nobody read, by the notice

    async def stream(self, request: ModelRequest, stop: Abort) -> AsyncIterator[ModelEvent]:
        self.asked += 1
        await asyncio.sleep(self.thinks)
        said = [m.text for m in request.messages if isinstance(m, UserMessage)]
        for text in said:
            if found := DROPPED.search(text):
                self.dropped[text] = int(found[1])
        numbers = NUMBER.findall(said[-1].rpartition("\n")[2])
        text = f"read #{numbers[-1]}" if numbers else SUMMARY
        yield TextDelta(text)
        model = request.model
        yield StreamDone(
            AssistantMessage((TextBlock(text),), model.api, model.ref.provider, model.ref.model, stopReason="stop")
        )

    async def close(self) -> None:
        pass


class Crowd:
    """People on a channel. `tell` gives a message to the program as a platform does: again until it is taken."""

    def __init__(self, app: App, channel: FakeChannel) -> None:
        self.app, self.channel = app, channel
        self.ids: dict[int, str] = {}
        self.waited = 0  # times a platform was told to try later

    async def tell(self, number: int, chat: str) -> str:
        while True:
            try:
                (ident,) = await self.channel.receive(f"message #{number}", event=f"e{number}", sender=chat, to=chat)
                self.ids[number] = ident
                return ident
            except QueueFull:
                self.waited += 1
                await asyncio.sleep(0.02)

    async def answered(self, number: int, chat: str) -> float:
        """Seconds until this person read the answer."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        await self.tell(number, chat)
        await until(lambda: any(s.to == chat and s.text == f"read #{number}" for s in self.channel.seen[-200:]), 60)
        return clock() - begun

    async def ends(self) -> Counter[str]:
        """How each message ended, once it did."""
        ends: Counter[str] = Counter()
        for ident in self.ids.values():
            await self.app.wait(ident)
            row = await self.app.store.item(ident)
            assert row is not None
            ends[row.outcome or row.state] += 1
            if row.outcome == "failed":
                print(row.note[-300:])
        return ends


class Figures(NamedTuple):
    ends: Counter[str]
    seen: list[tuple[str, int]]  # (chat, number) in the order people read them
    growth: float  # memory at the end to memory after a fifth
    quiet: float  # p95 of another chat before
    loud: float  # … and meanwhile
    told: int  # dropped messages the model was told of
    waited: int


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)] if times else 0.0


def memory() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Load(NamedTuple):
    """So many messages over so many chats. `half`: as many a second as half of what this machine can answer, so that
    nobody waits for want of a processor; else as fast as they are taken."""

    messages: int
    chats: int
    half: bool = False


async def capacity(people: Crowd, thinks: float, count: int = 200) -> float:
    """Answers a second, with as many at a time as there are."""
    clock = asyncio.get_running_loop().time
    begun, numbers = clock(), range(3 * 10**6, 3 * 10**6 + count)
    await asyncio.gather(*(people.answered(number, f"warm{number}") for number in numbers))
    return count / max(clock() - begun - thinks, 0.01)


async def crowd(home: Path, load: Load, *, thinks: float, probes: int, slots: int) -> Figures:
    count, chats, half = load
    model, channel = Parrot(thinks), FakeChannel()
    agents = {"defaults": {"model": {"primary": "fake/m"}, "maxConcurrent": slots}}
    async with running(home, model, channel, **CONFIG, agents=agents) as app:
        people, marks = Crowd(app, channel), [0]

        async def flood(part: int, parts: int) -> None:
            for number in (n for n in range(count) if n % chats % parts == part):
                if pace:
                    await asyncio.sleep(max(0.0, begun + number / pace - clock()))
                await people.tell(number, f"chat{number % chats}")
                if number == count // 5:
                    marks[0] = memory()

        pace, clock = (await capacity(people, thinks) / 2 if half else 0.0), asyncio.get_running_loop().time
        quiet = [await people.answered(10**6 + n, "friend") for n in range(probes)]
        begun = clock()
        floods = [asyncio.ensure_future(flood(part, min(chats, 8))) for part in range(min(chats, 8))]
        loud: list[float] = []
        while not all(task.done() for task in floods):
            if len(loud) < probes:
                loud.append(await people.answered(2 * 10**6 + len(loud), "friend"))
            else:
                await asyncio.sleep(0.05)
        await asyncio.gather(*floods)
        ends = await people.ends()
        shown = -1
        while shown != len(channel.seen):  # what is in the outbox arrives
            shown = len(channel.seen)
            await asyncio.sleep(0.3)
        growth = memory() / marks[0]
    numbers = [(s.to, int(number)) for s in channel.seen for number in NUMBER.findall(s.text)]
    told = sum(model.dropped.values())
    return Figures(ends, numbers, growth, p95(quiet), p95(loud), told, people.waited)


def in_order(seen: list[tuple[str, int]]) -> bool:
    last: dict[str, int] = {}
    for chat, number in seen:
        if number <= last.get(chat, -1):
            return False
        last[chat] = number
    return True


def check(found: Figures, count: int, chats: int, probes: int) -> None:
    print(found._replace(seen=[]))
    assert sum(found.ends.values()) == count + len([n for _, n in found.seen if n >= 10**6])
    assert set(found.ends) <= {"answered", "absorbed", "refused"}
    assert found.told >= found.ends["refused"]  # each that was dropped is in a notice
    assert in_order(found.seen)
    last = dict(found.seen)  # the newest of each chat was read
    assert {chat: last[chat] for chat in last if chat.startswith("chat")} == {
        f"chat{n % chats}": n for n in range(count - chats, count)
    }


async def test_three_hundred_in_one_chat(tmp_path: Path) -> None:
    found = await crowd(tmp_path / "h", Load(300, 1), thinks=0.02, probes=2, slots=4)
    check(found, 300, 1, 2)


async def test_three_hundred_over_thirty_chats(tmp_path: Path) -> None:
    found = await crowd(tmp_path / "h", Load(300, 30), thinks=0.02, probes=2, slots=4)
    check(found, 300, 30, 2)


@pytest.mark.torture
async def test_ten_thousand_in_one_chat(tmp_path: Path) -> None:
    found = await crowd(tmp_path / "h", Load(10_000, 1), thinks=THINKS, probes=30, slots=4)
    check(found, 10_000, 1, 30)
    assert sum(chat == "chat0" for chat, _ in found.seen) > 50  # who floods is answered all the while
    assert found.growth < 1.5
    assert found.loud < 2 * found.quiet


@pytest.mark.torture
async def test_ten_thousand_over_a_thousand_chats(tmp_path: Path) -> None:
    found = await crowd(tmp_path / "h", Load(10_000, 1_000, half=True), thinks=THINKS, probes=30, slots=1_100)
    check(found, 10_000, 1_000, 30)
    assert found.growth < 1.5
    assert found.loud < 2 * found.quiet
