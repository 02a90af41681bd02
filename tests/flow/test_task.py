"""llm-task: one question to a model, answered in a form; its levels are those of every other face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from palinurus.core.levels.thinking import make_thinking_row
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.testing.model import ScriptedModel, call_tools, say

SCHEMA = {"type": "object", "required": ["mood"], "properties": {"mood": {"enum": ["calm", "rough"]}}}
ON: dict[str, Any] = {"plugins": {"entries": {"llm-task": {"enabled": True}}}}


async def told(home: Path, model: ScriptedModel, **config: Any) -> tuple[Any, list[str]]:
    """The program after one turn of the owner, and what its tools said."""
    async with running(home, model, **{**ON, **config}) as app:
        message = Inbound(Target("fake", "1"), Sender("1", owner=True), "", "go", 0)
        await app.wait((await app.submit(message)).id)
        return app, [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]


@pytest.mark.seed(37)
async def test_an_answer_that_fits_is_what_the_tool_gives(tmp_path: Path) -> None:
    order = {
        "prompt": "how is the sea?",
        "input": {"waves": 3},
        "schema": SCHEMA,
        "thinking": "high",
        "temperature": 0.2,
    }
    answers = [say("It is rough."), say('{"mood": "stormy"}'), say('Well: {"mood": "rough"}')]
    model = ScriptedModel([call_tools(("llm-task", order)), *answers, say("done")])
    levels = [{"id": "m", "reasoning": True}]
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": levels}
    _, (said,) = await told(tmp_path / "h", model, models={"providers": {"fake": provider}})
    assert json.loads(said) == {"mood": "rough"}
    first, second, third = model.requests[1:4]
    assert (
        not first.tools and first.level == "high" and first.temperature == 0.2 and '{"waves":3}' in str(first.messages)
    )
    assert "holds no JSON" in str(second.messages[-1]) and "one of" in str(third.messages[-1])
    assert isinstance(third.messages[-1], UserMessage) and len(third.messages) == 5
    assert first.owner == "agent:main:main"  # whose budget pays


@pytest.mark.seed(37)
async def test_menu_command_line_and_task_agree_on_the_levels(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("llm-task", {"prompt": "x", "thinking": "max"})), say("done")])
    app, (said,) = await told(tmp_path / "h", model)
    info = app.catalog.default(app.settings.agents["main"])
    row = make_thinking_row(info, app.catalog.vendor(info.ref.provider))
    assert said.endswith(f"Use one of: {', '.join(row.thinkingOptions)}.")


async def test_what_cannot_be_had_is_an_error_of_the_tool(tmp_path: Path) -> None:
    calls = [{"prompt": "x", "schema": {"if": {}}}, {"prompt": "x", "model": "nobody/nothing"}, {"prompt": "x"}]
    model = ScriptedModel([call_tools(*(("llm-task", one) for one in calls)), *[say("no")] * 5, say("done")])
    config = {"entries": {"llm-task": {"config": {"allowedModels": ["fake/m"]}}}}
    _, (schema, unknown, never) = await told(tmp_path / "h", model, plugins=config)
    assert "not supported" in schema and "nobody" in unknown and "no answer of 5" in never


async def test_it_is_there_only_where_the_owner_enabled_it(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([])) as app:
        assert "llm-task" not in app.program.tools
