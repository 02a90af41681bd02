"""Who sees whom, and letters between sessions: on a real store, with the program around it where it matters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import judge_config, load_config
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import parse_session_key
from palinurus.services.inbox import InboxPort
from palinurus.services.sessions import SessionDirectory
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.store.factory import open_store
from palinurus.store.port import Store
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.program.session import SessionFilter, SessionMessage

MAIN, CHILD, GRAND = "agent:main:main", "agent:main:subagent:1", "agent:work:subagent:2"
CHAT, WORK = "agent:main:telegram:group:5", "agent:work:main"
FAMILY = {CHILD: MAIN, GRAND: CHILD}
MODEL = {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}


def config(**tools: Any) -> dict[str, Any]:
    agents = {"defaults": {"model": "fake/m"}, "list": [{"id": "main"}, {"id": "work"}, {"id": "other"}]}
    return {"tools": tools, "agents": agents, "models": {"providers": MODEL}}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(str(tmp_path / "home"), FakeClock())
    for number, name in enumerate((MAIN, CHILD, GRAND, CHAT, WORK)):
        key = parse_session_key(name)
        assert key is not None
        record = msgspec.structs.replace(
            SessionRecord.fresh(key, 1000 - number, f"id-{number}"), spawnedBy=FAMILY.get(name), label=f"label{number}"
        )
        await opened.save_session(record.row(key))
    yield opened
    await opened.close()


def reaching(store: Store, home: Path, raw: dict[str, Any]) -> SessionDirectory:
    settings = judge_config(json.dumps(raw), "f", str(home / "home"), {"HOME": str(home)}).settings
    assert settings is not None

    inbox = cast(InboxPort, None)  # nothing may be sent
    return SessionDirectory(settings, store, Transcripts(settings.home), FakeClock(), inbox)


ACROSS = {"enabled": True, "allow": ["main", "work"]}


@pytest.mark.parametrize(
    ("tools", "caller", "seen"),
    [
        ({"sessions": {"visibility": "self"}}, MAIN, {MAIN}),
        ({}, MAIN, {MAIN, CHILD, GRAND}),
        ({}, CHILD, {CHILD, GRAND}),
        ({}, WORK, {WORK}),
        ({"sessions": {"visibility": "agent"}}, MAIN, {MAIN, CHILD, GRAND, CHAT}),
        ({"sessions": {"visibility": "agent"}}, WORK, {WORK, GRAND}),
        ({"sessions": {"visibility": "all"}}, WORK, {WORK, GRAND}),
        ({"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": True}}, WORK, {WORK, GRAND}),
        (
            {"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": False, "allow": ["*"]}},
            WORK,
            {WORK, GRAND},
        ),
        ({"sessions": {"visibility": "all"}, "agentToAgent": ACROSS}, WORK, {MAIN, CHILD, GRAND, CHAT, WORK}),
        (
            {"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": True, "allow": ["work"]}},
            WORK,
            {WORK, GRAND},
        ),
        ({"sessions": {"visibility": "all"}, "agentToAgent": ACROSS}, "agent:other:main", set()),
        ({"sessions": {"visibility": "all"}, "agentToAgent": ACROSS}, "agent:nobody:main", set()),
    ],
)
async def test_who_is_seen(store: Store, tmp_path: Path, tools: Any, caller: str, seen: set[str]) -> None:
    """Listing, reading and writing follow one rule."""
    reach = reaching(store, tmp_path, config(**tools))
    assert {row["key"] for row in await reach.sessions(caller, SessionFilter())} == seen
    for name in (MAIN, CHILD, GRAND, CHAT, WORK):
        assert (await reach.history(caller, name, 10, False) is not None) is (name in seen)
        if name not in seen:
            assert (await reach.send(SessionMessage(caller, "e", "hi", name)))["status"] == "forbidden"
            assert (await reach.send(SessionMessage(caller, "e", "hi", label="label0" if name == MAIN else "")))[
                "status"
            ] == "forbidden"


@pytest.mark.parametrize(
    ("tools", "caller", "found"),
    [
        ({}, MAIN, {MAIN, CHILD, CHAT}),
        ({"sessions": {"visibility": "self"}}, MAIN, {MAIN}),
        ({}, WORK, {WORK, GRAND}),
    ],
)
async def test_what_was_said_anywhere(store: Store, tmp_path: Path, tools: Any, caller: str, found: set[str]) -> None:
    """All sessions of the agent (and those it started), none of another; secrets blanked, bounded."""
    for number, name in enumerate((MAIN, CHILD, GRAND, CHAT, WORK)):
        folder = tmp_path / "home" / "agents" / name.split(":")[1] / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        said = {"role": "user", "content": [{"type": "text", "text": f"the boat of {name} sk-secret"}], "timestamp": 5}
        when = {"timestamp": "2026-01-01T00:00:00.000Z"}
        lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": f"id-{number}", "cwd": "/", **when}]
        lines.append({"type": "message", "id": "e1", "parentId": None, "message": said, **when})
        (folder / f"id-{number}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    raw = config(**tools)
    raw["models"]["providers"]["fake"] = {**MODEL["fake"], "apiKey": "sk-secret"}
    reach = reaching(store, tmp_path, raw)
    told = await reach.search(caller, "boat", 10, 0)
    got = {hit["sessionKey"] for hit in told.hits}
    assert got == (found | {GRAND} if caller == MAIN and len(found) > 1 else found)
    assert all("boat" in hit["text"] and "sk-secret" not in hit["text"] for hit in told.hits)
    assert len((await reach.search(caller, "boat", 1, 0)).hits) == 1 and (await reach.search(caller, "", 5, 0)).note


async def test_a_sandboxed_session_sees_no_more_than_those_it_started(store: Store, tmp_path: Path) -> None:
    raw = config(sessions={"visibility": "all"}, agentToAgent=ACROSS)
    raw["agents"]["list"][0]["sandbox"] = {"mode": "all"}
    assert {r["key"] for r in await reaching(store, tmp_path, raw).sessions(MAIN, SessionFilter())} == {
        MAIN,
        CHILD,
        GRAND,
    }
    raw["agents"]["list"][0]["sandbox"] = {"mode": "all", "sessionToolsVisibility": "all"}
    assert len(await reaching(store, tmp_path, raw).sessions(MAIN, SessionFilter())) == 5


async def test_what_is_asked_for(store: Store, tmp_path: Path) -> None:
    reach = reaching(store, tmp_path, config(sessions={"visibility": "agent"}))

    async def keys(**wanted: Any) -> list[str]:
        return [row["key"] for row in await reach.sessions(MAIN, SessionFilter(**wanted))]

    assert await keys() == [MAIN, CHILD, GRAND, CHAT]  # the newest first
    assert await keys(limit=2) == [MAIN, CHILD]
    assert await keys(kinds=("group",)) == [CHAT] and await keys(label="label1") == [CHILD]
    assert await keys(agent="WORK") == [GRAND] and await keys(search="telegram") == [CHAT]
    assert await keys(active_minutes=5) == []  # all of this was long ago
    (row,) = await reach.sessions(MAIN, SessionFilter(label="label1"))
    assert row["kind"] == "subagent" and row["spawnedBy"] == MAIN and "messages" not in row


def test_agents(tmp_path: Path) -> None:
    raw = config()
    raw["agents"]["list"][0]["subagents"] = {"allowAgents": ["Work", "gone"]}
    raw["agents"]["list"][1]["subagents"] = {"allowAgents": ["*"]}
    settings = judge_config(json.dumps(raw), "f", str(tmp_path), {"HOME": str(tmp_path)}).settings
    assert settings is not None
    reach = SessionDirectory(settings, None, None, FakeClock(), None)  # type: ignore[arg-type]
    assert reach.agents("main") == (False, [("main", "main", True), ("work", "work", True), ("gone", "gone", False)])
    anyone, found = reach.agents("work")
    assert anyone and [agent.id for agent in found] == ["work", "main", "other"]
    assert reach.agents("other") == (False, [("other", "other", True)])


async def started(home: Path, model: ScriptedModel, *channels: FakeChannel, **tools: Any) -> App:
    home.mkdir()
    known = {"channels": {c.name: {"allowFrom": ["human"]} for c in channels}} if channels else {}
    raw = {**config(**tools), **known}
    (home / "palinurus.json").write_text(json.dumps(raw))
    app = App(
        load_config(str(home), {}).settings, {}, SystemClock(), model=model, channels={c.name: c for c in channels}
    )
    await app.start()
    return app


async def turn(app: App, text: str, **changes: Any) -> str:
    owner = Sender("me", owner=True)
    made = Inbound(**{"target": Target("terminal"), "sender": owner, "event": "", "text": text, "at": 0, **changes})
    return (await app.wait((await app.submit(msgspec.structs.replace(made, push=False))).id)).note


def results(model: ScriptedModel) -> list[dict[str, Any]]:
    """What tools told the model that was asked last."""
    return [json.loads(m.text) for m in model.requests[-1].messages if type(m).__name__ == "ToolResult"]


async def test_a_letter_is_answered_by_a_turn_of_its_own_without_the_senders_rights(tmp_path: Path) -> None:
    letter = {"sessionKey": "agent:main:two", "message": "/status what is 1+1?"}
    model = ScriptedModel([say("ready"), call_tools(("sessions_send", letter)), say("two"), say("it said two")])
    app = await started(tmp_path / "h", model, sessions={"visibility": "agent"})
    try:
        await turn(app, "hello", session="agent:main:two")
        assert await turn(app, "ask the other", session="agent:main:one") == "it said two"
    finally:
        await app.stop()
    asked = model.requests[2]
    assert asked.messages[-1].text == "[Message from the session agent:main:one]\n/status what is 1+1?"
    assert "gateway" not in {t.name for t in asked.tools} and "cron" not in {t.name for t in asked.tools}
    (told,) = results(model)
    assert (told["status"], told["reply"], told["sessionKey"]) == ("ok", "two", "agent:main:two")
    assert "delivery" not in told


async def test_a_letter_is_one_message_however_often_it_is_handed_over(tmp_path: Path) -> None:
    model = ScriptedModel([say("ok")], repeat=True)
    app = await started(tmp_path / "h", model, sessions={"visibility": "agent"})
    try:
        for name in ("one", "two"):
            await turn(app, "hello", session=f"agent:main:{name}")
        reach = SessionDirectory(app.settings, app.store, Transcripts(app.settings.home), SystemClock(), app.dispatcher)
        letter = SessionMessage("agent:main:one", "run:call", "hi", "agent:main:two")
        first, again = await reach.send(letter), await reach.send(letter)
        assert first == again and first["reply"] == "ok" and len(model.requests) == 3
        own = await reach.send(msgspec.structs.replace(letter, session="agent:main:one"))
        assert own["status"] == "error" and len(model.requests) == 3
        later = await reach.send(SessionMessage("agent:main:one", "e2", "hi", "agent:main:two", wait=0))
        assert later["status"] == "accepted" and (await app.wait(later["runId"])).outcome == "answered"
    finally:
        await app.stop()


async def test_history_is_read_through_the_whole_program(tmp_path: Path) -> None:
    read = call_tools(("sessions_history", {"sessionKey": "two"}), ("sessions_list", {"messageLimit": 1}))
    model = ScriptedModel([say("noted"), read, say("done")])
    app = await started(tmp_path / "h", model, sessions={"visibility": "agent"})
    try:
        await turn(app, "my password=hunter2hunter2", session="agent:main:two")
        await turn(app, "look", session="agent:main:one")
    finally:
        await app.stop()
    history, listed = results(model)
    assert [m["role"] for m in history["messages"]] == ["user", "assistant"] and history["contentRedacted"]
    assert "hunter2" not in json.dumps(history) + json.dumps(listed)
    assert {row["key"] for row in listed["sessions"]} >= {"agent:main:two"}


async def test_the_answer_also_goes_to_the_chat_the_session_is_about(tmp_path: Path) -> None:
    channel = FakeChannel()
    model = ScriptedModel([say("hi"), say("hello")], repeat=True)
    app = await started(tmp_path / "h", model, channel, sessions={"visibility": "agent"})
    try:
        (ident,) = await channel.receive("hello", event="e1")
        await app.wait(ident)
        await turn(app, "hello", session="agent:main:one")
        reach = SessionDirectory(app.settings, app.store, Transcripts(app.settings.home), SystemClock(), app.dispatcher)
        row = await app.store.session(MAIN)
        assert row is not None
        record = SessionRecord.decode(row.data)
        told = await reach.send(SessionMessage("agent:main:one", "e", "tell them", MAIN))
        assert record.lastChannel == channel.name and record.lastTo
        assert told["status"] == "ok" and told["delivery"] == {"status": "pending", "mode": "announce"}
    finally:
        await app.stop(drain=5)
