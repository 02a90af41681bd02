from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palinurus.testing.signal import FakeSignal


async def test_what_a_broken_connection_could_not_be_told_waits_for_the_next() -> None:
    people, stuck, told = FakeSignal(), asyncio.Event(), list[dict[str, Any]]()

    async def breaks(event: dict[str, Any]) -> None:
        raise OSError

    async def hangs(event: dict[str, Any]) -> None:
        stuck.set()
        await asyncio.get_running_loop().create_future()

    async def hears(event: dict[str, Any]) -> None:
        told.append(event)

    await people.tell({"n": 1})
    with pytest.raises(OSError):
        await people._tell_news(breaks)
    cut = asyncio.ensure_future(people._tell_news(hangs))
    await stuck.wait()
    cut.cancel()
    good = asyncio.ensure_future(people._tell_news(hears))
    await people.tell({"n": 2})
    async with asyncio.timeout(60):
        while len(told) < 2:
            await asyncio.sleep(0)
    good.cancel()
    assert told == [{"n": 1}, {"n": 2}]
