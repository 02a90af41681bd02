"""Jobs and heartbeats through the App: asked for in a chat, run by themselves, told once where they belong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import CONFIG, running, settings, until
from palinurus.app import App
from palinurus.core.types.inbound import Sender
from palinurus.gateway.methods import cron as methods
from palinurus.sessions.record import SessionRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from palinurus.tools.program.cron import CronJobMaker
from support import inbound

OWNER = Sender("me", owner=True, allowed=True)
KEY = "agent:main:main"


def beating(**beat: Any) -> dict[str, Any]:
    return {"agents": {"defaults": {**CONFIG["agents"]["defaults"], "heartbeat": {"every": "30m", **beat}}}}


async def ask(app: App, text: str, event: str) -> str:
    ident = (await app.submit(inbound(text, event=event, sender=OWNER))).id
    return (await app.wait(ident)).note


async def beat(app: App) -> dict[str, Any]:
    """Have one now; how it ended."""
    own = app.scheduler._beats["main"]
    before = own.describe()["count"]
    own.request()

    def over() -> bool:
        app.scheduler.nudge()  # the turn before may not be over yet: then it waits for the next look
        return own.describe()["count"] > before and own._task is None

    await until(over)
    last = app.scheduler.last_heartbeat()
    assert last is not None
    return last


async def test_a_reminder_asked_for_in_a_chat_is_seen_run_and_told_there_once(tmp_path: Path) -> None:
    job = {
        "name": "tea",
        "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "Europe/Berlin"},
        "payload": {"kind": "agentTurn", "message": "Remind of tea", "toolsAllow": ["read"]},
    }
    script = [call_tools(("cron", {"action": "add", "job": job})), say("Set up."), say("Tea time!"), say("Yes, tea.")]
    model, channel = ScriptedModel(script), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        assert await ask(app, "remind me of tea every day at 9", "e1") == "Set up."
        (made,) = app.scheduler.jobs()
        assert made["delivery"]["channel"] == "fake" and made["state"]["nextRunAtMs"] > app.clock.now()
        assert (await app.scheduler.run("tea"))["enqueued"]
        await until(lambda: channel.texts == ["Set up.", "Tea time!"])
        await until(lambda: app.scheduler.job("tea")["state"].get("lastRunStatus") == "ok")
        assert app.scheduler.events.has_waiting(KEY)
        (run,) = await app.scheduler.runs("tea")
        assert (run["status"], run["summary"], run["deliveryStatus"]) == ("ok", "Tea time!", "announced")
        assert [tool.name for tool in model.requests[2].tools] == ["read"]
        assert await ask(app, "did you remind me?", "e2") == "Yes, tea."
        assert "'tea' told the person: Tea time!" in model.requests[3].messages[-1].text
        assert not app.scheduler.events.has_waiting(KEY)
        assert await app.scheduler.runs("tea") == [run]
        await until(lambda: len(channel.texts) == 3)
    assert channel.texts == ["Set up.", "Tea time!", "Yes, tea."]


async def test_strangers_get_no_cron_tool(tmp_path: Path) -> None:
    model = ScriptedModel([say("no")])
    async with running(tmp_path / "h", model) as app:
        await app.wait((await app.submit(inbound("hi", event="e1"))).id)
    assert "cron" not in {tool.name for tool in model.requests[0].tools}


async def test_a_job_survives_the_end_of_the_program_and_its_fire_too(tmp_path: Path) -> None:
    hold = StreamGate()
    model = ScriptedModel([say("hi"), hold_at(say("never"), hold, 0)])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        await ask(app, "hello", "e1")
        payload = {"kind": "systemEvent", "text": "Tea"}
        from_ = {"schedule": {"kind": "every", "everyMs": 86_400_000}, "payload": payload, "name": "tea"}
        await app.scheduler.add(from_, methods.CronJobMaker(agent="main"))
        await app.scheduler.run("tea")
        await until(lambda: len(model.requests) == 2)
    channel, again = FakeChannel(), ScriptedModel([say("Tea!")])
    async with running(tmp_path / "h", again, channel) as app:
        await until(lambda: channel.texts == ["Tea!"])
        await until(lambda: app.scheduler.job("tea")["state"].get("lastRunStatus") == "ok")
        assert len(await app.scheduler.runs("tea")) == 1
        await asyncio.sleep(0.05)
    assert channel.texts == ["Tea!"]


@pytest.mark.seed(125, 126)
async def test_a_heartbeat_sends_its_last_word_alone_and_changes_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "h"
    script = [
        say("hi"),
        say("HEARTBEAT_OK"),
        call_tools(("ls", {"path": "."}), text="Looking."),
        say("The cellar is wet."),
        say("The cellar is wet. HEARTBEAT_OK"),
        say("The cellar is wet."),
    ]
    model, channel = ScriptedModel(script), FakeChannel()
    async with running(home, model, channel, **beating(target="last", ackMaxChars=10)) as app:
        await ask(app, "hello", "e1")
        row = await app.store.session(KEY)
        assert row is not None
        before = SessionRecord.decode(row.data)
        assert (await beat(app))["status"] == "ok-token"
        last = await beat(app)
        assert (last["status"], last["preview"]) == ("sent", "The cellar is wet.")
        assert (await beat(app))["status"] == "duplicate"
        await until(lambda: len(channel.texts) == 2)
        await asyncio.sleep(0.05)
        row = await app.store.session(KEY)
        assert row is not None
        after = SessionRecord.decode(row.data)
    assert channel.texts == ["hi", "The cellar is wet."]
    names = ("lastChannel", "lastTo", "lastInteractionAt", "thinkingLevel", "modelOverride", "verboseLevel")
    assert [getattr(before, n) for n in names] == [getattr(after, n) for n in names]


@pytest.mark.seed(124, 127)
async def test_directives_of_the_prompt_act_and_reasoning_goes_along_if_asked_for(tmp_path: Path) -> None:
    thought = say("The cellar is wet.", "water rises")
    model, channel = ScriptedModel([say("hi"), thought]), FakeChannel()
    beats = beating(target="last", includeReasoning=True, prompt="/verbose full Look at the cellar.")
    async with running(tmp_path / "h", model, channel, **beats) as app:
        await ask(app, "hello", "e1")
        await beat(app)
        await until(lambda: len(channel.texts) == 3)
        row = await app.store.session(KEY)
        assert row is not None and SessionRecord.decode(row.data).verboseLevel is None
    assert channel.texts[1:] == ["Thinking\nwater rises", "The cellar is wet."]
    assert model.requests[1].messages[-1].text.startswith("Look at the cellar.")


@pytest.mark.seed(123, 124, 125)
@pytest.mark.parametrize(
    ("prompt", "level", "asks"),
    [
        ("/think high Look.", "high", "Look."),
        ("/think:low", "low", "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. Do not infer"),
        ("Look. /think xhigh", "high", "Look."),  # configured, not typed: fitted to the model
    ],
)
async def test_a_level_in_the_prompt_is_for_heartbeats_alone(
    tmp_path: Path, prompt: str, level: str, asks: str
) -> None:
    model, channel = ScriptedModel(["hi"], repeat=True), FakeChannel()
    async with running(tmp_path / "h", model, channel, **beating(target="last", prompt=prompt)) as app:
        await ask(app, "hello", "e1")
        await beat(app)
        await ask(app, "hello again", "e2")
    assert [request.level for request in model.requests] == ["off", level, "off"]
    assert model.requests[1].messages[-1].text.startswith(asks)


async def test_a_configuration_without_heartbeats_has_none(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), **beating(every="0m")) as app:
        assert app.scheduler.heartbeats() == {}
    (tmp_path / "i").mkdir()
    config = {**CONFIG, "agents": {**CONFIG["agents"], "list": [{"id": "a"}, {"id": "b", "heartbeat": {}}]}}
    (tmp_path / "i" / "palinurus.json").write_text(json.dumps(config))
    async with running(tmp_path / "i", ScriptedModel([]), agents=config["agents"]) as app:
        assert list(app.scheduler.heartbeats()) == ["b"]  # who has a block of its own, and nobody else


async def test_plugins_hear_of_every_change_of_a_job(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    async with running(tmp_path / "h", ScriptedModel([say("Blue.")]), FakeChannel()) as app:
        app.hooks.on("cron_changed", lambda event: heard.append(event))
        every = {"schedule": {"kind": "every", "everyMs": 86_400_000}, "payload": {"message": "look"}, "name": "sea"}
        made = await app.scheduler.add(every, methods.CronJobMaker(agent="main"))
        await app.scheduler.run("sea")
        await until(lambda: len(heard) == 3)
        await app.scheduler.update("sea", {"enabled": False})
        await app.scheduler.remove("sea")
        await until(lambda: len(heard) == 5)
    assert [event["action"] for event in heard] == ["added", "started", "finished", "updated", "removed"]
    assert {event["jobId"] for event in heard} == {made["id"]}
    assert (heard[2]["status"], heard[2]["summary"]) == ("ok", "Blue.")


async def test_a_line_without_a_zone_follows_the_machines_also_in_the_night_the_clocks_go_back(tmp_path: Path) -> None:
    night = 1_792_886_390_000  # 2026-10-24T23:59:50Z, ten seconds before the first of the two times it is 2 in Berlin
    clock, model = FakeClock(night), ScriptedModel([say("done")], repeat=True)
    app = App(settings(tmp_path / "h"), {"TZ": "Europe/Berlin"}, clock, model=model)
    await app.start()
    try:
        payload = {"kind": "agentTurn", "message": "backup"}
        made = {"name": "b", "schedule": {"kind": "cron", "expr": "0 2 * * *"}, "payload": payload}
        await app.scheduler.add({**made, "sessionTarget": "isolated", "delivery": {"mode": "none"}}, CronJobMaker())
        assert app.scheduler.job("b")["state"]["nextRunAtMs"] == night + 10_000
        for _ in range(20):
            await clock.advance(1)
            await asyncio.sleep(0.01)
        await until(lambda: app.scheduler.job("b")["state"].get("lastRunStatus") == "ok")
        await clock.advance(3600)  # 2 o'clock again: it ran
        await asyncio.sleep(0.05)
        state = app.scheduler.job("b")["state"]
        assert state["lastRunAtMs"] == night + 10_000 and state["nextRunAtMs"] == night + 10_000 + 25 * 3_600_000
    finally:
        await app.stop()
    assert len(model.requests) == 1
