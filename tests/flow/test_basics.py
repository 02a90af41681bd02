"""What a run is made of: the loop, which tools, hooks in their order, model references, skills; through the App."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings, until
from flow.test_directives import mine, tell
from palinurus.app import App
from palinurus.core.types.events import AgentEnd, MessageEnd, MessageUpdate, RunEvent
from palinurus.core.types.messages import AssistantMessage, ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, call_tools, fail, say

LAB = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k"}
FREE = {"exec": {"security": "full", "ask": "off"}}
LOOSE = {"defaults": {"model": "fake/m", "sandbox": {"contain": "off"}}}


@pytest.mark.seed(144, 145, 146, 147, 148, 154, 157, 161)
async def test_think_act_observe_until_there_is_nothing_to_do(tmp_path: Path) -> None:
    batch = call_tools(("write", {"path": "a", "content": "1"}), ("read", {"path": "a"}), text="First this.")
    model, events = ScriptedModel([batch, call_tools(("ls", {})), say("All done, human.")], chunk=4), list[RunEvent]()
    async with running(tmp_path / "h", model) as app:
        await app.wait((await app.submit(mine("go"), events.append)).id)
    kinds = [[type(m).__name__ for m in request.messages] for request in model.requests]
    first = ["UserMessage", "AssistantMessage", "ToolResult", "ToolResult"]
    assert kinds == [["UserMessage"], first, [*first, "AssistantMessage", "ToolResult"]]
    assert all(request.prompt.stable.startswith("You are") for request in model.requests)
    ended = [e.message.text for e in events if isinstance(e, MessageEnd) and isinstance(e.message, AssistantMessage)]
    said = "".join(e.delta for e in events if isinstance(e, MessageUpdate))
    assert ended == ["First this.", "", "All done, human."] and said == "".join(ended)
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop"
    assert sum(isinstance(e, MessageUpdate) for e in events) > 4


@pytest.mark.seed(159, 160, 340, 341, 350, 351, 352)
async def test_hooks_change_by_priority_and_watch_beside(tmp_path: Path) -> None:
    model, seen, gate = ScriptedModel([call_tools(("ls", {"path": "."})), say("ok")]), list[str](), asyncio.Event()

    async def slow(payload: dict[str, Any]) -> None:
        await gate.wait()
        seen.append("slow")

    def broken(payload: dict[str, Any]) -> None:
        seen.append("broken")
        raise RuntimeError("oops")

    async with running(tmp_path / "h", model) as app:
        on = app.hooks.on
        on("before_tool_call", lambda p: {"params": {"path": p["params"]["path"] + "/b"}}, priority=1)
        on("before_tool_call", lambda p: {"params": {"path": p["params"]["path"] + "/a"}}, priority=9)
        on("before_tool_call", lambda p: seen.append(p["params"]["path"]), priority=-3)
        for handler in (slow, broken, lambda p: seen.append("quick")):
            on("after_tool_call", handler)
        assert await tell(app, "go") == "ok"  # nobody waited for the slow one, and one that fails hurts nobody
        assert "slow" not in seen and seen[0] == "./a/b" and {"broken", "quick"} <= set(seen)
        gate.set()
        await until(lambda: "slow" in seen)
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolResult) and "a/b" in result.text  # what the last one left is what ran


@pytest.mark.seed(159)
async def test_a_hook_blocks_a_call(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("write", {"path": "x", "content": "1"})), say("ok")])
    async with running(tmp_path / "h", model) as app:
        app.hooks.on("before_tool_call", lambda p: {"block": True, "blockReason": "not on a Sunday"})
        await tell(app, "go")
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolResult) and result.isError and "not on a Sunday" in result.text
    assert not (tmp_path / "h" / "workspace" / "x").exists()


BASE = {"read", "write", "edit", "grep", "find", "ls"}
NATIVE = {"cron", "message", "memory_search", "web_search", "image", "sessions_spawn", "subagents"}
TOOLS: list[tuple[dict[str, Any], set[str], set[str]]] = [  # tools section, tools that are there, tools that are not
    ({}, BASE | NATIVE | {"exec", "process"}, {"apply_patch"}),
    ({"profile": "minimal"}, {"session_status"}, BASE | NATIVE | {"exec"}),
    ({"profile": "coding"}, BASE | {"exec", "process", "sessions_list", "memory_get", "image"}, {"message", "gateway"}),
    ({"profile": "messaging"}, {"message", "sessions_send"}, BASE | {"exec", "cron"}),
    ({"profile": "full"}, BASE | NATIVE | {"exec", "gateway"}, set()),
    ({"profile": "minimal", "alsoAllow": ["group:runtime"]}, {"session_status", "exec", "process"}, BASE),
    ({"allow": ["read"], "deny": []}, {"read"}, {"ls", "session_status"}),
    ({"profile": "coding", "deny": ["group:fs"]}, {"exec", "image"}, {"read", "write", "edit"}),
    ({"profile": "coding", "byProvider": {"fake": {"profile": "minimal"}}}, {"session_status"}, {"exec"}),
    ({"byProvider": {"fake/m": {"deny": ["exec"]}}}, BASE, {"exec"}),
]


@pytest.mark.seed(274, 275, 276, 278, 279, 281, 282, 283, 284, 285, 290, 291)
async def test_which_tools_a_section_gives(tmp_path: Path) -> None:
    seeing = {"providers": {"fake": {**LAB, "models": [{"id": "m", "input": ["text", "image"]}]}}}
    for number, (section, there, gone) in enumerate(TOOLS):
        model = ScriptedModel(["ok"])
        async with running(tmp_path / f"h{number}", model, FakeChannel(), tools=section, models=seeing) as app:
            await tell(app, "hi")
        names = {tool.name for tool in model.requests[0].tools}
        assert (there - names, gone & names) == (set(), set()), section


@pytest.mark.seed(279)
@pytest.mark.parametrize(("section", "there"), [({}, True), ({"exec": {"applyPatch": {"enabled": False}}}, False)])
async def test_apply_patch_has_a_switch(tmp_path: Path, section: dict[str, Any], there: bool) -> None:
    model = ScriptedModel(["ok"])
    raw = {"agents": {"defaults": {"model": "openai/gpt-5.5"}}, "models": {"providers": {"openai": {"apiKey": "k"}}}}
    async with running(tmp_path / "h", model, FakeChannel(), tools=section, **raw) as app:
        await tell(app, "hi")
    assert ("apply_patch" in {tool.name for tool in model.requests[0].tools}) is there


@pytest.mark.seed(274, 275)
async def test_files_are_made_found_changed_and_commands_go_on_behind(tmp_path: Path) -> None:
    rounds = [
        ("write", {"path": "d/a.txt", "content": "one\ntwo\n"}), ("read", {"path": "d/a.txt"}),
        ("edit", {"path": "d/a.txt", "edits": [{"oldText": "two", "newText": "three"}]}),
        ("grep", {"pattern": "thr.e", "path": "."}), ("find", {"pattern": "*.txt"}), ("ls", {"path": "d"}),
        ("exec", {"command": "cat d/a.txt; while [ ! -e go ]; do sleep 0.02; done; echo over", "background": True}),
        ("process", {"action": "list"}),
    ]  # fmt: skip
    model = ScriptedModel([*(call_tools(one) for one in rounds), say("done")])
    async with running(tmp_path / "h", model, agents=LOOSE, tools=FREE) as app:
        assert await tell(app, "go") == "done"
        (tmp_path / "h" / "workspace" / "go").touch()
    told = [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]
    assert "two" in told[1] and "d/a.txt" in told[3] and "a.txt" in told[4] and "a.txt" in told[5]
    assert (tmp_path / "h" / "workspace" / "d" / "a.txt").read_text() == "one\nthree\n"
    session = re.search(r"[a-z]+-[a-z]+", told[6])
    assert session and session[0] in told[7]  # it runs on, and can be looked after


def lab(*names: str) -> dict[str, Any]:
    return {**LAB, "models": [{"id": name} for name in names]}


@pytest.mark.seed(383, 384, 385, 386)
@pytest.mark.parametrize(
    ("providers", "model", "aliases", "used"),
    [
        ({"a": lab("x"), "b": lab("y")}, "b/y", {}, "b/y"),
        (
            {"openrouter": {"apiKey": "k"}, "b": lab("y")},
            "openrouter/moonshotai/kimi-k2",
            {},
            "openrouter/moonshotai/kimi-k2",
        ),
        ({"a": lab("x", "m/z"), "b": lab("y")}, "a/m/z", {}, "a/m/z"),
        ({"a": lab("x"), "b": lab("y")}, "y", {}, "b/y"),
        ({"a": lab("y"), "b": lab("x")}, "y", {"b/x": {"alias": "Y"}}, "b/x"),
        ({"a": lab("x"), "b": lab("y")}, "b/gone", {}, "a/x"),
        ({"a": lab("x"), "b": lab("y")}, "removed/z", {}, "a/x"),
    ],
)
async def test_which_model_a_reference_means(
    tmp_path: Path, providers: dict[str, Any], model: str, aliases: dict[str, Any], used: str
) -> None:
    mind = ScriptedModel(["ok"])
    raw = {"models": {"providers": providers}, "agents": {"defaults": {"model": model, "models": aliases}}}
    async with running(tmp_path / "h", mind, FakeChannel(), **raw) as app:
        await tell(app, "hi")
    assert str(mind.requests[0].model.ref) == used


@pytest.mark.seed(385)
@pytest.mark.parametrize(
    ("typed", "used"), [("quick", "b/x"), ("gpt-5.4", "b/gpt-5.4"), ("gpt-9-new", "openai/gpt-9-new"), ("x", "b/x")]
)
async def test_a_bare_name_is_an_alias_then_of_one_configured_provider_then_of_the_default_one(
    tmp_path: Path, typed: str, used: str
) -> None:
    """The default provider has a gpt-5.4, too, and models of that alias's name may come."""
    mind, providers = ScriptedModel(["ok"]), {"openai": {"apiKey": "k"}, "b": lab("gpt-5.4", "x")}
    agents = {"defaults": {"model": "openai/gpt-5.5", "models": {"b/x": {"alias": "Quick"}}}}
    async with running(tmp_path / "h", mind, FakeChannel(), models={"providers": providers}, agents=agents) as app:
        await tell(app, f"/model {typed}")
        await tell(app, "hi")
    assert str(mind.requests[0].model.ref) == used


@pytest.mark.seed(388, 390)
async def test_the_highest_of_six_roots_gives_a_skill(tmp_path: Path) -> None:
    home, user, extra = tmp_path / "h", tmp_path / "u", tmp_path / "extra"
    work = home / "workspace"
    roots = [work / "skills", work / ".agents" / "skills", user / ".agents" / "skills", home / "skills"]
    for root in (*roots, extra):
        (root / "summarize").mkdir(parents=True)
        (root / "summarize" / "SKILL.md").write_text(f"---\nname: summarize\ndescription: from {root}\n---\nDo.")
    (extra / "only").mkdir()
    (extra / "only" / "SKILL.md").write_text("---\nname: only\ndescription: a <b> & c\n---\nDo.")
    for root in (*roots, None):
        model = ScriptedModel(["ok"])
        environ, more = {"HOME": str(user)}, {"skills": {"load": {"extraDirs": [str(extra)]}}}
        async with running(home, model, FakeChannel(), environ=environ, **more) as app:
            await tell(app, "hi", event=str(root))
        listed = model.requests[0].prompt.stable.partition("<available_skills>\n")[2]
        (entry,) = re.findall(r"<name>summarize</name>\n.*\n.*</location>", listed)
        assert (f"from {root}<" in entry) if root else "from /" not in entry  # bundled goes before extra folders
        where = entry.partition("<location>")[2].removesuffix("</location>").replace("~", str(user), 1)
        assert Path(where).is_file() and where.startswith(f"{root or '/'}")  # it can be read there
        assert "<description>a &lt;b&gt; &amp; c</description>" in listed
        if root:
            (root / "summarize" / "SKILL.md").unlink()


@pytest.mark.seed(389, 392, 393, 395)
async def test_who_gets_which_skills(tmp_path: Path) -> None:
    home = tmp_path / "h"
    gated = {
        "plain": "{}",
        "env": '{"requires": {"env": ["LOBSTER"]}}',
        "bins": '{"requires": {"bins": ["no-such-program"]}}',
        "config": '{"requires": {"config": ["talk.on"]}}',
    }
    for name, gate in gated.items():
        (home / "workspace" / "skills" / name).mkdir(parents=True)
        head = f'---\nname: {name}\ndescription: {"d" * 60}\nmetadata: {{"openclaw": {gate}}}\n---\n'
        (home / "workspace" / "skills" / name / "SKILL.md").write_text(head)
    every = {"plain", "library", "palinurus-help", "summarize"}
    for number, (environ, raw, there) in enumerate([
        ({}, {}, every),
        ({"LOBSTER": "1"}, {}, every | {"env"}),
        ({}, {"skills": {"entries": {"plain": {"enabled": False}}}}, every - {"plain"}),
        ({}, {"agents": {"defaults": {"model": "fake/m", "skills": ["plain"]}}}, {"plain"}),
        ({}, {"agents": {"defaults": {"skills": ["plain"]}, "list": [{"id": "main", "skills": []}]}}, set()),
        ({}, {"skills": {"limits": {"maxSkillsPromptChars": 220}}}, {"library"}),
        ({}, {"skills": {"limits": {"maxSkillsPromptChars": 220}},
              "agents": {"list": [{"id": "main", "skillsLimits": {"maxSkillsPromptChars": 9000}}]}}, every),
    ]):  # fmt: skip
        model = ScriptedModel(["ok"])
        async with running(home, model, FakeChannel(), environ=environ, **raw) as app:
            await tell(app, "hi", event=str(number))
        names = set(re.findall("<name>(.*)</name>", model.requests[0].prompt.stable))
        assert names <= there if "limits" in str(raw) and "skillsLimits" not in str(raw) else names == there, raw
        assert ("## Skills" in model.requests[0].prompt.stable) is bool(names)


@pytest.mark.seed(260, 376, 387)
async def test_the_smallest_config_and_nothing_of_other_tools(tmp_path: Path) -> None:
    home = tmp_path / "h"
    for place in (".openclaw", ".pi", ".claude", ".codex", "sessions", "workspace/.openclaw"):
        for folder in (tmp_path / place, home / place):
            other = folder / "agents" / "main" / "sessions" / "0f5e1a2b-0000-4000-8000-000000000000.jsonl"
            other.parent.mkdir(parents=True)
            other.write_text(json.dumps({"type": "session", "id": other.stem, "version": 3}) + "\n")
    raw = {
        "agents": {"defaults": {"workspace": str(tmp_path / "w")}},
        "channels": {"whatsapp": {"allowFrom": ["+15555550123"], "enabled": False}},
    }
    model = ScriptedModel([call_tools(("exec", {"command": "pwd"})), say("ok")])
    environ = {"HOME": str(tmp_path)}
    async with running(home, model, FakeChannel(), environ=environ, tools=FREE, **raw) as app:
        assert [row.key for row in await app.store.sessions()] == []
        assert await tell(app, "hello") == "ok"
        assert [row.key for row in await app.store.sessions()] == ["agent:main:main"]
    assert [m.text for m in model.requests[0].messages] == ["hello"]
    assert model.requests[1].messages[-1].text.strip() == str(tmp_path / "w")


@pytest.mark.seed(374, 375)
async def test_a_session_keeps_its_id_and_its_file_over_turns_and_starts(tmp_path: Path) -> None:
    home, ids = tmp_path / "h", list[str]()
    for n in range(2):
        async with running(home, ScriptedModel(["ok"], repeat=True), FakeChannel()) as app:
            for m in range(2):
                await tell(app, f"{n}{m}", event=f"{n}{m}")
            row = await app.store.session("agent:main:main")
            assert row is not None
            ids.append(row.session_id)
    (file,) = (home / "agents" / "main" / "sessions").glob("*.jsonl")
    assert ids[0] == ids[1] == file.stem
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    said = [line["message"]["content"] for line in lines if line.get("message", {}).get("role") == "user"]
    assert said == ["00", "01", "10", "11"]


@pytest.mark.seed(75, 76, 77, 78)
@pytest.mark.parametrize(
    ("params", "fast"),
    [
        ({}, [True, True, False, False]),
        ({"fastAutoOnSeconds": 70}, [True, True, True, False]),
        ({"fastAutoOnSeconds": 0}, [False] * 4),
    ],
)
async def test_auto_asks_the_clock_at_every_call(tmp_path: Path, params: dict[str, Any], fast: list[bool]) -> None:
    """Calls begin after 0, 31, 62 (a try that is made again) and 93 seconds."""
    clock = FakeClock(0)

    def later(answer: Any) -> Any:
        def step(request: Any) -> Any:
            clock.jump(31)
            return answer

        return step

    look = call_tools(("ls", {}))
    model = ScriptedModel([later(look), later(fail("malformed")), later(look), say("ok")])
    agents = {"defaults": {"model": "fake/m", "models": {"fake/m": {"params": params}}}}
    app = App(settings(tmp_path / "h", agents=agents), {}, clock, model=model)
    await app.start()
    try:
        await tell(app, "/fast auto")
        assert await tell(app, "go") == "ok"
    finally:
        await app.stop()
    assert [request.fast for request in model.requests] == fast
