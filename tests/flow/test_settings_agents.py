"""Settings of agents, through the App: what is written there changes what the model is asked, or what runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings
from flow.test_directives import tell
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.workspace.bootstrap import make_new_workspaces


def agents(**defaults: Any) -> dict[str, Any]:
    return {"defaults": {"model": {"primary": "fake/m"}, **defaults}}


LS, PWD = ("ls", {"path": "."}), ("read", {"path": "missing.txt"})
POLL = ("process", {"action": "poll", "sessionId": "nobody"})


@pytest.mark.parametrize(
    ("rules", "calls", "made"),
    [
        ({}, [LS] * 9, 6),
        ({"criticalThreshold": 4}, [LS] * 9, 4),
        ({"enabled": False}, [LS] * 9, 9),
        ({"detectors": {"genericRepeat": False}}, [LS] * 9, 9),
        ({"detectors": {"genericRepeat": False}, "globalCircuitBreakerThreshold": 7}, [LS] * 9, 7),
        ({"historySize": 5}, [LS] * 9, 9),
        ({}, [LS, PWD] * 7, 11),
        ({"detectors": {"pingPong": False}}, [LS, PWD] * 7, 14),
        ({"detectors": {"genericRepeat": False}}, [LS, PWD] * 7, 11),
        ({}, [POLL] * 8, 6),
        ({"detectors": {"knownPollNoProgress": False}}, [POLL] * 8, 8),
        ({"unknownToolThreshold": 3}, [("nosuch", {"n": n}) for n in range(5)], 3),
        ({}, [("nosuch", {"n": n}) for n in range(12)], 10),
    ],
)
async def test_a_run_that_goes_in_circles_ends_where_loop_detection_says(
    tmp_path: Path, rules: dict[str, Any], calls: list[Any], made: int
) -> None:
    model = ScriptedModel([*(call_tools(one) for one in calls), say("done")])
    async with running(tmp_path / "h", model, FakeChannel(), tools={"loopDetection": rules}) as app:
        said = await tell(app, "go")
    assert len(model.requests) == made + (made == len(calls)) and (said == "done") == (made == len(calls))


async def test_an_agent_has_limits_of_its_own_for_its_tools(tmp_path: Path) -> None:
    own = {"exec": {"timeoutSec": 7, "env": {"SHELL_OF": "ann"}}, "fs": {"workspaceOnly": True}}
    ann = {"id": "ann", "default": True, "tools": {**own, "loopDetection": {"criticalThreshold": 4}}}
    model = ScriptedModel([*[call_tools(LS)] * 4, call_tools(("exec", {"command": "echo $SHELL_OF.$ALL"})), say("x")])
    config = {"agents": {**agents(), "list": [ann, {"id": "bob"}]}, "tools": {"exec": {"env": {"ALL": "all"}}}}
    async with running(tmp_path / "h", model, FakeChannel(), **config) as app:
        await tell(app, "go")
        assert len(model.requests) == 4
        await tell(app, "and now")
        used = app.settings.agents
    assert model.requests[-1].messages[-1].text.strip().startswith("ann.all")
    assert (used["ann"].tools.exec.timeout, used["bob"].tools.exec.timeout) == (7.0, 1800.0)
    assert used["ann"].tools.workspace_only and not used["bob"].tools.workspace_only


async def test_an_agent_says_for_itself_whether_it_patches(tmp_path: Path) -> None:
    ann = {"id": "ann", "default": True, "tools": {"exec": {"applyPatch": {"enabled": False}, "backgroundMs": 20}}}
    config = {"agents": {**agents(), "list": [ann, {"id": "bob"}]}}
    model = ScriptedModel([say("one"), say("two")])
    raw = {**config, "tools": {"exec": {"applyPatch": {"allowModels": ["fake/m"]}}}}
    async with running(tmp_path / "h", model, FakeChannel(), **raw) as app:
        await tell(app, "hi")
        rules = app.settings.policy
    assert "apply_patch" not in [tool.name for tool in model.requests[0].tools]
    assert rules.patch.enabled and rules.patches["ann"].key == "agents.list[0].tools.exec.applyPatch"


@pytest.mark.parametrize(
    ("word", "seen"), [("always", [True, True]), ("continuation-skip", [True, False]), ("never", [False, False])]
)
async def test_context_injection_says_when_workspace_files_are_in_the_prompt(
    tmp_path: Path, word: str, seen: list[bool]
) -> None:
    (tmp_path / "h" / "workspace").mkdir(parents=True)
    (tmp_path / "h" / "workspace" / "AGENTS.md").write_text("Be kind to lobsters.")
    model = ScriptedModel([say("one"), say("two")])
    async with running(tmp_path / "h", model, FakeChannel(), agents=agents(contextInjection=word)) as app:
        await tell(app, "hi")
        await tell(app, "again")
    assert ["lobsters" in request.prompt.stable for request in model.requests] == seen


async def first_words(home: Path, startup: dict[str, Any], command: str) -> str:
    folder = home / "workspace" / "memory"
    folder.mkdir(parents=True)
    for days in (0, 2):
        day = datetime.fromtimestamp(datetime.now(UTC).timestamp() - days * 86_400, UTC)
        (folder / f"{day:%Y-%m-%d}.md").write_text(f"day {days} " + "z" * 50)
    model = ScriptedModel([say("one")])
    async with running(home, model, FakeChannel(), agents=agents(startupContext=startup, userTimezone="UTC")) as app:
        await tell(app, command)
        await tell(app, "hello")
    return model.requests[0].messages[-1].text


async def test_startup_context_says_which_notes_a_new_session_begins_with(tmp_path: Path) -> None:
    assert "day 0" in (usual := await first_words(tmp_path / "a", {}, "/new")) and "day 2" not in usual
    assert "day 2" in await first_words(tmp_path / "b", {"dailyMemoryDays": 4}, "/new")
    assert await first_words(tmp_path / "c", {"enabled": False}, "/new") == "hello"
    assert await first_words(tmp_path / "d", {"applyOn": ["reset"]}, "/new") == "hello"
    assert "day 0" in await first_words(tmp_path / "e", {"applyOn": ["reset"]}, "/reset")
    for at, key in enumerate(("maxFileChars", "maxTotalChars", "maxFileBytes")):
        cut = await first_words(tmp_path / f"f{at}", {key: 20}, "/new")
        assert "day 0" in cut and 0 < cut.count("z") < 20


def test_some_starting_files_can_be_left_out(tmp_path: Path) -> None:
    config = agents(skipOptionalBootstrapFiles=["SOUL.md", "HEARTBEAT.md"])
    made = settings(tmp_path / "h", agents=config)
    make_new_workspaces(made.agents.values())
    names = {file.name for file in (tmp_path / "h" / "workspace").iterdir()}
    assert {"AGENTS.md", "USER.md", "IDENTITY.md", "TOOLS.md"} <= names and not {"SOUL.md", "HEARTBEAT.md"} & names
