"""Whole messages through the App: in at a channel, out at a channel, the store in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound, TurnOptions
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import Model
from palinurus.errors import BadRequest, Draining, QueueFull
from palinurus.testing.channel import FakeChannel
from palinurus.testing.conformance.inbox import claim_one
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, say
from support import inbound

CONFIG = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}},
    "agents": {"defaults": {"model": {"primary": "fake/m"}}},
}


def settings(home: Path, **changes: Any) -> Any:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps({**CONFIG, **changes}))
    return load_config(str(home), {}).settings


@asynccontextmanager
async def running(home: Path, model: Model, *channels: FakeChannel, **changes: Any) -> AsyncIterator[App]:
    environ: dict[str, str] = changes.pop("environ", {})
    app = App(settings(home, **changes), environ, SystemClock(), model=model, channels={c.name: c for c in channels})
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def transcript(home: Path) -> list[dict[str, Any]]:
    (file,) = (home / "agents" / "main" / "sessions").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.seed(150, 371, 374)
async def test_a_message_from_a_channel_is_answered_there_once(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("Hello, human.")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        (ident,) = await channel.receive("hello", event="e1")
        row = await app.wait(ident)
        assert (row.state, row.outcome, row.note) == ("done", "answered", "Hello, human.")
        await until(lambda: bool(channel.seen))
        trace: list[str] = []
        async with asyncio.timeout(60):
            while "sent" not in trace:
                trace = [step.what for step in await app.store.trace(ident)]
                await asyncio.sleep(0.005)
    assert channel.texts == ["Hello, human."]
    assert sorted(trace[2:4]) == ["card", "model"]  # both say the same moment
    assert [*trace[:2], *trace[4:]] == ["accepted", "claimed", "settled", "reply queued", "sending", "sent"]
    lines = transcript(tmp_path / "h")
    assert lines[0]["type"] == "session" and lines[0]["version"] == 3
    assert [e["message"]["role"] for e in lines[1:]] == ["user", "assistant"]
    assert {e["item"] for e in lines[1:]} == {ident}
    request = model.requests[0]
    assert "read" in {t.name for t in request.tools} and request.prompt.stable and str(request.model.ref) == "fake/m"


async def test_the_same_event_delivered_again_is_one_turn_also_after_a_restart(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("once")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        ids = await channel.receive("hello", event="e1", times=3)
        await app.wait(ids[0])
        await until(lambda: bool(channel.seen))
    again = FakeChannel()
    async with running(tmp_path / "h", model, again) as app:
        ids += await again.receive("hello", event="e1")
        assert (await app.wait(ids[0])).note == "once"
    assert len(set(ids)) == 1 and len(model.requests) == 1 and again.seen == []


@pytest.mark.seed(373)
async def test_one_run_per_session_and_sessions_side_by_side(tmp_path: Path) -> None:
    gates = {name: StreamGate() for name in "abc"}

    def answer(request: Any) -> Any:
        name = request.messages[-1].text[-1]
        return hold_at(say(f"answer {name}"), gates[name], 0)

    model = ScriptedModel([answer], repeat=True)
    async with running(tmp_path / "h", model) as app:
        one = await app.submit(inbound("same a", session="s1", options=TurnOptions(queue="followup")))
        two = await app.submit(inbound("same b", session="s1", options=TurnOptions(queue="followup")))
        other = await app.submit(inbound("other c", session="s2"))
        await gates["a"].wait_reached()
        await gates["c"].wait_reached()
        assert len(model.requests) == 2  # b waits for a; c does not
        gates["c"].open()
        assert (await app.wait(other.id)).note == "answer c"
        gates["a"].open()
        gates["b"].open()
        assert (await app.wait(one.id)).note == "answer a"
        assert (await app.wait(two.id)).note == "answer b"
    assert [m.text for m in model.requests[-1].messages] == ["same a", "answer a", "same b"]


async def test_the_cap_over_all_sessions_holds_and_all_are_answered(tmp_path: Path) -> None:
    running_now, most, full = 0, 0, asyncio.Event()

    async def passing() -> None:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        if most == 4:
            full.set()
        await asyncio.wait_for(full.wait(), 60)
        await asyncio.sleep(0.01)  # a fifth would come now
        running_now -= 1

    class Slow(ScriptedModel):
        async def stream(self, request: Any, stop: Any) -> Any:
            await passing()
            async for event in super().stream(request, stop):
                yield event

    model = Slow([say("ok")], repeat=True)
    async with running(tmp_path / "h", model) as app:
        made = await asyncio.gather(*(app.submit(inbound("x", session=f"s{n}")) for n in range(12)))
        rows = await asyncio.gather(*(app.wait(a.id) for a in made))
    assert [r.outcome for r in rows] == ["answered"] * 12
    assert most == 4


@pytest.mark.seed(377, 378, 380)
async def test_a_message_that_arrives_mid_run_is_steered_into_it(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(call_tools(("ls", {})), gate, 0), say("both")])
    channel = FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        (first,) = await channel.receive("first", event="1")
        await gate.wait_reached()
        (second,) = await channel.receive("second", event="2")
        gate.open()
        row, same = await app.wait(first), await app.wait(second)
        stored = await app.store.item(second)
        await until(lambda: bool(channel.seen))
    assert row == same and row.note == "both" and stored is not None
    assert stored.state == "absorbed" and stored.absorbed_by == first
    assert channel.texts == ["both"]
    assert [type(m).__name__ for m in model.requests[1].messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResult",
        "UserMessage",
    ]


async def test_watchers_see_the_run_and_its_end_only_when_it_is_on_disk(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello")])
    seen: list[RunEvent] = []
    states: list[Any] = []
    async with running(tmp_path / "h", model) as app:

        def sink(event: RunEvent) -> None:
            seen.append(event)
            if isinstance(event, AgentEnd):
                states.append(asyncio.ensure_future(app.store.item(ident.id)))

        ident = await app.submit(inbound("hi", push=False), sink)
        await app.wait(ident.id)
        (row,) = await asyncio.gather(*states)
    assert row.state == "done"
    assert type(seen[0]).__name__ == "AgentStart" and isinstance(seen[-1], AgentEnd)


async def test_a_failing_model_is_explained_to_the_person(tmp_path: Path) -> None:
    model, channel = ScriptedModel([fail("auth", "the key was refused")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        (ident,) = await channel.receive("hello", event="e1")
        row = await app.wait(ident)
        await until(lambda: bool(channel.seen))
    assert (row.outcome, row.note) == ("failed", "the key was refused")
    assert channel.texts == ["⚠️ No answer: the key was refused."]


async def test_an_unknown_model_is_explained_not_retried(tmp_path: Path) -> None:
    model, channel, seen = ScriptedModel([]), FakeChannel(), list[RunEvent]()
    async with running(tmp_path / "h", model, channel) as app:
        asked = inbound("hello", event="e1", options=TurnOptions(model="nobody/nothing"))
        row = await app.wait((await app.submit(asked, seen.append)).id)
        await until(lambda: bool(channel.seen))
    assert [event.failure is not None for event in seen if isinstance(event, AgentEnd)] == [True]
    assert row.outcome == "failed" and "nobody" in row.note and model.requests == []


async def test_abort_ends_the_run_and_the_session_goes_on(tmp_path: Path) -> None:
    gate = StreamGate()
    model, channel = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        (first,) = await channel.receive("hello", event="1")
        await gate.wait_reached()
        assert await app.abort("agent:main:main", "user")
        row = await app.wait(first)
        assert row.outcome == "aborted" and not await app.abort("agent:main:main", "user")
        (second,) = await channel.receive("more", event="2")
        assert (await app.wait(second)).note == "next"
        await until(lambda: len(channel.seen) == 3)
    assert channel.texts == ["never al", "⚙️ Agent was aborted.", "next"]


async def test_bad_messages_are_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([])) as app:
        for bad in (inbound(""), inbound("x", session="../up"), inbound("x" * 1_000_001), inbound("x", agent="no")):
            with pytest.raises(BadRequest):
                await app.submit(bad)
        with pytest.raises(BadRequest):
            await app.submit(inbound("lone \ud800 surrogate"))
        assert await claim_one(app.store, "main") is None


async def test_a_full_queue_refuses_loudly_and_other_sessions_go_on(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("a"), gate, 0), say("b")], repeat=True)
    async with running(tmp_path / "h", model) as app:
        wait = TurnOptions(queue="followup")
        await app.submit(inbound("x", session="s", options=wait))
        await gate.wait_reached()
        for _ in range(app.settings.lanes.queue_cap):
            await app.submit(inbound("x", session="s", options=wait))
        with pytest.raises(QueueFull):
            await app.submit(inbound("x", session="s", options=wait))
        other = await app.submit(inbound("x", session="t"))
        assert (await app.wait(other.id)).outcome == "answered"
        gate.open()


async def test_drain_hands_the_turn_back_and_the_next_start_finishes_it(tmp_path: Path) -> None:
    gate = StreamGate()
    first = ScriptedModel([call_tools(("exec", {"command": "echo once >> log"})), hold_at(say("cut"), gate, 1)])
    channel = FakeChannel(owner=True)
    async with running(tmp_path / "h", first, channel) as app:
        (ident,) = await channel.receive("do it", event="1")
        await gate.wait_reached()
    with pytest.raises(Draining):
        await app.dispatcher.submit(inbound("late"))
    second = ScriptedModel([say("finished")])
    after = FakeChannel(owner=True)
    async with running(tmp_path / "h", second, after) as app:
        row = await app.wait(ident)
        await until(lambda: bool(after.seen))
    assert row.note == "finished" and after.texts == ["finished"] and channel.texts == []
    assert (tmp_path / "h" / "workspace" / "log").read_text() == "once\n"
    results = [m for m in second.requests[0].messages if isinstance(m, ToolResult)]
    assert len(results) == 1 and not results[0].isError


async def test_the_stable_prompt_is_byte_equal_from_turn_to_turn(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("ls", {})), say("one"), say("two")])
    async with running(tmp_path / "h", model) as app:
        for text in ("a", "b"):
            await app.wait((await app.submit(inbound(text))).id)
    assert len({r.prompt.stable for r in model.requests}) == 1
    assert all(r.tools == model.requests[0].tools for r in model.requests)


@pytest.mark.parametrize("fault", ["limited", "down", "shown", "lost"])
async def test_delivery_survives_what_platforms_do(tmp_path: Path, fault: Any) -> None:
    model, channel = ScriptedModel([say("hello")]), FakeChannel()
    channel.faults = [fault]
    async with running(tmp_path / "h", model, channel):
        await channel.receive("hi", event="1")
        await until(lambda: bool(channel.seen) and len(channel.sends) >= (1 if fault == "shown" else 2))
    assert channel.texts == ["hello"] and channel.duplicate_ids == []


async def test_a_refused_reply_is_given_up_and_the_next_goes_out(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("one"), say("two")]), FakeChannel()
    channel.faults = ["refused"]
    async with running(tmp_path / "h", model, channel) as app:
        (ident,) = await channel.receive("a", event="1")
        await app.wait(ident)
        await until(lambda: len(channel.sends) == 1)
        await channel.receive("b", event="2")
        await until(lambda: bool(channel.seen))
        steps = {s.what: s.detail for s in await app.store.trace(ident)}
    assert channel.texts == ["two"]
    assert any("does not exist" in detail for detail in steps.values())


async def test_message_sending_may_change_or_cancel(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("hello"), say("secret")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        app.hooks.on("message_sending", lambda p: {"cancel": True} if "secret" in p["content"] else {"content": "HI"})
        for n in ("1", "2"):
            (ident,) = await channel.receive("x", event=n)
            await app.wait(ident)
        await until(lambda: bool(channel.seen))
    assert channel.texts == ["HI"]


async def test_a_message_that_keeps_killing_the_process_is_set_aside_with_a_notice(tmp_path: Path) -> None:
    """Three claims that never settled, as three crashes leave them."""
    model, channel = ScriptedModel([say("never")]), FakeChannel()
    gate = StreamGate()
    stuck = ScriptedModel([hold_at(say("x"), gate, 0)])
    app = App(settings(tmp_path / "h"), {}, SystemClock(), model=stuck, channels={"fake": channel})
    await app.start()
    (ident,) = await channel.receive("boom", event="1")
    await gate.wait_reached()
    await app.store.close()  # the process "dies": nothing is settled, nothing handed back
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    for _ in range(2):
        again = App(
            settings(tmp_path / "h"), {}, SystemClock(), model=ScriptedModel([hold_at(say("x"), StreamGate(), 0)])
        )
        await again.start()
        await asyncio.sleep(0.05)
        await again.store.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
    last = FakeChannel()
    async with running(tmp_path / "h", model, last) as app:
        row = await app.wait(ident)
        await until(lambda: bool(last.seen))
    assert row.outcome == "dead" and "3 times" in row.note and model.requests == []
    assert "3 times" in last.texts[0]


async def test_a_follower_sees_each_message_come_begin_and_end(tmp_path: Path) -> None:
    seen: list[str] = []

    class Notes:
        def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
            seen.append(f"came {inbound.text}")

        def on_started(self, item: str, session: str, inbound: Inbound) -> None:
            seen.append(f"began {inbound.text} in {session}")

        def on_event(self, item: str, event: RunEvent) -> None:
            seen.append(type(event).__name__)

        def on_merged(self, item: str, into: str) -> None:
            seen.append("merged")

        def on_ended(self, item: str) -> None:
            seen.append("ended")

    model, channel = ScriptedModel([say("one")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        app.follow(Notes())
        (ident,) = await channel.receive("hello", event="e1")
        await app.wait(ident)
        await channel.receive("hello", event="e1")  # a duplicate is nothing new
    assert seen[:3] == ["came hello", "began hello in agent:main:main", "AgentStart"]
    assert seen[-2:] == ["AgentEnd", "ended"]
    assert seen.count("came hello") == 1
