"""Policy through the whole program: what explain says is what the model gets, and the one door refuses the rest."""

from __future__ import annotations

import asyncio
import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palinurus.app import App
from palinurus.cli.look.preview import preview_run
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools, fail, say

CONFIG: dict[str, Any] = {
    "models": {
        "providers": {
            "fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}, {"id": "gpt-5"}]},
            "small": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "k",
                "models": [{"id": "s", "compat": {"toolNames": ["read", "exec"]}}],
            },
        }
    },
    "agents": {"defaults": {"model": {"primary": "fake/m"}}, "list": [{"id": "main"}]},
    "tools": {"loopDetection": {"unknownToolThreshold": 1000}},  # all that is hidden is called here
}
OWNER = Sender("me", owner=True)
STRANGER = Sender("7", "Bob", allowed=True)


def message(sender: Sender = OWNER, **changes: Any) -> Inbound:
    fields: dict[str, Any] = {"target": Target("telegram", "-5"), "text": "do it", "at": 0, "push": False, **changes}
    return Inbound(sender=sender, event="", **fields)


MESSAGES = (
    message(),
    message(STRANGER),
    message(STRANGER, kind="group"),
    message(kind="group", target=Target("telegram", "-6")),
    message(session="agent:main:subagent:x"),
    message(session="agent:main:subagent:x:subagent:y"),
    message(options=TurnOptions(model="small/s")),
    message(options=TurnOptions(model="fake/gpt-5")),
)


class Curious(ScriptedModel):
    """Calls every tool it was not given, once."""

    names: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__([self.answer], repeat=True)

    def answer(self, request: ModelRequest) -> ScriptedTurn:
        missing = sorted(self.names - {tool.name for tool in request.tools})
        if missing and not isinstance(request.messages[-1], ToolResult):
            return call_tools(*((name, {}) for name in missing))
        return say("done")


async def compared(raw: dict[str, Any], home: str, messages: tuple[Inbound, ...]) -> None:
    Path(home, "palinurus.json").write_text(json.dumps(raw))
    known = load_config(home, {"HOME": home}).settings
    model = Curious()
    app = App(known, {"HOME": home}, SystemClock(), model=model)
    await app.start()
    try:
        for number, inbound in enumerate(messages):
            verdict = (await preview_run(known, {"HOME": home}, inbound)).verdict
            model.names = frozenset(verdict.traces)
            model.requests.clear()
            accepted = await app.submit(inbound)
            assert (await app.wait(accepted.id)).outcome == "answered", number
            assert tuple(tool.name for tool in model.requests[0].tools) == verdict.offered, number
            refused = [m for m in model.requests[-1].messages if isinstance(m, ToolResult)]
            now = refused[len(refused) - len(verdict.hidden) :]
            assert sorted(m.toolName for m in now) == sorted(verdict.hidden)
            assert all(m.isError and m.text.startswith(f"Tool {m.toolName} not found.") for m in now)
    finally:
        await app.stop()


def merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}
    return over


WORDS = st.sampled_from(
    [
        "read",
        "bash",
        "write",
        "grep",
        "*",
        "mem*",
        "raed",
        "session_status",
        "group:fs",
        "group:runtime",
        "group:memory",
    ]
)
LISTS = st.lists(WORDS, max_size=2)
SOME = st.fixed_dictionaries({}, optional={"allow": LISTS, "deny": LISTS})
PROFILED = st.fixed_dictionaries(
    {},
    optional={"allow": LISTS, "deny": LISTS, "profile": st.sampled_from(["minimal", "messaging", "coding", "full"])},
)
TOOLS = st.builds(
    lambda own, here, sandbox: {**own, "byProvider": here, "sandbox": {"tools": sandbox}},
    PROFILED,
    st.dictionaries(st.sampled_from(["fake", "fake/m", "small"]), PROFILED, max_size=2),
    SOME,
)
OVER = st.builds(
    lambda tools, agent, mode, chat, sender, deep: {
        "tools": {**tools, "subagents": {"tools": sender}},
        "agents": {
            "defaults": {"sandbox": {"mode": mode}, "subagents": {"maxSpawnDepth": deep}},
            "list": [{"id": "main", "tools": agent}],
        },
        "channels": {
            "telegram": {"enabled": False, "groups": {"*": {"tools": chat, "toolsBySender": {"id:7": sender}}}}
        },
    },
    TOOLS,
    TOOLS,
    st.sampled_from(["off", "non-main", "all"]),
    SOME,
    SOME,
    st.integers(1, 2),
)


@pytest.mark.seed(278, 281, 283, 284, 285, 286, 287, 288, 289)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(over=OVER)
def test_explain_says_what_the_model_gets_and_the_door_refuses_the_rest(over: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(compared(merged(copy.deepcopy(CONFIG), over), home, MESSAGES))


@pytest.mark.torture
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(over=OVER)
def test_explain_says_what_the_model_gets_many_times(over: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(compared(merged(copy.deepcopy(CONFIG), over), home, MESSAGES))


async def turn(app: App, inbound: Inbound) -> str:
    return (await app.wait((await app.submit(inbound)).id)).note


async def started(home: Path, model: ScriptedModel, over: dict[str, Any]) -> App:
    home.mkdir()
    (home / "palinurus.json").write_text(json.dumps(merged(CONFIG, over)))
    app = App(load_config(str(home), {}).settings, {}, SystemClock(), model=model)
    await app.start()
    return app


async def test_a_stand_in_gets_no_more_than_its_own_policy_allows(tmp_path: Path) -> None:
    """The first model fails; the one that stands in for it asks for a tool that only the first may use."""
    (tmp_path / "note").write_text("secret")
    script = [fail("auth", "no"), call_tools(("exec", {"command": "touch ran"})), say("done")]
    model = ScriptedModel(script)
    over = {
        "agents": {"defaults": {"model": {"primary": "fake/m", "fallbacks": ["small/s"]}}},
        "tools": {"byProvider": {"small": {"deny": ["exec"]}}},
    }
    app = await started(tmp_path / "h", model, over)
    try:
        await turn(app, message())
    finally:
        await app.stop()
    first, second, third = model.requests
    assert "exec" in {t.name for t in first.tools} and {t.name for t in second.tools} == {"read"}
    (result,) = [m for m in third.messages if isinstance(m, ToolResult)]
    assert result.isError and result.text.startswith("Tool exec not found.")
    assert not (tmp_path / "h" / "workspace" / "ran").exists()


async def test_the_same_question_gets_the_same_bytes(tmp_path: Path) -> None:
    model = ScriptedModel([say("a")], repeat=True)
    app = await started(tmp_path / "h", model, {"tools": {"deny": ["exec"]}})
    try:
        await turn(app, message())
        await turn(app, message())
    finally:
        await app.stop()
    first, second = model.requests
    assert first.tools is second.tools and first.prompt.stable == second.prompt.stable
    assert "exec" not in {t.name for t in first.tools}


async def test_exec_denied_in_a_session_is_told_by_tools_why(tmp_path: Path) -> None:
    model = ScriptedModel([say("a")], repeat=True)
    app = await started(tmp_path / "h", model, {})
    try:
        await turn(app, message(text="/exec security=deny"))
        await turn(app, message())
        assert "exec" not in {t.name for t in model.requests[-1].tools}
        assert "/exec security=deny was said here" in await turn(app, message(text="/tools why bash"))
    finally:
        await app.stop()


@pytest.mark.seed(280)
async def test_what_tools_md_says_changes_no_tool(tmp_path: Path) -> None:
    model = ScriptedModel([say("a")], repeat=True)
    app = await started(tmp_path / "h", model, {"tools": {"allow": ["read"]}})
    try:
        workspace = Path(app.settings.agents["main"].workspace)
        (workspace / "TOOLS.md").write_text("You have the tool exec. allow: exec, write. read is disabled.")
        await turn(app, message())
    finally:
        await app.stop()
    assert [t.name for t in model.requests[0].tools] == ["read"]
    assert "You have the tool exec" in model.requests[0].prompt.text


def sample(schema: dict[str, Any]) -> Any:
    """A value that fits."""
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [sample(schema["items"])]
        case "string":
            return "x"
        case _:
            return 1


@pytest.mark.seed(302)
async def test_every_tool_that_survives_goes_through_the_hooks(tmp_path: Path) -> None:
    """before_tool_call sees all of them and can stop any; after_tool_call sees those that ran."""
    called: list[str] = []
    before: list[str] = []
    after: list[str] = []

    def answer(request: ModelRequest) -> ScriptedTurn:
        if isinstance(request.messages[-1], ToolResult):
            return say("done")
        called.extend(tool.name for tool in request.tools)
        return call_tools(*((tool.name, sample(tool.parameters)) for tool in request.tools))

    model = ScriptedModel([answer], repeat=True)
    app = await started(tmp_path / "h", model, {})
    let = ("ls", "find", "update_plan", "session_status", "agents_list")

    def judge(payload: dict[str, Any]) -> dict[str, Any]:
        before.append(payload["toolName"])
        return {} if payload["toolName"] in let else {"block": True, "blockReason": "not today"}

    app.hooks.on("before_tool_call", judge)
    app.hooks.on("after_tool_call", lambda payload: after.append(payload["toolName"]))
    try:
        await turn(app, message())
    finally:
        await app.stop()
    results = {m.toolName: m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)}
    assert len(called) > 10 and sorted(before) == sorted(called) == sorted(results)
    assert sorted(after) == sorted(let)
    assert all(text == "not today" for name, text in results.items() if name not in let)
