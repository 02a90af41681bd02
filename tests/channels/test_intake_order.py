"""One after another per key, side by side otherwise."""

from __future__ import annotations

import asyncio

from palinurus.channels.intake import ChatOrder
from palinurus.testing.clock import run_ready_tasks


async def test_turns_of_a_key_come_in_the_order_they_were_asked_for_and_keys_do_not_wait_for_each_other() -> None:
    order, done, gates = ChatOrder(), list[str](), {name: asyncio.Event() for name in ("a1", "a2", "b1")}

    async def work(name: str) -> None:
        async with order.turn(name[0]):
            await gates[name].wait()
            done.append(name)

    tasks = [asyncio.ensure_future(work(name)) for name in gates]
    gates["a2"].set()
    gates["b1"].set()
    await run_ready_tasks()
    assert done == ["b1"] and len(order) == 1
    gates["a1"].set()
    await asyncio.gather(*tasks)
    assert done == ["b1", "a1", "a2"] and len(order) == 0


async def test_one_that_fails_or_is_cancelled_holds_nobody_up() -> None:
    order, done = ChatOrder(), list[str]()

    async def work(name: str, fault: BaseException | None = None) -> None:
        async with order.turn("k"):
            if fault is not None:
                raise fault
            await asyncio.Event().wait() if name == "stuck" else None
            done.append(name)

    stuck = asyncio.ensure_future(work("stuck"))
    others = [asyncio.ensure_future(work("bad", ValueError())), asyncio.ensure_future(work("good"))]
    await run_ready_tasks()
    stuck.cancel()
    await asyncio.gather(stuck, *others, return_exceptions=True)
    assert done == ["good"] and len(order) == 0
