"""Groups of tools through the App: a list that names a group gives the model these, and the door opens for no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from flow.test_app import settings
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.policy.decide import explain_unknown_tool
from palinurus.core.policy.groups import BASE_TOOLS, BUILTIN_TOOLS, TOOL_GROUPS
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import ToolResult
from palinurus.plugins.api import PluginContributions
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound, tool

SESSIONS = {"sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "subagents", "session_status"}
SESSIONS |= {"session_search"}  # came after the seeds
NATIVE = {"cron", "gateway", "message", "memory_search", "memory_get", "web_search", "web_fetch", *SESSIONS}


async def offer(home: Path, words: list[str], call: str = "session_status") -> tuple[set[str], str]:
    """The tools a model gets where only these words are allowed, and what calling one of them says."""
    model = ScriptedModel([call_tools((call, {})), say("done")])
    brought = PluginContributions(tools={"notes_add": tool("notes_add", origin="notes")})
    app = App(settings(home, tools={"allow": words}), {}, SystemClock(), model=model, given=brought)
    await app.start()
    try:
        await app.wait((await app.submit(inbound("go", sender=Sender("me", owner=True), push=False))).id)
    finally:
        await app.stop()
    (told,) = [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]
    return {spec.name for spec in model.requests[0].tools}, told


@pytest.mark.parametrize(
    ("group", "names"),
    [
        pytest.param("group:fs", {"read", "write", "edit"}, marks=pytest.mark.seed(292)),
        pytest.param("group:runtime", {"exec", "process"}, marks=pytest.mark.seed(293)),
        pytest.param("group:memory", {"memory_search", "memory_get"}, marks=pytest.mark.seed(294)),
        pytest.param("group:web", {"web_search", "web_fetch"}, marks=pytest.mark.seed(295)),
        pytest.param("group:sessions", SESSIONS, marks=pytest.mark.seed(296)),
        pytest.param("group:automation", {"cron", "gateway"}, marks=pytest.mark.seed(298)),
        pytest.param("group:messaging", {"message"}, marks=pytest.mark.seed(299)),
    ],
)
async def test_a_group_gives_its_tools_and_no_other(tmp_path: Path, group: str, names: set[str]) -> None:
    got, told = await offer(tmp_path / "h", [group], "ls")
    assert (
        got - {"apply_patch", "sessions_yield"} == names and "ls" in told and "not" in told
    )  # refused at the door, with the reason


@pytest.mark.seed(301)
async def test_the_group_of_all_native_tools_gives_every_one_of_ours_and_no_plugins(tmp_path: Path) -> None:
    got, told = await offer(tmp_path / "h", ["group:openclaw"])
    everything, _ = await offer(tmp_path / "all", ["*"])
    assert "notes_add" in everything and got == everything - {"notes_add"} - set(BASE_TOOLS) and got >= NATIVE
    assert "agent:main:" in told  # session_status answers


async def test_a_name_without_a_tool_behind_it_is_said_to_have_none(tmp_path: Path) -> None:
    everything, _ = await offer(tmp_path / "h", ["*"])
    named = {name for words in TOOL_GROUPS.values() for name in words} | {"pdf"}
    missing = sorted(named - everything - {"apply_patch", "image"})
    assert missing and all("no such tool in this program yet" in explain_unknown_tool(name, {}) for name in missing)
    assert everything - {"notes_add"} <= BUILTIN_TOOLS
