"""Permission modes through the whole program: who sets them, what the model is told, what outlives what."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from flow.test_approvals import MEMBER, question, result, running, told, typed, workspace
from palinurus.core.policy.modes import LINES, REFUSED
from palinurus.core.types.inbound import TurnOptions
from palinurus.sessions.record import SessionRecord
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.sandbox.probe import detect_support

WRITE = call_tools(("write", {"path": "new.txt", "content": "x"}))


async def test_plan_is_told_before_the_message_and_nothing_is_written(tmp_path: Path) -> None:
    model = ScriptedModel([say("hello"), WRITE, say("my plan"), WRITE, say("done")])
    async with running(tmp_path / "h", model) as app:
        await told(app, "hi")
        assert "plan" in await told(app, "/mode plan")
        assert await told(app, "write it") == "my plan"
        assert result(model).text == REFUSED and not (workspace(app) / "new.txt").exists()
        assert "default" in await told(app, "/mode default")
        assert await told(app, "now do it") == "done" and (workspace(app) / "new.txt").exists()
    first, planned, done = model.requests[0], model.requests[1], model.requests[3]
    assert planned.messages[-1].text.startswith(LINES["plan"]) and planned.messages[-1].text.endswith("write it")
    assert done.messages[-1].text == "now do it"
    for later in (planned, done):  # prompt, tools and all that was said before: byte for byte as it was
        assert (later.prompt, later.tools) == (first.prompt, first.tools)
        assert later.messages[: len(first.messages)] == first.messages
    assert done.messages[: len(planned.messages)] == planned.messages


@pytest.mark.skipif(
    sys.platform != "linux" or not detect_support().namespaces, reason="commands are held by namespaces here"
)
async def test_commands_in_plan_mode_look_and_cannot_write(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            call_tools(("exec", {"command": "cat a.txt; touch b.txt; echo x > /tmp/mine && cat /tmp/mine"})),
            call_tools(("exec", {"command": "echo hi", "elevated": True})),
            say("plan"),
        ]
    )
    async with running(tmp_path / "h", model) as app:
        workspace(app).mkdir(parents=True, exist_ok=True)
        (workspace(app) / "a.txt").write_text("content of a")
        await told(app, "/mode plan")
        assert await told(app, "look") == "plan"
        assert not (workspace(app) / "b.txt").exists()
    looked, elevated = (m for m in model.requests[-1].messages if hasattr(m, "toolCallId"))
    assert "content of a" in looked.text and "Read-only file system" in looked.text and "\nx" in looked.text
    assert elevated.isError and "elevated mode is off" in elevated.text


async def test_ask_asks_once_about_a_command_and_an_edit(tmp_path: Path) -> None:
    model = ScriptedModel([WRITE, call_tools(("exec", {"command": "touch X"})), say("done")])
    async with running(tmp_path / "h", model) as app:
        await told(app, "/mode ask")
        sent = await app.submit(typed("go"))
        for title in ("change new.txt", "run a command inside the sandbox"):
            row = await question(app)
            assert (row.ask.title, row.ask.why) == (title, "permission mode is ask")
            await told(app, f"/approve {row.id[:8]} allow-once")
        assert (await app.wait(sent.id)).note == "done"
        assert (workspace(app) / "new.txt").exists() and (workspace(app) / "X").exists()


async def test_full_asks_nothing_about_contained_commands_whatever_the_config_says_but_refusals_stay(
    tmp_path: Path,
) -> None:
    order = call_tools(("exec", {"command": "touch X"}))
    model = ScriptedModel([order, say("done"), order, say("refused")])
    async with running(tmp_path / "h", model, tools={"exec": {"ask": "always"}}) as app:
        await told(app, "/mode full")
        assert await told(app, "go") == "done" and (workspace(app) / "X").exists()
        await told(app, "/exec security=deny")
        assert await told(app, "again") == "refused" and result(model).isError


async def test_only_the_owner_sets_it_and_it_outlives_a_restart_and_a_new_session(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with running(home, ScriptedModel([say("plain")])) as app:
        assert "owner" in await told(app, "/mode full", MEMBER)
        assert "There is no permission mode" in await told(app, "/mode god")
        await told(app, "/mode ask")
    async with running(home, ScriptedModel([say("x")])) as app:
        assert (await told(app, "/mode")).startswith("Permission mode: ask.")
        await told(app, "/new")
        assert (await told(app, "/mode")).startswith("Permission mode: ask.")
        await told(app, "/mode reset")
        assert (await told(app, "/mode")).startswith("Permission mode: default.")


async def test_a_message_can_bring_its_own_mode_and_a_child_is_never_freer_than_its_parent(tmp_path: Path) -> None:
    spawn = call_tools(("sessions_spawn", {"task": "child task"}))
    model = ScriptedModel([WRITE, say("planned")])
    async with running(tmp_path / "h", model) as app:
        asked = msgspec.structs.replace(typed("go"), options=TurnOptions(permission_mode="plan"))
        assert (await app.wait((await app.submit(asked)).id)).note == "planned"
        assert result(model).text == REFUSED
    model = ScriptedModel([spawn, say("parent"), say("child"), say("told")])
    async with running(tmp_path / "h2", model) as app:
        await told(app, "/mode ask")
        sent = await app.submit(typed("go"))
        row = await question(app)
        await told(app, f"/approve {row.id[:8]} allow-once")
        await app.wait(sent.id)
        rows = [one for one in await app.store.sessions() if ":subagent:" in one.key]
        assert [SessionRecord.decode(one.data).permissionMode for one in rows] == ["ask"]
