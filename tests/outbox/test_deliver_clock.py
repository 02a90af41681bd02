"""Delivery while the wall clock is set: nothing is given up early, no chat waits longer than it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from palinurus.agent.settle import to_outgoing_rows
from palinurus.clock import SystemClock
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.outbox.deliver import Deliverer
from palinurus.plugins.hooks import Hooks
from palinurus.store.factory import open_store
from palinurus.store.port import Store
from palinurus.testing.channel import FakeChannel

HOUR = 3_600_000


class SetClock(SystemClock):
    """The wall clock can be set; the other one runs on."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


@asynccontextmanager
async def delivering(home: Path, channel: FakeChannel, clock: SetClock) -> AsyncIterator[tuple[Store, Deliverer]]:
    store = await open_store(str(home), clock)
    deliverer = Deliverer(store, {"fake": channel}, Hooks(), clock)
    deliverer.start()
    try:
        yield store, deliverer
    finally:
        await deliverer.stop()
        await store.close()


async def say(store: Store, deliverer: Deliverer, clock: SetClock, *texts: str) -> None:
    rows = [
        row
        for n, text in enumerate(texts)
        for row in to_outgoing_rows([Reply(Target("fake", "chat"), text, f"item.{n}")], "item", clock.now())
    ]
    await store.post_replies(rows)
    deliverer.wake("fake")


async def until(store: Store, state: str, ident: str = "item.0") -> None:
    async with asyncio.timeout(60):
        while (row := await store.reply(ident)) is None or row.state != state or (state == "pending" and not row.error):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("hours", [25, -2])
async def test_a_clock_that_is_set_neither_gives_up_nor_holds_a_reply(tmp_path: Path, hours: int) -> None:
    """Failed once, due again in a second: that second is counted by the clock that nobody sets."""
    channel, clock = FakeChannel(), SetClock()
    channel.faults = ["down"]
    async with delivering(tmp_path, channel, clock) as (store, deliverer):
        await say(store, deliverer, clock, "one", "two")
        await until(store, "pending")
        clock.ahead = hours * HOUR
        deliverer.wake("fake")
        await until(store, "sent", "item.1")
    assert channel.texts == ["one", "two"]


async def test_a_start_with_a_clock_a_year_ahead_tries_what_waits(tmp_path: Path) -> None:
    channel, clock = FakeChannel(), SetClock()
    channel.faults = ["down"]
    async with delivering(tmp_path, channel, clock) as (store, deliverer):
        await say(store, deliverer, clock, "one")
        await until(store, "pending")
    clock.ahead = 365 * 24 * HOUR
    async with delivering(tmp_path, channel, clock) as (store, deliverer):
        await until(store, "sent")
    assert channel.texts == ["one"]
