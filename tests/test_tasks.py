"""Tasks that are kept, logged and ended together."""

from __future__ import annotations

import asyncio
import threading

import pytest

from palinurus.tasks import TaskSet, finish_in_thread


async def test_what_is_started_ends_and_is_forgotten() -> None:
    tasks, done = TaskSet(), []

    async def work(name: str) -> None:
        await asyncio.sleep(0)
        done.append(name)
        if name == "one":
            tasks.start(work("two"))

    tasks.start(work("one"))
    await tasks.settle()
    assert done == ["one", "two"] and not len(tasks)


async def test_what_breaks_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSet("a test's work")

    async def broken() -> None:
        raise ValueError("boom")

    tasks.start(broken())
    await tasks.settle()
    assert "a test's work failed" in caplog.text and "boom" in caplog.text


async def test_close_cancels_and_waits_for_the_end() -> None:
    tasks, ended = TaskSet(), asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    tasks.start(endless())
    await asyncio.sleep(0)
    await tasks.close()
    assert ended.is_set() and not len(tasks)


async def test_who_is_cancelled_waits_for_a_thread_that_changes_something() -> None:
    go, done = threading.Event(), []

    def change(word: str) -> None:
        go.wait(60)
        done.append(word)

    task = asyncio.ensure_future(finish_in_thread(change, "written"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["written"]
    assert await finish_in_thread(len, "four") == 4
