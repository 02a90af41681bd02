"""Sub-agents through the whole App: started, limited, followed, announced once, ended with all they started."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import CONFIG, running, until
from palinurus.app import App
from palinurus.core.types.inbound import Sender, TurnOptions
from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.services.subagents.registry import SubagentRecord
from palinurus.sessions.record import SessionRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptedTurn, StreamGate, call_tools, fail, hold_at, say
from palinurus.tools.commands.descendants import list_processes as alive
from palinurus.tools.program.subagents import SpawnOrder
from support import inbound

MAIN = "agent:main:main"
Part = Callable[[ModelRequest], ScriptedTurn]


class Cast(ScriptedModel):
    """A model whose answers depend on whom it plays: the main session, or the sub-agent with a word in its task."""

    def __init__(self, main: Part | list[Any], **children: Part | list[Any] | ScriptedTurn) -> None:
        super().__init__([self._play], repeat=True)
        self._parts = {"main": main, **children}
        self._at: dict[str, int] = {}
        self.heard: dict[str, list[ModelRequest]] = {}
        self.gate = StreamGate()  # sub-agents wait here

    def _play(self, request: ModelRequest) -> ScriptedTurn:
        who = self.who(request)
        self.heard.setdefault(who, []).append(request)
        part = self._parts[who]
        if isinstance(part, list):
            number = self._at[who] = self._at.get(who, -1) + 1
            step = part[min(number, len(part) - 1)]
            turn = step(request) if callable(step) else step
        else:
            turn = part(request) if callable(part) else part
        return turn if who == "main" or turn.gates else hold_at(turn, self.gate, 0)

    def who(self, request: ModelRequest) -> str:
        prompt = request.prompt.stable + request.prompt.volatile
        if "- Task: " not in prompt:
            return "main"
        task = prompt.partition("- Task: ")[2].split()[0]
        return task if task in self._parts else "child"


async def started(app: App, channel: FakeChannel, cast: Cast) -> None:
    """The owner's message is answered; only then sub-agents begin to speak."""
    await ask(app, "go", "e1")
    await until(lambda: bool(channel.texts))
    cast.gate.open()


async def ask(app: App, text: str, event: str) -> str:
    """The owner writes."""
    return (await app.submit(inbound(text, event=event, sender=Sender("me", owner=True)))).id


def spawn(task: str, **args: Any) -> tuple[str, dict[str, Any]]:
    return "sessions_spawn", {"task": task, **args}


def config(listed: list[Any] | None = None, **subagents: Any) -> dict[str, Any]:
    defaults = {**CONFIG["agents"]["defaults"], "subagents": subagents, "sandbox": {"contain": "off"}}
    return {"agents": {"defaults": defaults, **({"list": listed} if listed else {})}}


def result(request: ModelRequest, name: str = "sessions_spawn") -> dict[str, Any]:
    found = [m for m in request.messages if isinstance(m, ToolResult) and m.toolName == name]
    return dict(json.loads(found[-1].text))


def last(request: ModelRequest) -> str:
    return next(m.text for m in reversed(request.messages) if isinstance(m, UserMessage))


def told(cast: Cast, who: str = "main") -> list[str]:
    """The results of sub-agents that a session has been told, each once."""
    users = {m.text for r in cast.heard[who] for m in r.messages if isinstance(m, UserMessage)}
    return sorted(text for text in users if text.startswith("System: sub-agent"))


async def settled(app: App) -> None:
    async with asyncio.timeout(60):
        while any(c.state != "told" for c in app.subagents.registry.every()) or app.dispatcher.busy:
            await asyncio.sleep(0.005)


def children(app: App) -> list[SubagentRecord]:
    return app.subagents.registry.every()


async def record(app: App, session: str) -> SessionRecord:
    row = await app.store.session(session)
    assert row is not None
    return SessionRecord.decode(row.data)


@pytest.mark.seed(357, 360, 361, 362, 363)
async def test_a_result_is_pushed_to_the_parent_and_reaches_the_person(tmp_path: Path) -> None:
    cast = Cast(
        [call_tools(spawn("dig for gold", label="digger")), say("started"), say("We found gold.")],
        child=say("found 3 nuggets"),
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await until(lambda: len(channel.texts) == 2)
        await settled(app)
        (child,) = children(app)
        own = await record(app, child.session)
        (item,) = [row for row in [await app.store.item(child.item)] if row]
    assert channel.texts == ["started", "We found gold."]
    accepted = result(cast.heard["main"][1])
    assert accepted["status"] == "accepted" and accepted["runId"] == child.id and accepted["mode"] == "run"
    assert child.session == accepted["childSessionKey"] == f"agent:main:subagent:{child.id}"
    assert (own.spawnedBy, own.spawnDepth, own.label, own.subagentRole) == (MAIN, 1, "digger", "leaf")
    assert item.lane == "subagent"
    (request,) = cast.heard["child"]
    prompt = request.prompt.stable + request.prompt.volatile
    assert "## Subagent Context" in prompt and MAIN in prompt and "Label: digger" in prompt
    assert "## Silent Replies" not in prompt  # the minimal prompt
    assert [m.text for m in request.messages] == ["[Subagent Task]\ndig for gold"]
    (text,) = told(cast)
    assert text.startswith("System: sub-agent “digger” completed successfully.\n\nResult:\n")
    assert "found 3 nuggets" in text and "Stats: runtime" in text and "tokens 15 (in 10 / out 5)" in text
    assert (child.state, child.outcome) == ("told", "ok")


@pytest.mark.seed(353, 354, 367, 368, 369)
async def test_a_leaf_can_start_nobody(tmp_path: Path) -> None:
    cast = Cast(
        [call_tools(spawn("leaf work")), say("started"), say("done")],
        leaf=[call_tools(spawn("more")), say("I could not")],
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await until(lambda: len(channel.texts) == 2)
        await settled(app)
        assert len(children(app)) == 1
    first, second = cast.heard["leaf"]
    names = {tool.name for tool in first.tools}
    assert not names & {"sessions_spawn", "sessions_list", "sessions_history", "cron", "gateway", "agents_list"}
    assert not names & {"memory_search", "memory_get", "sessions_send"} and "subagents" in names
    assert "not found" in second.messages[-1].text


@pytest.mark.seed(353, 363, 367)
async def test_an_orchestrator_is_done_when_its_own_are_done(tmp_path: Path) -> None:
    def boss(request: ModelRequest) -> ScriptedTurn:
        got = [m for m in request.messages if isinstance(m, UserMessage) and m.text.startswith("System: sub-agent")]
        if not any(isinstance(m, ToolResult) for m in request.messages):
            return call_tools(spawn("one part"), spawn("two part"))
        return say(f"all {len(got)} are in") if len(got) == 2 else say("waiting")

    cast = Cast(
        [call_tools(spawn("boss work")), say("started"), say("done")],
        boss=boss,
        one=say("first part"),
        two=say("second"),
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config(maxSpawnDepth=2)) as app:
        await started(app, channel, cast)
        await until(lambda: len(channel.texts) == 2)
        await settled(app)
        assert sorted((c.depth, c.outcome) for c in children(app)) == [(1, "ok"), (2, "ok"), (2, "ok")]
        boss_key = next(c.session for c in children(app) if c.depth == 1)
        assert (await record(app, boss_key)).subagentRole == "orchestrator"
    names = {tool.name for tool in cast.heard["boss"][0].tools}
    assert {"sessions_spawn", "subagents", "sessions_list", "sessions_history"} <= names
    assert not names & {"cron", "gateway", "sessions_send", "memory_search"}
    assert "sessions_spawn" not in {tool.name for tool in cast.heard["one"][0].tools}
    (text,) = told(cast)
    assert "all 2 are in" in text and "waiting" not in text
    assert len(told(cast, "boss")) == 2 and channel.texts == ["started", "done"]


@pytest.mark.seed(355)
async def test_no_more_children_than_allowed_also_when_all_are_asked_for_at_once(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast(
        [call_tools(*(spawn(f"job {n}") for n in range(9))), say("started"), say("NO_REPLY")],
        child=hold_at(say("ok"), gate, 0),
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await until(lambda: len(cast.heard.get("child", ())) == 5)
        await until(lambda: bool(channel.texts))
        results = [json.loads(m.text) for m in cast.heard["main"][1].messages if isinstance(m, ToolResult)]
        assert [r["status"] for r in results].count("accepted") == 5
        assert "maxChildrenPerAgent is 5" in next(r["error"] for r in results if r["status"] == "forbidden")
        assert len(children(app)) == 5
        gate.open()
        await settled(app)
    assert len(told(cast)) == 5


@pytest.mark.seed(356, 357)
async def test_which_agents_may_be_started(tmp_path: Path) -> None:
    agents = [{"id": "main", "subagents": {"allowAgents": ["work"]}}, {"id": "work"}, {"id": "other"}]
    asked = call_tools(spawn("a", agentId="work"), spawn("b", agentId="other"), spawn("c", agentId="nobody"))
    cast = Cast([asked, say("ok"), say("NO_REPLY")], child=say("ok"))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config(agents)) as app:
        await started(app, channel, cast)
        await until(lambda: bool(channel.texts))
        await settled(app)
        (child,) = children(app)
    assert child.session.startswith("agent:work:subagent:")
    results = [json.loads(m.text) for m in cast.heard["main"][1].messages if isinstance(m, ToolResult)]
    assert [r["status"] for r in results] == ["accepted", "forbidden", "forbidden"]
    assert "allowAgents: main, work" in results[1]["error"]


@pytest.mark.seed(358, 359)
@pytest.mark.parametrize(
    ("args", "subagents", "own", "expected"),
    [
        ({}, {}, {}, ("fake/m", None)),
        ({}, {"model": "fake/g", "thinking": "low"}, {}, ("fake/g", "low")),
        ({}, {"model": "fake/g"}, {"model": "fake/a", "thinking": "high"}, ("fake/a", "high")),
        ({"model": "fake/p", "thinking": "medium"}, {"model": "fake/g"}, {"model": "fake/a"}, ("fake/p", "medium")),
    ],
)
async def test_which_model_and_level_a_sub_agent_gets(
    tmp_path: Path, args: dict[str, Any], subagents: Any, own: Any, expected: tuple[str, str | None]
) -> None:
    listed = [{"id": "main", "subagents": own}]
    models = [{"id": name, "reasoning": True} for name in "mgap"]
    providers = {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": models}}
    cast = Cast([call_tools(spawn("it", **args)), say("ok"), say("NO_REPLY")], child=say("ok"))
    channel = FakeChannel()
    changes = {**config(listed, **subagents), "models": {"providers": providers}}
    async with running(tmp_path / "h", cast, channel, **changes) as app:
        await started(app, channel, cast)
        await until(lambda: "child" in cast.heard)
        await settled(app)
        (child,) = children(app)
        assert (await record(app, child.session)).thinkingLevel == expected[1]
    assert str(cast.heard["child"][0].model.ref) == expected[0] == child.model


async def test_what_cannot_be_is_refused_with_the_reason(tmp_path: Path) -> None:
    asked = [
        spawn("a", model="fake/none/such"),
        spawn("b", thinking="very much"),
        spawn("c", channel="telegram"),
        spawn("d", attachments=[{"name": "../x", "content": "y"}]),
        spawn("e", sandbox="require"),
    ]
    cast = Cast([call_tools(*asked), say("ok")])
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await until(lambda: bool(channel.texts))
        assert children(app) == [] and await app.store.list_records("child") == []
        assert [row.key for row in await app.store.sessions()] == [MAIN]
    results = [m for m in cast.heard["main"][1].messages if isinstance(m, ToolResult)]
    assert all(m.isError for m in results)
    for m, word in zip(results, ("none", "no level", "writes to nobody", "file name", "sandbox"), strict=True):
        assert word in m.text, m.text


@pytest.mark.parametrize("how", ["error", "timeout"])
async def test_failures_and_time_outs_are_told_too(tmp_path: Path, how: str) -> None:
    gate = StreamGate()
    part = fail("auth", "no key") if how == "error" else hold_at(say("late"), gate, 0)
    args = {} if how == "error" else {"runTimeoutSeconds": 0.2}
    cast = Cast([call_tools(spawn("it", **args)), say("started"), say("I see")], child=part)
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await until(lambda: len(channel.texts) == 2)
        await settled(app)
        assert children(app)[0].outcome == how
    (text,) = told(cast)
    assert {"error": "“it” failed: ", "timeout": "“it” timed out."}[how] in text


@pytest.mark.parametrize("word", ["ANNOUNCE_SKIP", "NO_REPLY"])
async def test_a_chosen_silence_is_told_nobody(tmp_path: Path, word: str) -> None:
    cast = Cast([call_tools(spawn("it")), say("started"), say("never")], child=say(word))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await until(lambda: bool(children(app)))
        await settled(app)
        await until(lambda: bool(channel.texts))
    assert channel.texts == ["started"] and len(cast.heard["main"]) == 2


@pytest.mark.seed(363)
async def test_a_busy_parent_gets_the_result_in_its_run_once(tmp_path: Path) -> None:
    gate = StreamGate()

    def second(request: ModelRequest) -> ScriptedTurn:
        return say("I know already") if last(request).startswith("System: sub-agent") else call_tools(("ls", {}))

    cast = Cast([call_tools(spawn("it")), hold_at(call_tools(("ls", {})), gate, 0), second], child=say("quick"))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await gate.wait_reached()
        cast.gate.open()
        async with asyncio.timeout(60):
            while not await app.store.list_waiting("agent:main:main"):  # its result is there, not only its end
                await asyncio.sleep(0.005)
        gate.open()
        await settled(app)
        await until(lambda: bool(channel.texts))
    assert channel.texts == ["I know already"] and len(told(cast)) == 1


async def test_a_parent_that_was_reset_is_told_in_its_new_session(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast([call_tools(spawn("it")), say("started"), say("late news")], child=hold_at(say("slow result"), gate, 0))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await gate.wait_reached()
        await until(lambda: len(channel.texts) == 1)
        before = (await record(app, MAIN)).sessionId
        await ask(app, "/new", "e2")
        await until(lambda: len(channel.texts) == 2)
        gate.open()
        await settled(app)
        await until(lambda: len(channel.texts) == 3)
        assert (await record(app, MAIN)).sessionId != before
    assert channel.texts[-1] == "late news" and "slow result" in told(cast)[0]
    assert len(cast.heard["main"][-1].messages) == 1


async def test_a_result_waits_for_the_next_start(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast([call_tools(spawn("it")), say("started")], child=hold_at(say("never heard"), gate, 0))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await gate.wait_reached()
        await until(lambda: len(channel.texts) == 1)
    again, channel = Cast([say("now I know")], child=say("after the restart")), FakeChannel()
    again.gate.open()
    async with running(tmp_path / "h", again, channel, **config()) as app:
        await until(lambda: len(channel.texts) == 1)
        await settled(app)
    assert channel.texts == ["now I know"] and "after the restart" in told(again)[0]
    third, channel = Cast([say("never")], child=say("never")), FakeChannel()
    async with running(tmp_path / "h", third, channel, **config()):
        await asyncio.sleep(0.1)
    assert third.heard == {}


@pytest.mark.seed(364)
async def test_the_list_shows_what_runs_and_what_ran(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast(
        [
            call_tools(spawn("quick one", label="q"), spawn("slow one", label="s")),
            say("started"),
            call_tools(("subagents", {})),
            say("looked"),
        ],
        quick=say("done"),
        slow=hold_at(say("later"), gate, 0),
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await gate.wait_reached()
        await until(lambda: len(channel.texts) == 1)
        cast.gate.open()
        await until(lambda: len(channel.texts) == 2)
        shown = result(cast.heard["main"][3], "subagents")
        (active,), (recent,) = shown["active"], shown["recent"]
        assert (active["label"], active["status"], active["totalTokens"]) == ("s", "running", 0)
        assert (recent["label"], recent["status"], recent["totalTokens"], recent["model"]) == (
            "q",
            "done",
            15,
            "fake/m",
        )
        assert "runtime" in recent and {active["index"], recent["index"]} == {1, 2}
        await ask(app, "/subagents", "e9")
        await until(lambda: len(channel.texts) == 3)
        assert "q (done," in channel.texts[-1] and "s (running," in channel.texts[-1]
        assert app.subagents.describe_open(MAIN)[0].startswith("Sub-agent “s”")
        gate.open()
        await settled(app)


@pytest.mark.seed(365)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
async def test_kill_ends_a_run_its_own_children_and_their_commands(tmp_path: Path) -> None:
    gate = StreamGate()
    work = ("exec", {"command": "exec sleep 1000", "background": True})
    cast = Cast(
        [
            call_tools(spawn("boss work")),
            say("started"),
            call_tools(("subagents", {"action": "kill", "target": "1"})),
            say("gone"),
        ],
        boss=[call_tools(spawn("deep work")), hold_at(say("waiting"), gate, 0)],
        deep=[call_tools(work), hold_at(say("never"), gate, 0)],
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config(maxSpawnDepth=2)) as app:
        cast.gate.open()
        await ask(app, "go", "e1")
        await until(lambda: len(cast.heard.get("deep", ())) == 2 and len(cast.heard.get("boss", ())) == 2)
        (row,) = app.processes.all()
        assert row.pid in alive()
        await ask(app, "kill them", "e2")
        await until(lambda: len(channel.texts) == 2)
        assert result(cast.heard["main"][-1], "subagents") == {
            "status": "ok",
            "killed": 2,
            "targets": [next(c.id for c in children(app) if c.depth == 1)],
        }
        await until(lambda: row.pid not in alive())
        await settled(app)
        assert {c.outcome for c in children(app)} == {"killed"} and app.dispatcher.busy == ()
    assert channel.texts == ["started", "gone"] and told(cast) == []


@pytest.mark.seed(365)
async def test_kill_drops_what_waits_for_the_killed_one(tmp_path: Path) -> None:
    gate = StreamGate()
    kill = call_tools(("subagents", {"action": "kill", "target": "1"}))
    cast = Cast([call_tools(spawn("it")), say("started"), kill, say("gone")], child=[hold_at(say("never"), gate, 0)])
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        cast.gate.open()
        await ask(app, "go", "e1")
        await until(lambda: "child" in cast.heard and channel.texts == ["started"], 60)
        (child,) = children(app)
        later = inbound("and then?", event="e2", session=child.session, options=TurnOptions(queue="followup"))
        waiting = (await app.submit(later)).id
        await ask(app, "kill it", "e3")
        row = await app.wait(waiting)  # it has an end, and no turn of its own
        await until(lambda: "gone" in channel.texts, 60)
        await settled(app)
        assert [c.outcome for c in children(app)] == ["killed"]
    assert row.outcome not in ("answered", "silent") and len(cast.heard["child"]) == 1


@pytest.mark.seed(368)
@pytest.mark.parametrize("action", ["kill", "steer"])
async def test_a_leaf_may_only_look_at_sub_agents(tmp_path: Path, action: str) -> None:
    wanted = call_tools(("subagents", {"action": action, "target": "1", "message": "stop"}))
    look = call_tools(("subagents", {"action": "list"}))
    cast = Cast([call_tools(spawn("leaf work")), say("started"), say("done")], leaf=[look, wanted, say("no")])
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await until(lambda: len(channel.texts) == 2, 60)
        await settled(app)
        assert [c.outcome for c in children(app)] == ["ok"]
    listed, refused = (m.text for m in cast.heard["leaf"][-1].messages if isinstance(m, ToolResult))
    assert "error" not in json.loads(listed).get("status", "ok")
    assert json.loads(refused)["status"] == "forbidden" and "may only list" in refused  # it has nobody to stop, too


async def test_stop_ends_the_family_of_a_session(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast([call_tools(spawn("it")), hold_at(say("never"), gate, 0)], child=hold_at(say("never"), gate, 0))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await until(lambda: "child" in cast.heard and len(cast.heard["main"]) == 2)
        await ask(app, "stop", "e2")
        await until(lambda: bool(channel.texts))
        await settled(app)
        assert children(app)[0].outcome == "killed"
    assert "⚙️ Agent was aborted. 1 sub-agent stopped." in channel.texts and told(cast) == []


@pytest.mark.seed(366)
async def test_steering_interrupts_and_goes_on_with_all_it_knew(tmp_path: Path) -> None:
    gate = StreamGate()
    steer = call_tools(("subagents", {"action": "steer", "target": "d", "message": "dig deeper"}))
    cast = Cast(
        [call_tools(spawn("dig", label="d")), say("started"), steer, say("steered"), say("great")],
        dig=[hold_at(say("shallow"), gate, 0), say("found it deep down")],
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await gate.wait_reached()
        await until(lambda: len(channel.texts) == 1)
        (before,) = children(app)
        await ask(app, "deeper", "e2")
        await until(lambda: len(channel.texts) == 2)
        cast.gate.open()
        await until(lambda: len(channel.texts) == 3)
        await settled(app)
        (child,) = children(app)
        old = await app.store.item(before.item)
    assert old is not None and old.outcome == "aborted" and child.item != before.item and child.round == 1
    users = [m.text for m in cast.heard["dig"][-1].messages if isinstance(m, UserMessage)]
    assert users == ["[Subagent Task]\ndig", "[Subagent Steering]\ndig deeper"]
    (text,) = told(cast)
    assert "found it deep down" in text and channel.texts == ["started", "steered", "great"]


async def test_a_fork_knows_the_conversation_and_no_open_calls(tmp_path: Path) -> None:
    cast = Cast(
        [say("Hi."), call_tools(spawn("it", context="fork", cleanup="delete")), say("started"), say("NO_REPLY")],
        child=say("I know"),
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "my name is Ada", "e1")
        await until(lambda: len(channel.texts) == 1)
        await ask(app, "go", "e2")
        await until(lambda: len(channel.texts) == 2)
        cast.gate.open()
        await settled(app)
        async with asyncio.timeout(60):
            while [row.key for row in await app.store.sessions()] != [MAIN]:
                await asyncio.sleep(0.005)
    (request,) = cast.heard["child"]
    assert [m.text for m in request.messages] == ["my name is Ada", "Hi.", "go", "[Subagent Task]\nit"]
    assert not any(m.calls for m in request.messages if isinstance(m, AssistantMessage))
    assert list((tmp_path / "h" / "agents" / "main" / "sessions").glob("*.deleted*"))


async def test_attachments_lie_in_the_workspace(tmp_path: Path) -> None:
    files = [{"name": "a.txt", "content": "hello"}, {"name": "b.bin", "content": "AAE=", "encoding": "base64"}]
    cast = Cast(
        [call_tools(spawn("read them", attachments=files)), say("started"), say("NO_REPLY")],
        read=[lambda r: call_tools(("read", {"path": last(r).split("- ")[1].splitlines()[0]})), say("ok")],
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await until(lambda: bool(children(app)))
        await settled(app)
        folder = Path(children(app)[0].folder)
    assert cast.heard["read"][1].messages[-1].text == "hello"
    assert (folder / "b.bin").read_bytes() == b"\x00\x01"


async def test_a_yield_ends_the_turn_and_the_result_begins_the_next(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast(
        [call_tools(spawn("it")), call_tools(("sessions_yield", {}), text="I wait."), say("There it is.")],
        child=hold_at(say("done"), gate, 0),
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        ident = await ask(app, "go", "e1")
        assert (await app.wait(ident)).outcome == "answered"
        assert len(cast.heard["main"]) == 2
        gate.open()
        await until(lambda: "There it is." in channel.texts)
        await settled(app)
    assert channel.texts == ["I wait.", "There it is."]


@pytest.mark.parametrize(("foreign", "origin"), [(False, "own"), (True, "web")])
async def test_what_a_sub_agent_saw_stays_untrusted_at_its_parent(tmp_path: Path, foreign: bool, origin: str) -> None:
    page = call_tools(("web_fetch", {"url": "http://127.0.0.1:9/x"}))
    cast = Cast(
        [call_tools(spawn("it")), say("ok"), say("NO_REPLY")], child=[page, say("ok")] if foreign else say("ok")
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await started(app, channel, cast)
        await settled(app)
    message = cast.heard["main"][-1].messages[-1]
    assert isinstance(message, UserMessage) and message.text.startswith("System: sub-agent")
    assert message.source.split(" ")[0] == origin


async def test_a_child_may_do_no_more_than_its_parent(tmp_path: Path) -> None:
    agents = [
        {"id": "main", "subagents": {"allowAgents": ["*"]}, "tools": {"deny": ["exec", "write"]}},
        {"id": "work", "tools": {"deny": ["edit"]}},
    ]
    cast = Cast([call_tools(spawn("it", agentId="work")), say("ok"), say("NO_REPLY")], child=say("ok"))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config(agents)) as app:
        await started(app, channel, cast)
        await until(lambda: "child" in cast.heard)
        await settled(app)
    names = {tool.name for tool in cast.heard["child"][0].tools}
    assert "read" in names and not names & {"exec", "write", "edit"}


async def test_a_turn_that_was_cut_off_does_not_start_the_same_again(tmp_path: Path) -> None:
    asker = inbound("go", event="e1", sender=Sender("me", owner=True))

    def order(call: str, task: str = "it") -> SpawnOrder:
        return SpawnOrder(MAIN, call, asker, task)

    async with running(tmp_path / "h", Cast([say("never")], child=say("never")), **config()) as app:
        first = await app.subagents.spawn(order("c1"))
        assert await app.subagents.spawn(order("c1")) == first  # the same call
        other = await app.subagents.spawn(order("c2"))
        assert other["runId"] != first["runId"]  # two of a kind, on purpose
    async with running(tmp_path / "h", Cast([say("never")], child=say("never")), **config()) as app:
        again = [await app.subagents.spawn(order(call)) for call in ("c8", "c9", "c10")]
        assert {again[0]["runId"], again[1]["runId"]} == {first["runId"], other["runId"]}
        assert "before a restart" in again[0]["note"]
        assert again[2]["runId"] not in {first["runId"], other["runId"]} and len(children(app)) == 3


async def test_a_result_that_a_full_queue_dropped_is_told_again(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast([call_tools(spawn("it")), hold_at(say("first"), gate, 0), say("more")], child=say("precious"))
    channel = FakeChannel()
    queue = {"messages": {"queue": {"mode": "followup", "cap": 1, "drop": "old"}}}
    async with running(tmp_path / "h", cast, channel, **config(), **queue) as app:
        await ask(app, "go", "e1")
        await gate.wait_reached()
        cast.gate.open()
        await until(lambda: children(app)[0].state == "ended")
        await asyncio.sleep(0.05)
        await ask(app, "two", "e2")  # one too many: the oldest that waits goes
        gate.open()
        await settled(app)
        assert children(app)[0].tells == 1
    assert len(told(cast)) == 1 and "precious" in told(cast)[0]


@pytest.mark.seed(355, 361)
async def test_fifty_at_once_leave_people_their_lane(tmp_path: Path) -> None:
    cast = Cast(lambda r: say("hello") if last(r) == "hi" else _five(r), child=say("ok"))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        for n in range(10):
            message = inbound(f"go {n}", event=f"s{n}", sender=Sender("me", owner=True), push=False)
            await app.submit(msgspec.structs.replace(message, session=f"agent:main:explicit:{n}"))
        await until(lambda: len(children(app)) == 50 and all(c.item for c in children(app)))
        await until(lambda: len(cast.heard.get("child", ())) == 8)
        assert (await app.wait(await ask(app, "hi", "u1"))).note == "hello"
        assert app.dispatcher.lanes.busy["subagent"] == 8 == len(cast.heard["child"])
        cast.gate.open()
        await settled(app)
        assert {c.outcome for c in children(app)} == {"ok"} and len(cast.heard["child"]) == 50
    seen = [
        m for r in cast.heard["main"] for m in r.messages if isinstance(m, UserMessage) and "completed succ" in m.text
    ]
    assert len({m.text for m in seen}) == 50


def _five(request: ModelRequest) -> ScriptedTurn:
    if last(request).startswith("System: sub-agent"):
        return say("NO_REPLY")
    done = any(isinstance(m, ToolResult) for m in request.messages)
    return say("started") if done else call_tools(*(spawn(f"job {last(request)} {n}") for n in range(5)))


@pytest.mark.seed(355)
async def test_a_model_that_spawns_for_ever_is_held_at_the_cap(tmp_path: Path) -> None:
    most, asked = 0, 0

    def main(request: ModelRequest) -> ScriptedTurn:
        nonlocal most, asked
        most = max(most, app.subagents.registry.active(MAIN))
        asked += 1
        return say("enough") if asked > 12 else call_tools(*(spawn(f"job {asked} {n}") for n in range(20)))

    cast = Cast(main, child=say("ok"))
    cast.gate.open()
    async with running(tmp_path / "h", cast, FakeChannel(), **config()) as app:
        await ask(app, "go", "e1")
        await until(lambda: asked > 12)
        await settled(app)
        assert most <= 5 and all(c.outcome == "ok" for c in children(app))
        assert len(told(cast)) == len(children(app)) >= 5


async def test_people_look_after_sub_agents_too(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast(
        [call_tools(spawn("dig", label="d")), say("started"), say("I see")],
        dig=[hold_at(say("shallow"), gate, 0), say("deep"), say("third")],
        fish=say("a fish"),
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:

        async def typed(text: str) -> str:
            return (await app.wait(await ask(app, text, text))).note

        assert await typed("/subagents") == "No sub-agents."
        assert "list | info" in await typed("/subagents what")
        await ask(app, "go", "e1")
        await gate.wait_reached()
        await until(lambda: channel.texts[-1:] == ["started"])
        info = await typed("/subagents info d")
        assert "“d”: running" in info and "Task: dig" in info and "fake/m" in info
        assert await typed("/subagents steer d") == "Say what it should do: /subagents steer WHICH TEXT."
        assert await typed("/subagents steer d dig deeper") == "Steering “d”."
        cast.gate.open()
        await until(lambda: channel.texts[-1:] == ["I see"])
        await settled(app)
        assert "it: deep" in await typed("/subagents log d")
        assert await typed("/subagents kill d") == "⚠️ it has ended already."
        assert await typed("/subagents send d go on then") == "“d”: it goes on with your message."
        await settled(app)
        assert len(told(cast)) == 2 and "third" in "".join(told(cast))
        assert (await typed("/subagents spawn main fish for it")).startswith("Started ")
        assert "may not be started" in await typed("/subagents spawn other it")
        assert await typed("/subagents info x") == "⚠️ No sub-agent 'x' here."
        await settled(app)
        assert any("a fish" in text for text in told(cast))


async def test_a_person_who_kills_one_lets_its_parent_know(tmp_path: Path) -> None:
    gate = StreamGate()
    cast = Cast([call_tools(spawn("it")), say("started"), say("what a pity")], child=hold_at(say("never"), gate, 0))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config()) as app:
        await ask(app, "go", "e1")
        await gate.wait_reached()
        await until(lambda: channel.texts == ["started"])
        assert (await app.wait(await ask(app, "/subagents kill 1", "e2"))).note == "⚙️ 1 sub-agent stopped."
        await settled(app)
    assert "“it” was killed." in told(cast)[0]


async def test_old_ones_are_forgotten_with_their_sessions(tmp_path: Path) -> None:
    cast = Cast([call_tools(spawn("it")), say("started"), say("NO_REPLY")], child=say("ok"))
    channel = FakeChannel()
    async with running(tmp_path / "h", cast, channel, **config(archiveAfterMinutes=60)) as app:
        await started(app, channel, cast)
        await settled(app)
        (child,) = children(app)
        await app.subagents.sweep()
        assert children(app) == [child]
        await app.subagents.registry.change(child.id, ended=child.ended - 61 * 60_000)
        await app.subagents.sweep()
        assert children(app) == [] and await app.store.list_records("child") == []
        assert await app.store.session(child.session) is None
