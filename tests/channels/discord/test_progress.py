"""How far we have read, and the order of work."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.discord.progress import MOST, DiscordLanes, DiscordReadMark


@given(st.lists(st.integers(min_value=1, max_value=50), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_floor_never_passes_what_is_open(ids: list[int], chance: object) -> None:
    floor, under_way, done = DiscordReadMark(), [], 0
    for ident in ids:
        floor.begin(ident)
        under_way.append(ident)
    while under_way:
        assert floor.value < min(under_way)
        ident = under_way.pop(chance.randrange(len(under_way)))  # type: ignore[attr-defined]
        floor.end(ident)
        done = max(done, ident)
    assert floor.value == done


async def test_one_chat_goes_in_order_and_others_do_not_wait() -> None:
    lanes, gate, diary = DiscordLanes(), asyncio.Event(), []

    def work(name: str, wait: bool = False) -> object:
        async def do() -> None:
            if wait:
                await gate.wait()
            diary.append(name)

        return do

    lanes.put("a", work("a1", wait=True))  # type: ignore[arg-type]
    lanes.put("a", work("a2"))  # type: ignore[arg-type]
    lanes.put("b", work("b1"))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    assert diary == ["b1"]
    gate.set()
    await asyncio.sleep(0.01)
    assert diary == ["b1", "a1", "a2"]


async def test_work_that_fails_stops_nothing_and_counts_as_done() -> None:
    lanes, diary = DiscordLanes(), []

    async def bad() -> None:
        raise ValueError("no such thing")

    async def then() -> None:
        diary.append("then")

    async def good() -> None:
        diary.append("good")

    lanes.put("a", bad, then)
    lanes.put("a", good)
    await asyncio.sleep(0.01)
    assert diary == ["then", "good"]


async def test_there_is_room_until_there_is_too_much() -> None:
    lanes, gate = DiscordLanes(), asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    for number in range(MOST):
        lanes.put(str(number), wait)
    full = asyncio.ensure_future(lanes.wait_for_room())
    await asyncio.sleep(0.01)
    assert not full.done()
    gate.set()
    await asyncio.wait_for(full, 60)


async def test_what_is_stopped_was_not_done() -> None:
    lanes, diary = DiscordLanes(), []

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    async def then() -> None:
        diary.append("then")

    lanes.put("a", wait, then)
    lanes.put("a", wait, then)
    await asyncio.sleep(0)
    await lanes.stop()
    assert diary == []
