import asyncio

import pytest

from palinurus.testing.clock import FakeClock


async def test_sleepers_wake_in_order_of_time_at_their_own_time():
    clock = FakeClock(1_000)
    woken = []

    async def nap(name, *seconds):
        for wait in seconds:
            await clock.sleep(wait)
            woken.append((name, clock.now()))

    tasks = [asyncio.create_task(nap("slow", 3)), asyncio.create_task(nap("twice", 1, 1))]
    await clock.advance(2.5)
    assert woken == [("twice", 2_000), ("twice", 3_000)]
    await clock.advance(0.5)
    assert woken[-1] == ("slow", 4_000)
    await asyncio.gather(*tasks)
    assert clock.slept == [3, 1, 1]


async def test_time_stands_still_until_it_is_moved():
    clock = FakeClock(5)
    task = asyncio.create_task(clock.sleep(0.001))
    await clock.until_sleeping()
    assert (clock.now(), clock.sleeper_count, task.done()) == (5, 1, False)
    await clock.advance(1)
    assert task.done() and clock.monotonic() == FakeClock().monotonic() + 1


async def test_jump_moves_the_wall_clock_only():
    clock = FakeClock(100_000)
    before = clock.monotonic()
    clock.jump(-50)
    assert (clock.now(), clock.monotonic()) == (50_000, before)


async def test_a_cancelled_sleeper_does_not_block_the_others():
    clock = FakeClock()
    gone, stays = asyncio.create_task(clock.sleep(1)), asyncio.create_task(clock.sleep(2))
    await clock.until_sleeping(2)
    gone.cancel()
    await clock.advance(2)
    assert stays.done()
    with pytest.raises(TimeoutError):
        await clock.until_sleeping(1, turns=5)
