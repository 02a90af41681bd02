"""The one door: hooks in their place, errors as results, cancellation through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from palinurus.core.types.approval import ApprovalAnswer
from palinurus.core.types.messages import TextBlock, ToolCall
from palinurus.core.types.tool import Tool, ToolFailure, ToolOutput, make_output
from palinurus.errors import StateBroken
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.collect import make_builtin_tools

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "tag": {"type": "string"}},
    "required": ["n"],
}


def tool(run: Callable[..., Awaitable[Any]], name: str = "count") -> dict[str, Tool]:
    return {name: Tool(name, "", SCHEMA, run)}


class Spy:
    """A tool that keeps what it was given."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def __call__(self, ctx: Any, **args: Any) -> ToolOutput:
        self.calls.append(args)
        return make_output("done", {"n": args["n"]})


async def test_a_good_call(ctx: Any) -> None:
    spy = Spy()
    result = await call_tool(ToolCall("id7", "count", {"n": "5"}), tool(spy), ctx, Hooks())
    assert spy.calls == [{"n": 5}]
    assert (result.toolCallId, result.toolName, result.text, result.isError) == ("id7", "count", "done", False)
    assert result.details == {"n": 5}
    assert result.timestamp == 1234


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raed", "Tool raed not found. Did you mean read"),
        ("Exec", "Did you mean exec"),
        ("zzz", "Available: apply_patch, edit, exec, find, grep, ls, process, read, update_plan, write."),
        ("", "Tool (no name) not found."),
        ("x" * 5000, "Tool " + "x" * 64 + " not found."),
    ],
)
async def test_unknown_tools(ctx: Any, name: str, says: str) -> None:
    result = await call_tool(ToolCall("1", name, {}), make_builtin_tools(), ctx, Hooks())
    assert result.isError
    assert says in result.text


async def test_no_tools_at_all(ctx: Any) -> None:
    assert "No tools are available" in (await call_tool(ToolCall("1", "read", {}), {}, ctx, Hooks())).text


async def test_unreadable_arguments_are_not_run(ctx: Any) -> None:
    spy = Spy()
    bad = ToolCall("1", "count", {}, invalid="unexpected end of data")
    result = await call_tool(bad, tool(spy), ctx, Hooks())
    assert result.isError and "unexpected end of data" in result.text and "valid JSON" in result.text
    assert spy.calls == []


async def test_wrong_arguments_are_answered_with_what_was_expected(ctx: Any) -> None:
    spy = Spy()
    result = await call_tool(ToolCall("1", "count", {"n": "many"}), tool(spy), ctx, Hooks())
    assert result.isError and spy.calls == []
    assert result.text.startswith("Invalid arguments for count: n: expected an integer")
    assert '{"n": 1}' in result.text


async def test_failures_and_crashes_are_results(ctx: Any) -> None:
    async def fails(ctx: Any, **_: Any) -> ToolOutput:
        raise ToolFailure("no such thing")

    async def crashes(ctx: Any, **_: Any) -> ToolOutput:
        raise KeyError("x")

    async def bottomless(ctx: Any, **_: Any) -> ToolOutput:
        raise RecursionError("maximum recursion depth exceeded")

    async def wrong(ctx: Any, **_: Any) -> str:
        return "text"

    for run, says in (
        (fails, "no such thing"),
        (crashes, "count failed: KeyError: 'x'"),
        (bottomless, "RecursionError"),
        (wrong, "returned str, not a tool output"),
    ):
        result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(run), ctx, Hooks())
        assert result.isError and says in result.text


async def test_results_are_cut_and_storable(ctx: Any) -> None:
    async def chatty(ctx: Any, **_: Any) -> ToolOutput:
        return ToolOutput((TextBlock("x" * 50_000 + "\ud800"),), {"bad": object()})

    ctx.set(result_chars=1000)
    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(chatty), ctx, Hooks())
    assert len(result.text) < 1100 and "left out" in result.text
    msgspec.json.encode(result)


async def test_an_empty_result_still_says_something_and_terminate_is_passed_on(ctx: Any) -> None:
    async def silent(ctx: Any, **_: Any) -> ToolOutput:
        return ToolOutput((), terminate=True)

    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(silent), ctx, Hooks())
    assert result.text == "(no output)"
    assert result.terminate


@pytest.mark.seed(159)
async def test_before_tool_call_changes_params_in_priority_order(ctx: Any) -> None:
    spy, hooks, seen = Spy(), Hooks(), []

    def low(payload: dict[str, Any]) -> dict[str, Any]:
        seen.append(("low", payload["params"]))
        return {"params": {**payload["params"], "tag": "low"}}

    async def high(payload: dict[str, Any]) -> dict[str, Any]:
        seen.append(("high", payload["params"]))
        return {"params": {"n": "9"}}

    hooks.on("before_tool_call", low, priority=1)
    hooks.on("before_tool_call", high, priority=10)
    await call_tool(ToolCall("id1", "count", {"n": 1}), tool(spy), ctx, hooks)
    assert seen == [("high", {"n": 1}), ("low", {"n": "9"})]
    assert spy.calls == [{"n": 9, "tag": "low"}]  # checked again after the hooks


@pytest.mark.seed(159)
async def test_before_tool_call_blocks_and_nobody_after_it_is_asked(ctx: Any) -> None:
    spy, hooks, later = Spy(), Hooks(), []
    hooks.on("before_tool_call", lambda p: {"block": True, "blockReason": "not on Sundays"}, priority=5)
    hooks.on("before_tool_call", later.append)
    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(spy), ctx, hooks)
    assert result.isError and result.text == "not on Sundays"
    assert spy.calls == [] and later == []


@pytest.mark.seed(159)
async def test_a_failing_guard_blocks(ctx: Any) -> None:
    spy, hooks = Spy(), Hooks()

    def broken(payload: dict[str, Any]) -> None:
        raise RuntimeError("lost my list")

    hooks.on("before_tool_call", broken)
    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(spy), ctx, hooks)
    assert result.isError and "lost my list" in result.text
    assert spy.calls == []


async def test_an_approval_nobody_can_give_blocks(ctx: Any) -> None:
    spy, hooks = Spy(), Hooks()
    hooks.on("before_tool_call", lambda p: {"requireApproval": {"title": "?"}})
    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(spy), ctx, hooks)
    assert result.isError and "approval" in result.text
    assert spy.calls == [] and ctx.asked[0].title == "?" and '"n": 1' in ctx.asked[0].command


async def test_an_approval_that_is_given_lets_it_run_with_the_arguments_that_were_shown(ctx: Any) -> None:
    spy, hooks = Spy(), Hooks()
    hooks.on("before_tool_call", lambda p: {"requireApproval": {"title": "?"}, "params": {"n": 2}})
    ctx.told = ApprovalAnswer("allow-once", "me")
    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(spy), ctx, hooks)
    assert not result.isError and '"n": 2' in ctx.asked[0].command and spy.calls[0]["n"] == 2


async def test_params_a_hook_breaks_are_not_run(ctx: Any) -> None:
    spy, hooks = Spy(), Hooks()
    hooks.on("before_tool_call", lambda p: {"params": {"n": "no number", "extra": 1}})
    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(spy), ctx, hooks)
    assert result.isError and "hook left invalid arguments" in result.text
    assert spy.calls == []


async def test_a_hook_cannot_change_params_behind_our_back(ctx: Any) -> None:
    spy, hooks, kept = Spy(), Hooks(), []

    def sneaky(payload: dict[str, Any]) -> dict[str, Any]:
        payload["params"]["n"] = 666
        kept.append(changed := {"n": 2})
        return {"params": changed}

    hooks.on("before_tool_call", sneaky)
    await call_tool(ToolCall("1", "count", {"n": 1}), tool(spy), ctx, hooks)
    kept[0]["n"] = 667
    assert spy.calls == [{"n": 2}]
    hooks = Hooks()
    hooks.on("before_tool_call", lambda p: p["params"].update(n=666))
    await call_tool(ToolCall("1", "count", {"n": 1}), tool(spy), ctx, hooks)
    assert spy.calls[1] == {"n": 1}


@pytest.mark.seed(158)
async def test_hooks_fire_around_the_execution(ctx: Any) -> None:
    order: list[str] = []
    hooks = Hooks()
    hooks.on("before_tool_call", lambda p: order.append(f"before {p['toolName']} {p['toolCallId']} {p['runId']}"))
    hooks.on("after_tool_call", lambda p: order.append(f"after {p['result']['content'][0]['text']}"))

    async def run(ctx: Any, **_: Any) -> ToolOutput:
        order.append("run")
        ctx.update("half")
        order.extend(ctx.updates)
        return make_output("ok")

    await call_tool(ToolCall("id1", "count", {"n": 1}), tool(run), ctx, hooks)
    await hooks.drain()
    assert order == ["before count id1 run-1", "run", "half", "after ok"]


@pytest.mark.seed(160)
async def test_after_tool_call_is_not_waited_for_and_cannot_fail_the_call(ctx: Any) -> None:
    hooks, gate, seen = Hooks(), asyncio.Event(), []

    async def slow(payload: dict[str, Any]) -> None:
        await gate.wait()
        seen.append(payload["error"])

    def broken(payload: dict[str, Any]) -> None:
        raise RuntimeError

    async def fails(ctx: Any, **_: Any) -> ToolOutput:
        raise ToolFailure("no")

    hooks.on("after_tool_call", broken, priority=9)
    hooks.on("after_tool_call", slow)
    result = await call_tool(ToolCall("1", "count", {"n": 1}), tool(fails), ctx, hooks)
    assert result.text == "no" and seen == []  # the call is back although the observer still waits
    gate.set()
    await hooks.drain()
    assert seen == ["no"]


async def test_cancellation_passes_through_after_the_tools_own_cleanup(ctx: Any) -> None:
    order: list[str] = []
    hooks, started = Hooks(), asyncio.Event()
    hooks.on("after_tool_call", lambda p: order.append(p["error"]))

    async def waits(ctx: Any, **_: Any) -> ToolOutput:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            order.append("cleaned")
        return make_output("never")

    task = asyncio.ensure_future(call_tool(ToolCall("1", "count", {"n": 1}), tool(waits), ctx, hooks))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await hooks.drain()
    assert order == ["cleaned", "aborted"]


async def test_two_hundred_calls_at_once(ctx: Any) -> None:
    spy = Spy()
    tools, hooks = tool(spy), Hooks()
    results = await asyncio.gather(
        *(call_tool(ToolCall(str(i), "count", {"n": i}), tools, ctx, hooks) for i in range(200))
    )
    assert [r.details["n"] for r in results] == list(range(200))


async def test_nothing_is_run_by_a_node_that_others_have_taken_over_from(ctx: Any, monkeypatch: Any) -> None:
    async def lost() -> None:
        raise StateBroken("others went on")

    spy = Spy()
    monkeypatch.setattr(ctx, "confirm", lost)
    result = await call_tool(ToolCall("id7", "count", {"n": 5}), tool(spy), ctx, Hooks())
    assert result.isError and "others went on" in result.text and spy.calls == []
