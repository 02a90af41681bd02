"""Slots by lane."""

from __future__ import annotations

import asyncio
from pathlib import Path

from palinurus.clock import SystemClock
from palinurus.inbox.lanes import LanePump, Lanes
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, RunClaim


def test_caps_are_per_lane() -> None:
    lanes = Lanes({"main": 2, "subagent": 1})
    assert [lanes.take("main") for _ in range(3)] == [True, True, False]
    assert [lanes.take("subagent") for _ in range(2)] == [True, False]
    assert [lanes.take("other") for _ in range(2)] == [True, False]
    lanes.give("main")
    assert lanes.take("main") and not lanes.take("main")
    assert lanes.busy == {"main": 2, "subagent": 1, "other": 1}


def test_backlog_never_goes_below_zero() -> None:
    lanes = Lanes({})
    lanes.add_backlog("main")
    lanes.add_backlog("main", -1)
    lanes.add_backlog("main", -1)
    assert lanes.backlog("main") == 0


async def test_what_may_start_starts_though_the_store_was_told_to_hold_its_session(tmp_path: Path) -> None:
    """A message that is to be collected came just before another of its session began: who is next need not wait."""
    store, lanes = await open_store(str(tmp_path / "h"), SystemClock()), Lanes({"main": 1})
    started: asyncio.Future[RunClaim] = asyncio.get_running_loop().create_future()
    pump = LanePump(store, lanes, started.set_result)
    try:
        pump.note_held("s")
        await store.accept(InboxItem("m1", "d1", "s", "main", b"", 0), claim=False, hold=600.0)
        lanes.add_backlog("main")
        pump.free("s")  # the other one begins, and ends
        pump.hold("s", "main", 0.0)
        assert (await asyncio.wait_for(started, 60)).id == "m1"
    finally:
        pump.stop()
        await store.close()
