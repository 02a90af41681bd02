"""What a node of a fleet had begun when it went: another follows its sub-agents and takes up its drafts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flow.test_children import Cast, ask, children, settled, spawn, told
from flow.test_delivery import LONG, Watched, streaming
from flow.test_two_nodes import sent, two, until
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setenv("FLEET", server)


async def test_a_sub_agent_of_a_node_that_goes_is_followed_by_another(tmp_path: Path) -> None:
    started = Cast([call_tools(spawn("dig for gold", label="digger")), say("started")], child=say("never said"))
    goes_on = Cast([say("We found gold.")], child=say("found 3 nuggets"))
    goes_on.gate.open()
    channel = FakeChannel()
    async with two(tmp_path / "h", started, goes_on, channel, slow="fleet") as (a, b):
        await ask(a, "go", "e1")
        await until(lambda: channel.texts == ["started"])
        await until(lambda: [child.node for child in children(b)] == ["a"])
        assert b.subagents.lives._tasks == {}
        await a.stop()
        await until(lambda: channel.texts == ["started", "We found gold."])
        await settled(b)
        await sent(b)
        (child,) = children(b)
        assert (child.node, child.state, child.outcome) == ("b", "told", "ok")
        (text,) = told(goes_on)
        assert "found 3 nuggets" in text


async def test_a_draft_of_a_node_that_goes_becomes_the_answer_of_another(tmp_path: Path) -> None:
    gate, channel = StreamGate(), Watched()
    one, other = ScriptedModel([hold_at(say(LONG), gate, 6)]), ScriptedModel([say(LONG)])
    config = streaming(dmPolicy="open", allowFrom=["*"])
    async with two(tmp_path / "h", one, other, channel, slow="fleet", **config) as (a, b):
        await channel.receive("hello", event="e1")
        await until(lambda: bool(channel.texts))
        (left,) = await b.store.list_records("draft")
        await a.stop()
        await until(lambda: channel.texts == [LONG])
        await sent(b)
        assert left
        async with asyncio.timeout(60):  # its row goes after its answer
            while await b.store.list_records("draft"):
                await asyncio.sleep(0.01)
    assert all(len(screen) <= 1 for screen in channel.screens)  # never two copies
