"""Every hook point on every path a message can take: a point that is never called is found here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flow.test_app import running, settings, transcript, until
from flow.test_compaction import Crew
from flow.test_compaction import running as long_running
from gateway.host import TOKEN
from gateway.whole import place
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.types.inbound import Sender, Target, TurnOptions
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.gateway.server import GatewayServer
from palinurus.plugins.api import HookRegistration, PluginContributions
from palinurus.plugins.hooks import HOOK_POINTS
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools, say
from support import inbound

OWNER = Sender("me", owner=True)
RUN = frozenset(
    [
        "session_start",
        "before_model_resolve",
        "agent:bootstrap",
        "before_agent_start",
        "before_prompt_build",
        "before_agent_run",
        "before_agent_reply",
        "llm_input",
        "llm_output",
        "before_tool_call",
        "after_tool_call",
        "tool_result_persist",
        "agent_end",
    ]
)
LIFE = frozenset(("gateway_start", "gateway_stop"))
OUT = frozenset(("message_sending", "message_sent"))
IN = frozenset(("message_received", "inbound_claim"))


class Watch:
    """A handler at every point; remembers what it was told."""

    def __init__(self) -> None:
        self.told: dict[str, list[dict[str, Any]]] = {}
        self.brought = PluginContributions(
            hooks=[HookRegistration(name, partial(self._note, name)) for name in HOOK_POINTS]
        )

    def _note(self, name: str, payload: dict[str, Any]) -> None:
        self.told.setdefault(name, []).append(payload)

    def first(self, name: str) -> dict[str, Any]:
        return self.told[name][0]


def script() -> ScriptedModel:
    """Looks around once in a turn; spawns a child when asked to."""

    def answer(request: ModelRequest) -> ScriptedTurn:
        last = request.messages[-1]
        if isinstance(last, ToolResult):
            return say("done")
        return call_tools(("sessions_spawn", {"task": "count"})) if last.text == "spawn" else call_tools(("ls", {}))

    return ScriptedModel([answer], repeat=True)


async def chat(app: App, channel: FakeChannel) -> None:
    (ident,) = await channel.receive("hello", event="e")
    await app.wait(ident)
    await until(lambda: bool(channel.seen))


async def http(app: App, channel: FakeChannel) -> None:
    server = GatewayServer(app, app.clock, TOKEN)
    await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as client:
            body = {"model": "palinurus", "messages": [{"role": "user", "content": "hello"}]}
            url = f"http://127.0.0.1:{server.port}/v1/chat/completions"
            async with client.post(url, json=body, headers={"authorization": f"Bearer {TOKEN}"}) as answer:
                assert answer.status == 200, await answer.text()
    finally:
        await server.stop()


async def subagent(app: App, channel: FakeChannel) -> None:
    await app.wait((await app.submit(inbound("spawn", sender=OWNER, push=False))).id)


async def command(app: App, channel: FakeChannel) -> None:
    for text in ("hello", "/new"):
        told = inbound(text, sender=OWNER, target=Target("fake", "chat"))
        await app.wait((await app.submit(told)).id)
    await until(lambda: len(channel.seen) == 2)


PATHS: list[tuple[Callable[[App, FakeChannel], Awaitable[None]], frozenset[str]]] = [
    (chat, RUN | IN | OUT | LIFE),
    (http, RUN | IN | LIFE),
    (subagent, RUN | IN | LIFE | {"subagent_spawned", "subagent_ended"}),
    (command, RUN | IN | OUT | LIFE | {"command", "before_reset", "session_end"}),
]


@pytest.mark.seed(335, 336, 339, 340, 341, 342, 343, 344, 345, 346, 347, 348, 349)
@pytest.mark.parametrize(("path", "expected"), PATHS, ids=lambda one: getattr(one, "__name__", ""))
async def test_the_points_of_a_path(tmp_path: Path, path: Any, expected: frozenset[str]) -> None:
    channel = FakeChannel()
    watch, clock = Watch(), SystemClock()
    given: Any = {"model": script(), "channels": {"fake": channel}, "given": watch.brought}
    app = App(settings(tmp_path / "h"), {}, clock, **given)
    await app.start()
    try:
        await path(app, channel)
        await until(lambda: expected - {"gateway_stop"} <= set(watch.told))
    finally:
        await app.stop()
    assert set(watch.told) == expected
    if path is subagent:  # the child's run is seen like any other
        for name in RUN:
            assert any(":subagent:" in told["sessionKey"] for told in watch.told[name]), name
    for name in RUN - {"session_start", "before_model_resolve", "agent:bootstrap"}:
        told = watch.first(name)
        assert told["runId"] and told["sessionKey"].startswith("agent:main:") and told["agentId"] == "main", name


@pytest.mark.seed(348, 349)
async def test_start_and_stop_are_told_to_scripts_that_were_there_before(tmp_path: Path) -> None:
    folder = tmp_path / "h" / "hooks"
    folder.mkdir(parents=True)
    (folder / "boot.py").write_text(
        "import pathlib\nEVENTS = ['gateway:startup']\n"
        f"def handler(event): pathlib.Path({str(tmp_path / 'seen')!r}).write_text(event['action'])\n"
    )
    async with running(tmp_path / "h", script()):
        pass
    assert (tmp_path / "seen").read_text() == "startup"


@pytest.mark.seed(337, 338)
async def test_the_points_of_a_compaction(tmp_path: Path) -> None:
    crew = Crew()
    async with long_running(tmp_path / "h", crew) as app:
        watch = Watch()
        watch.brought.attach(app.hooks)
        for text in ("one", "two", "three", "/compact"):
            await app.wait((await app.submit(inbound(text, sender=OWNER, session="main"))).id)
        await until(lambda: "after_compaction" in watch.told)
    assert watch.first("before_compaction")["sessionKey"] == watch.first("after_compaction")["sessionKey"]


def test_every_point_belongs_to_a_path() -> None:
    others = {"before_compaction", "after_compaction", "webhook", "cron_changed"}  # test_webhooks, test_schedules
    walked = frozenset().union(*(expected for _, expected in PATHS)) | others
    assert walked == set(HOOK_POINTS)


async def answered(app: App, text: str = "hello", **changes: Any) -> Any:
    return await app.wait((await app.submit(inbound(text, **changes))).id)


@pytest.mark.seed(342)
async def test_what_is_persisted_is_what_the_model_sees(tmp_path: Path) -> None:
    model = script()

    def shorter(event: dict[str, Any]) -> dict[str, Any]:
        return {"message": {**event["message"], "content": [{"type": "text", "text": "(cut)"}], "toolCallId": "other"}}

    async with running(tmp_path / "h", model) as app:
        app.hooks.on("tool_result_persist", shorter)
        await answered(app)
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolResult) and (result.text, result.toolCallId) == ("(cut)", "call_0_0")
    stored = [e["message"] for e in transcript(tmp_path / "h") if e.get("message", {}).get("role") == "toolResult"]
    assert [m["content"] for m in stored] == [[{"type": "text", "text": "(cut)"}]]


async def test_a_persist_hook_that_returns_nonsense_changes_nothing(tmp_path: Path) -> None:
    model = script()
    async with running(tmp_path / "h", model) as app:
        app.hooks.on("tool_result_persist", lambda event: {"message": {"role": "user"}})
        await answered(app)
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolResult) and not result.isError


async def test_a_plugin_chooses_the_model_unless_the_message_does(tmp_path: Path) -> None:
    provider: dict[str, Any] = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k"}
    provider["models"] = [{"id": "m"}, {"id": "other"}, {"id": "third"}]
    model = ScriptedModel([say("ok")], repeat=True)
    async with running(tmp_path / "h", model, models={"providers": {"fake": provider}}) as app:
        wanted = {"providerOverride": "fake", "modelOverride": "other"}
        app.hooks.on("before_model_resolve", lambda event: wanted)
        await answered(app)
        await answered(app, options=TurnOptions(model="fake/third"))
        wanted["modelOverride"] = "no-such-model"
        await answered(app)
    assert [r.model.ref.model for r in model.requests] == ["other", "third", "m"]


async def test_a_claimed_message_never_reaches_the_agent(tmp_path: Path) -> None:
    model, channel = ScriptedModel([]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        app.hooks.on("inbound_claim", lambda event: {"handled": event["content"] != "x", "reply": {"text": "pong"}})
        (ident,) = await channel.receive("ping", event="e")
        row = await app.wait(ident)
        await until(lambda: bool(channel.seen))
        assert (row.outcome, row.note) == ("answered", "pong")
    assert channel.texts == ["pong"] and model.requests == []
    assert not list((tmp_path / "h").glob("agents/*/sessions/*.jsonl"))


@pytest.mark.parametrize(("reply", "outcome"), [("instead", "answered"), ("", "silent")])
async def test_a_plugin_may_answer_in_the_models_place(tmp_path: Path, reply: str, outcome: str) -> None:
    model = ScriptedModel([say("mine")])
    async with running(tmp_path / "h", model) as app:
        app.hooks.on("before_agent_reply", lambda e: {"handled": e["cleanedBody"] == "hello", "reply": reply})
        row = await answered(app)
        assert (row.outcome, row.note) == (outcome, reply)
        assert (await answered(app, "and you?")).note == "mine"
    said = [m.text for m in model.requests[0].messages]
    assert said == (["hello", reply, "and you?"] if reply else ["hello", "and you?"])


@pytest.mark.parametrize(
    ("gate", "note"),
    [
        (lambda e: {"outcome": "block", "reason": "quiet hours"}, "quiet hours"),
        (lambda e: {"block": True, "message": "come back later", "blockReason": "x"}, "come back later"),
        (lambda e: 1 / 0, "hook before_agent_run failed: division by zero"),
        (lambda e: {"outcome": "pass"}, "mine"),
    ],
)
async def test_the_gate_before_a_run(tmp_path: Path, gate: Any, note: str) -> None:
    model = ScriptedModel([say("mine")])
    async with running(tmp_path / "h", model) as app:
        app.hooks.on("before_agent_run", gate)
        row = await answered(app)
    assert row.note == note and len(model.requests) == (note == "mine")
    assert row.outcome == ("answered" if note == "mine" else "failed")


@pytest.mark.seed(344)
async def test_a_reply_is_changed_or_held_back(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running(tmp_path / "h", ScriptedModel([say("one"), say("two")]), channel) as app:
        sent: list[Any] = []
        app.hooks.on("message_sent", lambda e: sent.append(e["content"]))
        app.hooks.on(
            "message_sending", lambda e: {"cancel": True} if e["content"] == "one" else {"content": e["content"] + "!"}
        )
        for event in ("a", "b"):
            (ident,) = await channel.receive("hello", event=event)
            await app.wait(ident)
        await until(lambda: bool(sent))
    assert channel.texts == ["two!"] == sent


@pytest.mark.seed(254)
async def test_a_hook_script_replaces_a_workspace_file(tmp_path: Path) -> None:
    folder = tmp_path / "h" / "hooks" / "soul"
    folder.mkdir(parents=True)
    metadata = json.dumps({"openclaw": {"events": ["agent:bootstrap"]}})
    (folder / "HOOK.md").write_text(f"---\nname: soul\ndescription: another one\nmetadata: {metadata}\n---\n")
    (folder / "handler.py").write_text(
        "async def handler(event):\n"
        "    for file in event['context']['bootstrapFiles']:\n"
        "        if file['name'] == 'SOUL.md':\n"
        "            file['content'] = 'Speak like a pilot.'\n"
        "            file['missing'] = False\n"
    )
    work = tmp_path / "h" / "workspace"
    work.mkdir(parents=True)
    (work / "SOUL.md").write_text("Be plain.")
    model = ScriptedModel([say("aye")])
    async with running(tmp_path / "h", model) as app:
        await answered(app)
    text = model.requests[0].prompt.text
    assert "Speak like a pilot." in text and "Be plain." not in text


async def test_twenty_messages_with_slow_observers_hold_nobody_up(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def slow(event: dict[str, Any]) -> None:
        await gate.wait()

    async with running(tmp_path / "h", ScriptedModel([say("ok")], repeat=True)) as app:
        for point in ("message_received", "llm_input", "llm_output", "agent_end"):
            app.hooks.on(point, slow)
        rows = await asyncio.gather(*(answered(app, session=f"s{n}") for n in range(20)))
        gate.set()
    assert [row.outcome for row in rows] == ["answered"] * 20


@pytest.mark.seed(346, 347)
async def test_sessions_that_clients_make_and_delete_are_told(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        watch = Watch()
        watch.brought.attach(here.app.hooks)
        await here.call("sessions.create", key="dashboard:one")
        await here.call("sessions.delete", key="dashboard:one")
        await until(lambda: "session_end" in watch.told)
    began, ended = watch.first("session_start"), watch.first("session_end")
    assert ended["reason"] == "deleted" and began["sessionId"] == ended["sessionId"]
