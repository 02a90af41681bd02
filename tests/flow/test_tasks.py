"""What goes on in the background, and what was promised, as the owner sees it in a chat and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running, until
from gateway.host import TOKEN
from gateway.whole import KEY, place
from palinurus.app import App
from palinurus.cli.look import tasks as cli
from palinurus.config.sections.gateway import GatewaySettings
from palinurus.config.settings import Secret
from palinurus.core.types.inbound import Sender
from palinurus.errors import GatewayUnreachable
from palinurus.gateway import token
from palinurus.services.promises import KIND
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound

OWNER = Sender("me", owner=True, allowed=True)
OPEN = {"tools": {"exec": {"security": "full", "ask": "off", "host": "gateway"}}}


async def ask(app: App, text: str, sender: Sender = OWNER, **changes: Any) -> str:
    return (await app.wait((await app.submit(inbound(text, sender=sender, **changes))).id)).note


async def open_items(app: App) -> list[str]:
    await app.promises.close()
    return [kept.key for kept in await app.store.list_records(KIND)]


async def test_commands_sub_agents_and_jobs_in_one_list(tmp_path: Path) -> None:
    gate = StreamGate()

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        if "count the files" in last.text:
            return hold_at(say("42"), gate, 0)
        if last.text == "work":
            spawn = ("sessions_spawn", {"task": "count the files", "label": "counter"})
            return call_tools(("exec", {"command": "sleep 30", "background": True}), spawn)
        return say("ok")

    async with place(tmp_path / "h", ScriptedModel([answer], repeat=True), **OPEN) as here:
        app = here.app
        await ask(app, "work")
        await gate.wait_reached()
        job = {"name": "tea", "schedule": {"every": "1h", "everyMs": 3_600_000}, "payload": {"message": "make tea"}}
        await here.call("cron.add", **job)
        await app.scheduler.run("tea")
        await until(lambda: app.scheduler.job("tea")["state"].get("lastRunStatus") == "ok")
        found = (await here.call("tasks.list"))["tasks"]
        assert {(task["kind"], task["status"], task["title"]) for task in found} == {
            ("command", "running", "sleep 30"),
            ("subagent", "running", "counter"),
            ("cron", "completed", "tea"),
        }
        text = await ask(app, "/tasks")
        assert "▶ command running" in text and "▶ subagent running" in text and "✓ cron completed" in text
        assert (
            await ask(app, "/tasks", Sender("bob", allowed=True), session="s2") == "Nothing goes on in the background."
        )
        token.announce_location(
            app.settings.home, token.GatewayLocation("127.0.0.1", here.server.port, 1, proof=here.server.proof_key)
        )
        opened = msgspec.structs.replace(app.settings, gateway=GatewaySettings(token=Secret(TOKEN)))
        shown = cli.format_task_rows(await cli.fetch_tasks(opened, app.clock, ""), app.clock.now())
        assert "sleep 30" in shown and "counter" in shown and "tea" in shown
        (child,) = (task for task in found if task["kind"] == "subagent")
        assert child["sessionKey"] == KEY and (await here.call("tasks.cancel", taskId=child["id"]))["cancelled"]
        gate.open()


async def test_pal_tasks_needs_a_gateway(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([])) as app:
        with pytest.raises(GatewayUnreachable):
            await cli.fetch_tasks(app.settings, app.clock, "")
    assert cli.format_task_rows([], 0) == "Nothing goes on."


async def test_a_promise_becomes_an_open_item_and_then_a_job(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("Red. I'll check the build again tomorrow."), say("fine")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        await ask(app, "how is the build?")
        assert len(await open_items(app)) == 1
    async with running(tmp_path / "h", ScriptedModel([]), channel) as app:  # it is on disk
        listed = await ask(app, "/tasks")
        assert "1. “I'll check the build again tomorrow.”" in listed
        refused = await ask(app, "/tasks accept 1", Sender("bob", allowed=True))
        assert refused.startswith("⚠️") and not app.scheduler.jobs()
        assert "no open promise" in await ask(app, "/tasks accept 2")
        assert (await ask(app, "/tasks accept 1")).startswith("⏰")
        (job,) = app.scheduler.jobs()
        assert job["sessionTarget"] == f"session:{KEY}" and "check the build" in job["payload"]["message"]
        assert job["state"]["nextRunAtMs"] > app.clock.now() and job["delivery"]["channel"] == "fake"
        assert not await open_items(app)


async def test_a_promise_can_be_dismissed_and_is_listed_for_clients(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("I'll keep an eye on it.")])) as here:
        await ask(here.app, "watch it")
        await here.app.promises.close()
        (task,) = (await here.call("tasks.list", status="open"))["tasks"]
        assert (task["kind"], task["title"], task["sessionKey"]) == ("promise", "I'll keep an eye on it.", KEY)
        assert await ask(here.app, "/tasks dismiss all") == "⚙️ 1 forgotten."
        assert (await here.call("tasks.list"))["tasks"] == []


@pytest.mark.parametrize("made", ["job", "command", "narration", "program"])
async def test_no_open_item_where_something_keeps_the_promise(tmp_path: Path, made: str) -> None:
    promise = say("I'll check the build again tomorrow.")
    at = {"name": "build", "schedule": {"kind": "at", "at": "2099-01-01T09:00"}, "payload": {"message": "look"}}
    script: dict[str, list[Any]] = {
        "job": [call_tools(("cron", {"action": "add", "job": at})), promise],
        "command": [call_tools(("exec", {"command": "sleep 30", "background": True})), promise],
        "narration": [call_tools(("ls", {}), text="I'll check the build again tomorrow."), say("It is green.")],
        "program": [promise],
    }
    async with running(tmp_path / "h", ScriptedModel(script[made]), **OPEN) as app:
        await ask(app, "check the build again tomorrow", system=made == "program")
        assert await open_items(app) == []
