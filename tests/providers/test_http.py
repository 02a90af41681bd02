"""The transport alone: who may interrupt a read, and what is left behind."""

from __future__ import annotations

import asyncio

import pytest

from palinurus.abort import Abort, Aborted
from palinurus.providers.http import HttpClient, HttpTimeouts, ReadWatchdog, TransportError
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def forever() -> None:
    await asyncio.Event().wait()


async def test_late_is_a_time_out_and_the_task_lives_on() -> None:
    watch = ReadWatchdog(Abort())
    watch.limit(0.02)
    with pytest.raises(TimeoutError):
        await watch.wait(forever())
    assert cancelling() == 0
    watch.close()


async def test_stopped_and_late_at_once_is_stopped() -> None:
    stop = Abort()
    watch = ReadWatchdog(stop)
    watch.limit(0.02)
    asyncio.get_running_loop().call_later(
        0.0, lambda: (setattr(watch, "_since", -1e9), watch._check(), stop.set("user"))
    )
    with pytest.raises(Aborted, match="user"):
        await watch.wait(forever())
    assert cancelling() == 0
    await asyncio.sleep(0)
    watch.close()


async def test_a_real_cancel_passes_through() -> None:
    watch = ReadWatchdog(Abort())
    watch.limit(5)
    task = asyncio.create_task(watch.wait(forever()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    watch.close()


async def test_time_outside_of_reads_does_not_count() -> None:
    watch = ReadWatchdog(Abort())
    watch.limit(0.03)
    await asyncio.sleep(0.08)
    assert await watch.wait(asyncio.sleep(0, "read")) == "read"
    watch.close()


async def test_a_timer_that_fires_early_in_a_read_waits_on() -> None:
    """The timer was set before this read began: what counts is how long the read itself takes."""
    watch = ReadWatchdog(Abort())
    watch.limit(5)
    asyncio.get_running_loop().call_soon(watch._check)
    assert await watch.wait(asyncio.sleep(0.01, "read")) == "read"
    watch.close()


async def test_answers_are_read_and_closed() -> None:
    async with ModelServer(default=say("hi")) as server:
        http = HttpClient()
        for _ in range(2):
            answer = await http.post(
                server.url + "/chat/completions", b'{"stream": true}', {}, HttpTimeouts(2, 2, 2), Abort()
            )
            assert answer.status == 200 and b"hi" in await answer.body(10_000)
            answer.close()
        await http.close()
        await http.close()
    with pytest.raises(TransportError) as caught:
        await HttpClient().post("http:///nowhere", b"", {}, HttpTimeouts(), Abort())
    assert caught.value.kind == "config"
