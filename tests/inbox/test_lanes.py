"""Slots by lane."""

from __future__ import annotations

from palinurus.inbox.lanes import Lanes


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
