"""What goes on: runs that go or wait, and commands in the background."""

from __future__ import annotations

from pathlib import Path

from flow.test_app import until
from gateway.whole import KEY, named, place, until_over
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say


async def test_runs_and_commands_are_tasks(tmp_path: Path) -> None:
    gate = StreamGate()
    script = [call_tools(("exec", {"command": "sleep 30", "background": True})), hold_at(say("started"), gate, 0)]
    config = {"tools": {"exec": {"security": "full", "ask": "off", "host": "gateway"}}}
    async with place(tmp_path / "h", ScriptedModel(script), **config) as here:
        await here.call("chat.send", sessionKey="main", message="work on it", idempotencyKey="k1")
        await until(lambda: bool(here.app.processes.all()))
        found = (await here.call("tasks.list"))["tasks"]
        assert {(t["kind"], t["status"], t["title"], t["sessionKey"]) for t in found} == {
            ("run", "running", "work on it", KEY),
            ("command", "running", "sleep 30", KEY),
        }
        (command,) = (t for t in found if t["kind"] == "command")
        assert (await here.call("tasks.get", taskId=command["id"]))["task"]["title"] == "sleep 30"
        page = await here.call("tasks.list", limit=1)
        rest = await here.call("tasks.list", limit=1, cursor=page["nextCursor"])
        assert {page["tasks"][0]["id"], rest["tasks"][0]["id"]} == {t["id"] for t in found}
        assert (await here.call("tasks.list", status=["failed"]))["tasks"] == []
        assert (await here.refused("tasks.get", taskId="x")).message == "task not found: x"
        assert (await here.call("tasks.log", taskId=command["id"]))["text"] == ""
        ended = await here.call("tasks.cancel", taskId=command["id"])
        assert (ended["found"], ended["cancelled"]) == (True, True)
        await until(lambda: here.app.processes.all()[0].status != "running")
        assert (await here.call("tasks.get", taskId=command["id"]))["task"]["status"] == "cancelled"
        assert (await here.call("tasks.cancel", taskId=command["id"]))["cancelled"] is False
        assert (await here.call("tasks.cancel", taskId="x"))["found"] is False
        (run,) = (t for t in found if t["kind"] == "run")
        assert (await here.call("tasks.cancel", taskId=run["id"]))["cancelled"] is True
        assert named(await until_over(here.link, "k1"), "chat")[-1]["state"] == "aborted"
        await until(lambda: not here.app.dispatcher.running(KEY))
        assert [t["kind"] for t in (await here.call("tasks.list"))["tasks"]] == ["command"]
