"""Stopping, through the whole App: it is on disk before it is acknowledged, and nothing is heard of it afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, transcript, until
from palinurus.core.types.inbound import Sender, TurnOptions
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound

MAIN, OTHER = "agent:main:main", "agent:main:other"
OWNER = Sender("me", owner=True)


async def test_after_a_stop_is_answered_nothing_more_is_heard_of_the_run(tmp_path: Path) -> None:
    gate = StreamGate()
    model, channel = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        (first,) = await channel.receive("hello", event="1")
        await gate.wait_reached()
        stop = await app.submit(inbound("/stop", sender=OWNER))
        assert [(await app.wait(i)).outcome for i in (first, stop.id)] == ["aborted", "answered"]
        await channel.receive("more", event="3")
        await until(lambda: len(channel.seen) == 2)
    assert channel.texts == ["⚙️ Agent was aborted.", "next"]
    assert [e["message"]["role"] for e in transcript(tmp_path / "h")[1:3]] == ["user", "assistant"]  # it is on file


@pytest.mark.parametrize("way", ["/stop", "user", "rpc", "item"])
async def test_a_stop_is_on_disk_when_it_is_acknowledged(tmp_path: Path, way: str) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")])
    async with running(tmp_path / "h", model) as app:
        one = await app.submit(inbound("one"))
        await gate.wait_reached()
        waits = await app.submit(inbound("waits", options=TurnOptions(queue="followup")))
        if way == "/stop":
            stop = await app.submit(inbound("/stop", sender=OWNER, push=False))
            assert (await app.wait(stop.id)).note == "⚙️ Agent was aborted. 1 waiting message dropped."
        elif way == "item":
            assert await app.dispatcher.stop_item(one.id)
        else:
            assert (await app.dispatcher.stop(MAIN, way)).ran
        steps = [step.what for step in await app.store.trace(one.id)]
        rows = [row for row in [await app.store.item(one.id), await app.store.item(waits.id)] if row is not None]
        assert "stopped" in steps and rows[0].outcome == "aborted"
        if way in ("/stop", "user"):
            assert (rows[1].state, rows[1].outcome, rows[1].note) == ("done", "aborted", "not answered: stopped")
        else:
            assert (await app.wait(waits.id)).note == "next"


async def test_an_interrupted_run_is_so_on_disk_when_the_new_message_is_accepted(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")])
    async with running(tmp_path / "h", model, messages={"queue": {"mode": "interrupt"}}) as app:
        one = await app.submit(inbound("one"))
        await gate.wait_reached()
        two = await app.submit(inbound("two"))
        row = await app.store.item(one.id)
        assert row is not None and row.outcome == "aborted"
        assert (await app.wait(two.id)).note == "next"


async def test_a_message_dropped_for_another_is_so_on_disk_when_that_is_accepted(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one"), gate, 0), say("rest")])
    queue = {"mode": "followup", "cap": 1, "drop": "old"}
    async with running(tmp_path / "h", model, messages={"queue": queue}) as app:
        await app.submit(inbound("one"))
        await gate.wait_reached()
        dropped = await app.submit(inbound("dropped"))
        last = await app.submit(inbound("last"))
        row = await app.store.item(dropped.id)
        assert row is not None and (row.state, row.outcome) == ("done", "refused")
        assert await app.store.reply(f"{dropped.id}.end") is not None
        gate.open()
        assert (await app.wait(last.id)).note == "rest"


async def test_a_stop_during_sessions_send_leaves_the_other_session_alive(tmp_path: Path) -> None:
    """The run that sends a letter is stopped a little later each time, until the letter is out."""
    letter = call_tools(("sessions_send", {"sessionKey": OTHER, "message": "hi", "timeoutSeconds": 60}))
    model = ScriptedModel(
        [lambda request: letter if request.messages[-1].text == "send" else say("heard")], repeat=True
    )
    async with running(tmp_path / "h", model, tools={"sessions": {"visibility": "agent"}}) as app:
        assert (await app.wait((await app.submit(inbound("be there", session=OTHER))).id)).note == "heard"
        stops: list[asyncio.Task[Any]] = []
        later: list[int] = []

        async def stop_soon() -> None:
            for _ in later:
                await asyncio.sleep(0)
            await app.dispatcher.stop(MAIN, "rpc")

        app.hooks.on("before_tool_call", lambda payload: stops.append(asyncio.create_task(stop_soon())))
        for _ in range(24):
            later.append(1)
            await app.wait((await app.submit(inbound("send"))).id)
            await asyncio.gather(*stops)
            async with asyncio.timeout(60):
                asked = await app.submit(
                    inbound("are you there?", session=OTHER, options=TurnOptions(queue="followup"))
                )
                assert (await app.wait(asked.id)).note == "heard"


async def test_a_model_call_is_in_the_ledger_before_the_run_has_ended(tmp_path: Path) -> None:
    """A gateway that dies in the second call has the first one on its books, once."""
    gate = StreamGate()
    model = ScriptedModel([call_tools(("ls", {"path": "."})), hold_at(say("done"), gate, 0)])
    async with running(tmp_path / "h", model) as app:
        asked = await app.submit(inbound("look"))
        await gate.wait_reached()
        assert [call.item for call in await app.store.list_usage(0)] == [asked.id]
        gate.open()
        await app.wait(asked.id)
        assert [call.item for call in await app.store.list_usage(0)] == [asked.id, asked.id]
