"""Hooks: order, merging, failing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palinurus.plugins.hooks import Hooks


def test_an_unknown_point_is_refused() -> None:
    with pytest.raises(KeyError):
        Hooks().on("before_everything", lambda p: None)


@pytest.mark.seed(350)
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


@pytest.mark.seed(351)
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


@pytest.mark.parametrize(
    ("point", "answers", "merged"),
    [
        ("before_prompt_build", [{"systemPrompt": "high"}, {"systemPrompt": "low"}], {"systemPrompt": "high"}),
        ("before_model_resolve", [None, {"modelOverride": "a"}, {"modelOverride": "b"}], {"modelOverride": "a"}),
        ("before_prompt_build", [{"prependContext": "a"}, {"prependContext": "b"}], {"prependContext": "a\n\nb"}),
        ("message_sending", [{"content": "a"}, {"content": "b"}], {"content": "b"}),
        ("message_sending", [{"content": "a", "cancel": False}, {"content": None}], {"content": "a"}),
        ("message_sending", [{"cancel": True}, {"content": "b"}], {"cancel": True}),
        ("before_tool_call", [{"block": False}, {"params": {"x": 1}}], {"params": {"x": 1}}),
        (
            "before_tool_call",
            [{"params": 1, "requireApproval": {"title": "a"}}, {"params": 2, "requireApproval": {"title": "b"}}],
            {"params": 1, "requireApproval": {"title": "a"}},
        ),
        ("inbound_claim", [{"handled": False, "reply": "no"}, {"handled": True, "reply": "yes"}, {"reply": "late"}],
         {"handled": True, "reply": "yes"}),
        ("before_agent_run", [{"outcome": "block", "reason": "why"}, {"reason": "late"}],
         {"outcome": "block", "reason": "why", "block": True, "blockReason": "why"}),
        ("message_sending", [{"colour": "red"}, "text", {"content": "x"}], {"content": "x"}),
    ],
)  # fmt: skip
@pytest.mark.seed(350, 352)
async def test_how_answers_become_one(point: str, answers: list[Any], merged: dict[str, Any]) -> None:
    hooks = Hooks()
    for at, answer in reversed(list(enumerate(answers))):  # the order of registration is not what counts
        hooks.on(point, lambda p, answer=answer: answer, priority=-at)
    assert await hooks.modify(point, {}) == merged


@pytest.mark.seed(342)
def test_a_synchronous_point_takes_no_async_handler() -> None:
    hooks = Hooks()

    async def slow(payload: dict[str, Any]) -> dict[str, Any]:
        return {"message": "async"}

    def broken(payload: dict[str, Any]) -> None:
        raise RuntimeError("oops")

    hooks.on("tool_result_persist", slow, priority=3)
    hooks.on("tool_result_persist", broken, priority=2)
    hooks.on("tool_result_persist", lambda p: {"message": p["message"] + "!"}, priority=1)
    hooks.on("tool_result_persist", lambda p: {"message": p["message"] + "?"})
    assert hooks.modify_sync("tool_result_persist", {"message": "hm"}) == {"message": "hm!?"}


@pytest.mark.parametrize(("point", "blocks"), [("before_tool_call", True), ("before_agent_run", True),
                                               ("message_sending", False)])  # fmt: skip
async def test_a_handler_that_is_late_blocks_at_guards_only(point: str, blocks: bool) -> None:
    hooks = Hooks()

    async def never(payload: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    hooks.on(point, never, deadline=0.01)
    changes = await hooks.modify(point, {})
    assert bool(changes.get("block")) is blocks
    assert not blocks or "within 0.01 s" in changes["blockReason"]


@pytest.mark.seed(351)
async def test_a_late_observer_is_ended_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Hooks()

    async def never(payload: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    hooks.on("agent_end", never, deadline=0.01, owner="sleepy")
    hooks.observe("agent_end", {})
    await hooks.drain()
    assert "hook agent_end of sleepy failed" in caplog.text
