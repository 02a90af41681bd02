"""Prompts that are kept, files by name, conversations as files."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.whole import place
from palinurus.gateway.rpc import READ, MethodError
from palinurus.testing.model import ScriptedModel, say


async def test_prompts_outlive_the_gateway_and_are_the_owners_to_change(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        await here.call("prompts.set", name="Weekly report", text="Sum up the week: {{what}}")
        await here.call("prompts.set", name="arrr", text="old")
        await here.call("prompts.set", name="arrr", text="Talk like a pirate")
        assert "invalid prompts.set params" in (await here.refused("prompts.set", name="a\nb", text="x")).message
        async with here.other(scopes=[READ]) as link:
            assert [row["name"] for row in (await link.call("prompts.list", {}))["prompts"]] == [
                "arrr",
                "Weekly report",
            ]
            for method, params in (("prompts.set", {"name": "x", "text": "y"}), ("prompts.remove", {"name": "arrr"})):
                try:
                    await link.call(method, params)
                except MethodError as error:
                    assert "scope" in error.message
                else:
                    raise AssertionError(method)
    async with place(tmp_path / "h") as here:
        assert (await here.call("prompts.list"))["prompts"][0]["text"] == "Talk like a pirate"
        await here.call("prompts.remove", name="arrr")
        assert [row["name"] for row in (await here.call("prompts.list"))["prompts"]] == ["Weekly report"]


async def test_files_of_the_workspace_are_named_and_nothing_beside_it(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        work = Path(here.app.settings.agents["main"].workspace)
        (work / "notes").mkdir(parents=True)
        (work / "notes" / "plan.md").write_text("x")
        (work / ".secret-plan").write_text("x")
        (work / "out").symlink_to(tmp_path)
        (tmp_path / "plan-of-mine").write_text("x")
        assert (await here.call("workspace.files", query="plan"))["files"] == ["notes/plan.md"]
        assert (await here.call("workspace.files", query="../plan"))["files"] == []
        assert "unknown agent" in (await here.refused("workspace.files", agentId="nobody")).message


async def test_a_conversation_is_exported_in_three_forms(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("It is <b>noon</b>.")])) as here:
        assert "nothing to export" in (await here.refused("sessions.export", key="main")).message
        await here.say("what time is it?", "k1")
        await here.call("sessions.patch", key="main", label="Time / of day")
        made = {
            form: await here.call("sessions.export", key="main", format=form) for form in ("markdown", "html", "json")
        }
    assert made["markdown"]["name"] == "of-day.md" and "what time is it?" in made["markdown"]["text"]
    assert "&lt;b&gt;noon" in made["html"]["text"] and made["html"]["mimeType"] == "text/html"
    assert json.loads(made["json"]["text"])["entries"]
