"""Heartbeats through the App: what found nothing leaves no trace, what was found stays, an idle day costs nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flow.test_app import running, settings, transcript, until
from flow.test_schedules import KEY, ask, beat, beating
from palinurus.app import App
from palinurus.sessions.record import SessionRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock, run_ready_tasks
from palinurus.testing.model import ScriptedModel, call_tools, say

OPEN = {"sandbox": {"contain": "off"}}


def texts(model: ScriptedModel, at: int) -> list[str]:
    return [message.text for message in model.requests[at].messages]


async def record(app: App) -> SessionRecord:
    row = await app.store.session(KEY)
    assert row is not None
    return SessionRecord.decode(row.data)


async def test_a_beat_that_found_nothing_leaves_no_trace_also_after_a_restart(tmp_path: Path) -> None:
    look = call_tools(("ls", {"path": "."}), text="Looking.")
    model = ScriptedModel([say("hi"), look, say("HEARTBEAT_OK all dry"), say("fine"), say("HEARTBEAT_OK")])
    async with running(tmp_path / "h", model, FakeChannel(), **beating(target="last")) as app:
        await ask(app, "hello", "e1")
        before = await record(app)
        last = await beat(app)
        assert last["status"] == "ok-token" and last["tokens"] >= 0
        after = await record(app)
        assert (after.updatedAt, after.totalTokens) == (before.updatedAt, before.totalTokens)
        assert await ask(app, "how are you?", "e2") == "fine"
        assert [t.split("\n")[-1] for t in texts(model, 3)] == ["hello", "hi", "how are you?"]
        await beat(app)
    again = ScriptedModel([say("good")])
    async with running(tmp_path / "h", again, FakeChannel(), **beating(target="last")) as app:
        assert await ask(app, "and now?", "e3") == "good"
    assert texts(again, 0) == ["hello", "hi", "how are you?", "fine", "and now?"]
    kept = [line["message"]["role"] for line in transcript(tmp_path / "h") if line["type"] == "message"]
    assert len(kept) == 6 + 4 + 2  # the file has it all: three questions, a beat with a tool, one without


async def test_what_it_found_and_what_it_was_told_stay(tmp_path: Path) -> None:
    script = [say("hi"), say("The cellar is wet."), say("The cellar is wet."), say("HEARTBEAT_OK"), say("I know.")]
    model = ScriptedModel(script)
    async with running(tmp_path / "h", model, FakeChannel(), **beating(target="last")) as app:
        await ask(app, "hello", "e1")
        assert (await beat(app))["status"] == "sent"
        assert (await beat(app))["status"] == "duplicate"  # nobody heard it twice, nor does the session
        await app.scheduler.wake("The ship is in", now=False)
        assert (await beat(app))["status"] == "ok-token"
        assert await ask(app, "what do you know?", "e2") == "I know."
    seen = texts(model, 4)
    assert [text for text in seen if text.startswith("The cellar")] == ["The cellar is wet."]
    assert any(text.startswith("System: The ship is in") for text in seen) and len(seen) == 7


async def test_a_first_beat_leaves_an_empty_conversation(tmp_path: Path) -> None:
    model = ScriptedModel([say("HEARTBEAT_OK"), say("hi")])
    async with running(tmp_path / "h", model, FakeChannel(), **beating()) as app:
        await beat(app)
        assert await ask(app, "hello", "e1") == "hi"
    assert texts(model, 1) == ["hello"]


async def test_a_token_that_strayed_into_a_reply_is_not_shown(tmp_path: Path) -> None:
    model, channel = (
        ScriptedModel([say("HEARTBEAT_OK Nine o'clock."), say("Yes. HEARTBEAT_OK"), say("HEARTBEAT_OK")]),
        FakeChannel(),
    )
    async with running(tmp_path / "h", model, channel) as app:
        assert await ask(app, "when?", "e1") == "Nine o'clock."
        assert await ask(app, "sure?", "e2") == "Yes."
        ident = (await channel.receive("ok", event="e3"))[0]
        assert (await app.wait(ident)).outcome == "silent"
        await until(lambda: len(channel.texts) == 2)
        await asyncio.sleep(0.02)
    assert channel.texts == ["Nine o'clock.", "Yes."]


async def test_a_direct_chat_that_is_closed_to_it_hears_nothing(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("hi"), say("The cellar is wet."), say("It is.")]), FakeChannel()
    async with running(tmp_path / "h", model, channel, **beating(target="last", directPolicy="block")) as app:
        await ask(app, "hello", "e1")
        last = await beat(app)
        assert (last["status"], last["reason"], last["preview"]) == ("skipped", "dm-blocked", "The cellar is wet.")
        assert await ask(app, "is it wet?", "e2") == "It is."
        await until(lambda: len(channel.texts) == 2)
    assert channel.texts == ["hi", "It is."] and "The cellar is wet." in texts(model, 2)


@pytest.mark.parametrize(
    ("seen", "told", "status"),
    [
        ({"showOk": True}, ["hi", "HEARTBEAT_OK", "The cellar is wet."], "sent"),
        ({"showAlerts": False}, ["hi"], "skipped"),
        ({"showAlerts": False, "showOk": True}, ["hi", "HEARTBEAT_OK"], "skipped"),
    ],
)
async def test_what_may_be_seen_of_it_in_a_chat(
    tmp_path: Path, seen: dict[str, bool], told: list[str], status: str
) -> None:
    model, channel = ScriptedModel([say("hi"), say("HEARTBEAT_OK"), say("The cellar is wet.")]), FakeChannel()
    changes = {**beating(target="last"), "channels": {"defaults": {"heartbeat": seen}}}
    async with running(tmp_path / "h", model, channel, **changes) as app:
        await ask(app, "hello", "e1")
        await beat(app)
        last = await beat(app)
        await until(lambda: len(channel.texts) == len(told))
        await asyncio.sleep(0.02)
    assert channel.texts == told and last["status"] == status
    assert len(model.requests) == 3


async def test_switched_off_they_stay_off_over_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), **beating()) as app:
        await app.scheduler.set_heartbeats(False)
    async with running(tmp_path / "h", ScriptedModel([]), **beating()) as app:
        assert app.scheduler.heartbeats()["main"]["enabled"] is False
        await app.scheduler.set_heartbeats(True)
    async with running(tmp_path / "h", ScriptedModel([]), **beating()) as app:
        assert app.scheduler.heartbeats()["main"]["enabled"] is True


async def test_the_watched_command_runs_as_the_agents_own_do(tmp_path: Path) -> None:
    page = tmp_path / "h" / "workspace" / "tide.txt"
    beats = beating(watch="cat tide.txt; echo $OPENCLAW_SHELL")
    beats["agents"]["defaults"] |= OPEN
    async with running(tmp_path / "h", ScriptedModel([say("hi")], repeat=True), **beats) as app:
        run = app.scheduler._port.run
        assert run is not None
        key = app.scheduler._beats["main"].key
        await app.scheduler.wake("The ship is in", now=False)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("high\n")
        first = await run(key, app.settings.heartbeats["main"].watch, 5.0)
        assert first is not None and first.split() == ["high", "exec"]
        assert await run(key, app.settings.heartbeats["main"].watch, 5.0) == first
        page.write_text("low\n")
        assert await run(key, app.settings.heartbeats["main"].watch, 5.0) != first
        assert await run(key, "sleep 30", 0.05) is None  # over time
        assert app.scheduler.events.has_waiting(KEY)  # a look takes nothing away from the next turn
    denied = {"tools": {"deny": ["exec"]}, **beats}
    async with running(tmp_path / "h", ScriptedModel([]), **denied) as app:
        run = app.scheduler._port.run
        assert run is not None and await run(key, "echo hi", 5.0) is None


async def test_an_idle_day_of_the_whole_program_costs_no_model_call(tmp_path: Path) -> None:
    clock, model = FakeClock(), ScriptedModel([say("HEARTBEAT_OK")], repeat=True)
    home = tmp_path / "h"
    app = App(settings(home, **beating()), {}, clock, model=model, channels={})
    await app.start()
    page = Path(app.settings.agents["main"].workspace) / "HEARTBEAT.md"

    async def minutes(count: int, step: int = 1) -> None:
        for _ in range(0, count, step):
            await clock.advance(step * 60)
            await until(lambda: clock.sleeper_count >= asleep and not app.dispatcher.running(KEY))
            await run_ready_tasks()

    try:
        await until(lambda: clock.sleeper_count > 0)
        await asyncio.sleep(0.05)
        asleep = clock.sleeper_count
        page.write_text("Look after the garden.\n")
        await minutes(31)
        await until(lambda: app.scheduler.heartbeats()["main"]["count"] == 1)
        await minutes(24 * 60, 15)
        assert len(model.requests) == 1
        assert app.scheduler.heartbeats()["main"]["count"] == 1
        page.write_text("Look after the garden and the dog.\n")
        await minutes(1)
        await until(lambda: app.scheduler.heartbeats()["main"]["count"] == 2)
        assert len(model.requests) == 2
    finally:
        await app.stop()
