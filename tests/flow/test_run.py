"""One run through the App: its events and hooks in their order, its limits, the level and the efforts of its model."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings, until
from flow.test_compaction import LONG, Crew, compactions
from flow.test_compaction import running as crewed
from flow.test_directives import OWNER, tell
from nursery import run_program
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.levels.thinking import make_profile
from palinurus.core.types.events import AgentEnd, MessageEnd, MessageUpdate, RunEvent
from palinurus.core.types.messages import AssistantMessage, ToolResult
from palinurus.core.types.vendor import ThinkingLevel, Vendor
from palinurus.plugins.api import PluginContributions
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from palinurus.testing.server import ModelServer
from support import find_programs, inbound, kinds


@pytest.mark.seed(158, 304, 305, 306)
async def test_the_events_and_hooks_of_a_run_with_a_tool_come_in_this_order(tmp_path: Path) -> None:
    seen, events, order = tmp_path / "seen", [], []
    command = f"echo one; while [ ! -e {seen} ]; do sleep 0.05; done"  # goes on until its progress was shown
    model = ScriptedModel([call_tools(("exec", {"command": command})), say("All done, human.")])

    def sink(event: RunEvent) -> None:
        events.append(event)
        order.append(kinds([event])[0])
        if order[-1] == "tool_execution_update":
            seen.touch()

    free = {"exec": {"security": "full", "ask": "off"}}
    agents = {"defaults": {"model": {"primary": "fake/m"}, "sandbox": {"contain": "off"}}}
    async with running(tmp_path / "h", model, agents=agents, tools=free) as app:
        for point in ("before_tool_call", "after_tool_call", "tool_result_persist"):
            app.hooks.on(point, lambda payload, point=point: order.append(point))
        item = await app.submit(inbound("go", sender=OWNER, push=False), sink)
        await app.wait(item.id)
        await until(lambda: "agent_end" in order, 60)
    told = [one for one in order if one != "message_update"]
    assert told[:5] == ["agent_start", "message_start", "message_end", "message_start", "message_end"]  # asked, called
    at = {one: order.index(one) for one in order}
    tool = ["tool_execution_start", "before_tool_call", "tool_execution_update", "after_tool_call"]
    tool += ["tool_execution_end", "tool_result_persist"]
    assert [one for one in sorted(at, key=lambda one: at[one]) if one in tool] == tool
    assert told[-3:] == ["message_start", "message_end", "agent_end"]
    ended = [e.message for e in events if isinstance(e, MessageEnd) and isinstance(e.message, AssistantMessage)]
    deltas = [e.delta for e in events if isinstance(e, MessageUpdate)]
    assert ended[-1].text == "All done, human." == "".join(deltas) and len(deltas) > 1
    result = model.requests[1].messages[-1]  # injected before the next call of the model
    assert isinstance(result, ToolResult) and "one" in result.text


@pytest.mark.seed(149, 303)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
async def test_the_time_limit_stops_the_tool_and_ends_the_run(tmp_path: Path) -> None:
    sleep = call_tools(("exec", {"command": f"exec sleep 1000.{os.getpid()}"}))
    model, channel = ScriptedModel([sleep, say("never")]), FakeChannel()
    free = {"exec": {"security": "full", "ask": "off"}}
    agents = {"defaults": {"model": {"primary": "fake/m"}, "sandbox": {"contain": "off"}, "timeoutSeconds": 1}}
    events: list[RunEvent] = []
    async with running(tmp_path / "h", model, channel, agents=agents, tools=free) as app:
        item = await app.submit(inbound("go", sender=OWNER), events.append)
        row = await app.wait(item.id)
        await until(lambda: bool(channel.texts), 60)
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "timeout" and len(model.requests) == 1
    (result,) = [m for m in end.messages if isinstance(m, ToolResult)]
    assert result.isError and "timeout" in result.text and row.outcome == "failed"
    assert channel.texts == ["⚠️ The run took too long and was stopped."]
    assert not find_programs(f"1000.{os.getpid()}")


@pytest.mark.seed(149, 303)
async def test_the_time_limit_stops_a_model_that_says_nothing(tmp_path: Path) -> None:
    model, channel = ScriptedModel([hold_at(say("never"), StreamGate(), 0)]), FakeChannel()
    agents = {"defaults": {"model": {"primary": "fake/m"}, "timeoutSeconds": 1}}
    async with running(tmp_path / "h", model, channel, agents=agents) as app:
        (ident,) = await channel.receive("go", event="e1")
        assert (await app.wait(ident)).outcome == "failed"
        await until(lambda: bool(channel.texts), 60)
    assert channel.texts == ["⚠️ The run took too long and was stopped."]


OPEN = {"blockStreaming": True, "dmPolicy": "open", "allowFrom": ["*"]}


@pytest.mark.seed(151, 314)
async def test_what_streams_is_cut_into_blocks_and_stripped_of_tags(tmp_path: Path) -> None:
    text = f"<think>secret plan</think>{'One sentence here. ' * 12}<think>more</think>{'And another one. ' * 12}"
    model, channel = ScriptedModel([say(text)], chunk=7), FakeChannel()
    chunk = {"minChars": 60, "maxChars": 120, "breakPreference": "sentence"}
    defaults = {"blockStreamingDefault": "on", "blockStreamingChunk": chunk, "blockStreamingCoalesce": {"idleMs": 0}}
    agents = {"defaults": {"model": {"primary": "fake/m"}, **defaults}}
    async with running(tmp_path / "h", model, channel, agents=agents, channels={"fake": OPEN}) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
        await until(lambda: sum(t.count("And another one.") for t in channel.texts) == 12, 60)
    said = " ".join(channel.texts)
    assert len(channel.texts) > 2 and "think" not in said and "secret" not in said and said.count("One sentence") == 12
    assert all(one.endswith(".") for one in channel.texts)


@pytest.mark.seed(155, 156, 304, 372)
async def test_a_compaction_is_waited_for_then_the_run_ends_and_then_the_reply_goes_out(tmp_path: Path) -> None:
    crew, home, order, gate = Crew(talk=[say("aye")]), tmp_path / "h", list[str](), StreamGate()
    crew.summaries = [hold_at(crew.summaries[0], gate, 0)]
    async with crewed(home, crew, channel=FakeChannel()) as app:
        for point in ("after_compaction", "agent_end", "message_sending", "message_sent"):
            app.hooks.on(point, lambda payload, point=point: order.append(point))
        for n in range(40):
            item = await app.submit(
                inbound(f"{n}: {LONG}", session="main", sender=OWNER), lambda e: order.append(kinds([e])[0])
            )
            waiting = asyncio.ensure_future(app.wait(item.id))
            reached = asyncio.ensure_future(gate.wait_reached(60))
            await asyncio.wait((waiting, reached), return_when=asyncio.FIRST_COMPLETED)
            if reached.done():
                break
            await until(lambda: "message_sent" in order, 60)
            order.clear()
            reached.cancel()
        assert not waiting.done() and "agent_end" not in order and "auto_compaction_start" in order
        gate.open()
        await waiting
        await until(lambda: "message_sent" in order, 60)
        assert len(compactions(home)) == 1
    wanted = ["auto_compaction_start", "auto_compaction_end", "agent_end", "message_sending", "message_sent"]
    assert [one for one in dict.fromkeys(order) if one in wanted] == wanted


def lab(url: str, **defaults: Any) -> dict[str, Any]:
    efforts = {"supportedReasoningEfforts": ["low", "medium", "high", "xhigh"]}
    listed = [{"id": "opted", "reasoning": True, "compat": efforts}, {"id": "plain", "reasoning": True}]
    provider = {"baseUrl": url, "apiKey": "k", "api": "openai-completions", "models": listed}
    agents = {"defaults": {"model": {"primary": "acme/opted"}, **defaults}}
    return {"models": {"providers": {"acme": provider}}, "agents": agents}


@pytest.mark.seed(36, 37, 141)
@pytest.mark.parametrize("name", ["opted", "plain"])
async def test_menu_session_command_line_and_payload_agree_on_a_models_efforts(tmp_path: Path, name: str) -> None:
    home, has = tmp_path / "h", name == "opted"
    async with ModelServer([], default=say("fine")) as server:
        app = App(settings(home, **lab(server.url)), {}, SystemClock())
        await app.start()
        try:
            await tell(app, f"/model acme/{name}")
            assert ("xhigh" in await tell(app, "/think")) is has
            assert ("set to xhigh" in await tell(app, "/think xhigh")) is has
            assert await tell(app, "hello") == "fine"
        finally:
            await app.stop()
        assert (server.requests[-1].body.get("reasoning_effort") == "xhigh") is has
        line = ["agent", "--local", "-m", "hello", "--model", f"acme/{name}", "--session", "x", "--thinking", "xhigh"]
        asked, env = len(server.requests), {**os.environ, "PALINURUS_HOME": str(home)}
        ran = await asyncio.to_thread(run_program, *line, env=env)
        told = ran.stderr
        assert ran.returncode == (0 if has else 1)
        assert (len(server.requests) > asked) is has
    if has:
        assert server.requests[-1].body["reasoning_effort"] == "xhigh"
    else:
        assert 'Thinking level "xhigh" is not supported for acme/plain. Use one of: off,' in told


@pytest.mark.seed(370)
@pytest.mark.parametrize(("level", "tokens"), [("low", 3000), ("medium", 9000), ("high", 16_000), ("minimal", None)])
async def test_tokens_to_think_with_are_configured_per_level(tmp_path: Path, level: str, tokens: int | None) -> None:
    shared = {"level": level, "budget": {"low": 3000, "medium": 9000, "high": 32_768}}  # not what they are anyway
    listed = [{"id": "claude-sonnet-4-5", "reasoning": True, "maxTokens": 64_000}]
    async with ModelServer([], default=say("fine")) as server:
        provider = {"baseUrl": server.url, "apiKey": "k", "api": "anthropic-messages", "models": listed}
        agents = {
            "defaults": {"model": {"primary": "acme/claude-sonnet-4-5"}, "thinking": shared},
            "list": [{"id": "main", "thinking": {"budget": {"high": 16_000}}}],
        }
        config = settings(tmp_path / "h", agents=agents, models={"providers": {"acme": provider}})
        app = App(config, {}, SystemClock())
        await app.start()
        try:
            assert await tell(app, "hello") == "fine"
            assert await tell(app, "hello /think off") == "fine"
        finally:
            await app.stop()
    sent, off = (request.body.get("thinking") or {} for request in server.requests)
    assert sent["type"] == "enabled" and (sent["budget_tokens"] == tokens or tokens is None)
    assert sent["budget_tokens"] not in (3000, 9000, 32_768) or tokens is not None
    assert off.get("type") != "enabled"


@pytest.mark.seed(136, 138)
async def test_a_providers_plugin_says_which_levels_its_models_have(tmp_path: Path) -> None:
    profile = make_profile(("off", ThinkingLevel("low", "gentle"), ThinkingLevel("max", "Maximum")), "max")
    vendor = Vendor(
        "acme", "Acme", "openai-completions", "http://127.0.0.1:9/v1", keyless=True, profile=lambda m: profile
    )
    model = ScriptedModel(["ok"], repeat=True)
    agents = {"defaults": {"model": {"primary": "acme/m"}}}
    brought = PluginContributions(vendors={"acme": vendor})
    config = settings(tmp_path / "h", agents=agents, models={"providers": {"acme": {"models": [{"id": "m"}]}}})
    app = App(config, {}, SystemClock(), model=model, given=brought)
    await app.start()
    try:
        await tell(app, "hello")
        menu = await tell(app, "/think")
        assert "Use one of: off, gentle, Maximum." in await tell(app, "/think medium")
        assert await tell(app, "/think gentle") == "Thinking level set to gentle."
        await tell(app, "hello")
    finally:
        await app.stop()
    assert "Maximum" in menu and [request.level for request in model.requests] == ["max", "low"]
