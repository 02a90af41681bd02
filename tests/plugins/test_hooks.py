"""Hooks: order, merging, failing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palinurus.plugins.hooks import Hooks
from palinurus.plugins.points import POINTS


def test_the_seeds_points_exist() -> None:
    assert len(POINTS) >= 15


def test_an_unknown_point_is_refused() -> None:
    with pytest.raises(KeyError):
        Hooks().on("before_everything", lambda p: None)


async def test_modifying_hooks_run_by_priority_and_see_earlier_changes() -> None:
    hooks = Hooks()
    seen: list[Any] = []
    hooks.on("message_sending", lambda p: seen.append(p["content"]) or {"content": p["content"] + "b"}, priority=1)
    hooks.on("message_sending", lambda p: {"content": p["content"] + "a"}, priority=5)

    async def last(payload: dict[str, Any]) -> dict[str, Any]:
        return {"content": payload["content"] + "c"}

    hooks.on("message_sending", last)
    assert await hooks.modify("message_sending", {"content": "-"}) == {"content": "-abc"}
    assert seen == ["-a"]


async def test_a_block_is_final() -> None:
    hooks = Hooks()
    called: list[int] = []
    hooks.on("before_tool_call", lambda p: {"block": True, "blockReason": "no"}, priority=1)
    hooks.on("before_tool_call", lambda p: called.append(1))
    assert await hooks.modify("before_tool_call", {}) == {"block": True, "blockReason": "no"}
    assert not called


async def test_a_guard_that_fails_blocks_and_another_is_skipped() -> None:
    def broken(payload: dict[str, Any]) -> None:
        raise RuntimeError("oops")

    hooks = Hooks()
    hooks.on("before_tool_call", broken)
    hooks.on("message_sending", broken, priority=1)
    hooks.on("message_sending", lambda p: {"content": "x"})
    assert (await hooks.modify("before_tool_call", {}))["block"] is True
    assert await hooks.modify("message_sending", {"content": "y"}) == {"content": "x"}


async def test_observers_run_beside_and_their_failures_stay_theirs() -> None:
    hooks = Hooks()
    seen: list[str] = []
    gate = asyncio.Event()

    async def slow(payload: dict[str, Any]) -> None:
        await gate.wait()
        seen.append("slow")

    def broken(payload: dict[str, Any]) -> None:
        raise RuntimeError("oops")

    hooks.on("agent_end", slow)
    hooks.on("agent_end", broken)
    hooks.on("agent_end", lambda p: seen.append("quick"))
    hooks.observe("agent_end", {})
    assert seen == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == ["quick"]
    gate.set()
    await hooks.drain()
    assert seen == ["quick", "slow"]
