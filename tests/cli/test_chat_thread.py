from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from palinurus.cli.chat import LoopThread


async def numbers(fail: bool = False) -> AsyncIterator[int]:
    for number in range(3):
        await asyncio.sleep(0)
        yield number
    if fail:
        raise ValueError("broken")


def test_results_items_and_errors_cross_the_threads() -> None:
    worker = LoopThread()
    try:
        assert worker.call(asyncio.sleep(0, "done")) == "done"
        assert list(worker.each(numbers())) == [0, 1, 2]
        found = worker.each(numbers(fail=True))
        assert [next(found), next(found), next(found)] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(ValueError, match="broken"):
                next(found)
    finally:
        worker.close()
