"""Chatting over a socket: what is acknowledged, streamed, stopped, queued and read again."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import until
from gateway.whole import KEY, gathered, named, place, until_over
from palinurus.gateway.client import make_identity
from palinurus.gateway.rpc import READ
from palinurus.store.factory import open_reader
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, say

LONG = "one two three four five six seven eight nine ten"


async def test_text_streams_cumulatively_in_one_numbered_stream(tmp_path: Path) -> None:
    gate = StreamGate()
    async with place(tmp_path / "h", ScriptedModel([hold_at(say(LONG), gate, 3)])) as here:
        await here.call("chat.send", sessionKey="main", message="count", idempotencyKey="k1")
        first = await gathered(here.link, lambda f: f["event"] == "chat")
        async with here.other(scopes=(READ,)) as late:
            seen = await asyncio.wait_for(late.call("chat.history", {"sessionKey": "main"}), 60)
        gate.open()
        frames = first + await until_over(here.link, "k1")
    chats = named(frames, "chat")
    texts = [p["message"]["content"][0]["text"] for p in chats]
    assert all(b.startswith(a) for a, b in pairwise(texts)) and texts[-1] == LONG
    assert "".join(p.get("deltaText", "") for p in chats) == LONG
    assert [p["state"] for p in chats][-1] == "final" and chats[0]["state"] == "delta"
    assert {p["sessionKey"] for p in chats} == {KEY}
    # Whoever comes in the middle sees the question and how far the answer is.
    assert seen["inFlightRun"]["runId"] == "k1" and LONG.startswith(seen["inFlightRun"]["text"])
    assert LONG > seen["inFlightRun"]["text"] >= texts[0]
    assert seen["sessionInfo"]["hasActiveRun"] is True
    numbers = [f["seq"] for f in frames if "seq" in f]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    inside = [p["seq"] for p in (*chats, *named(frames, "agent"))]
    assert len(set(inside)) == len(inside)
    phases = [p["data"].get("phase") for p in named(frames, "agent") if p["stream"] == "lifecycle"]
    assert phases == ["start"]


@pytest.mark.seed(324)
async def test_tools_are_told_to_the_starter_and_to_followers_only(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("ls", {"path": "."}), text="Let me look."), say("Done.")])
    async with (
        place(tmp_path / "h", model) as here,
        here.other(scopes=(READ,)) as follower,
        here.other(scopes=(READ,)) as stranger,
    ):
        await follower.call("sessions.messages.subscribe", {"key": "main"})
        own = await here.say("look", "k1")
        followed = await gathered(
            follower, lambda f: f["event"] == "session.message" and f["payload"]["messageSeq"] == 4
        )
        other = await until_over(stranger, "k1")
    tools = [f for f in own if f["event"] == "agent" and f["payload"]["stream"] == "tool"]
    assert [f["payload"]["data"]["phase"] for f in tools] == ["start", "result"] and "seq" not in tools[0]
    assert named(own, "session.tool") == [] and named(own, "session.message") == []
    assert [p["data"]["phase"] for p in named(followed, "session.tool")] == ["start", "result"]
    assert [p["message"]["role"] for p in named(followed, "session.message")] == [
        "user", "assistant", "toolResult", "assistant",
    ]  # fmt: skip
    assert {p["stream"] for p in named(other, "agent")} == {"lifecycle", "assistant", "item"}
    assert named(own, "chat")[-1]["message"]["content"][0]["text"] == "Let me look.Done."


async def test_abort_reaches_the_run_and_says_so(tmp_path: Path) -> None:
    gate = StreamGate()
    async with place(tmp_path / "h", ScriptedModel([hold_at(say(LONG), gate, 2), say("after")])) as here:
        await here.call("chat.send", sessionKey="main", message="count", idempotencyKey="k1")
        await gathered(here.link, lambda f: f["event"] == "chat")
        again = await here.call("chat.send", sessionKey="main", message="count", idempotencyKey="k1")
        assert again == {"runId": "k1", "status": "in_flight"}
        done = await here.call("chat.abort", sessionKey="main", runId="k1")
        assert done == {"ok": True, "aborted": True, "runIds": ["k1"]}
        last = named(await until_over(here.link, "k1"), "chat")[-1]
        assert (last["state"], last["stopReason"]) == ("aborted", "rpc")
        assert LONG.startswith(last["message"]["content"][0]["text"])
        assert named(await here.say("go on", "k2"), "chat")[-1]["message"]["content"][0]["text"] == "after"
        assert (await here.call("chat.send", sessionKey="main", message="go on", idempotencyKey="k2"))["status"] == "ok"
        stop = await here.call("chat.send", sessionKey="main", message="/stop", idempotencyKey="k3")
        assert stop == {"ok": True, "aborted": False, "runIds": []}


async def test_a_message_for_a_busy_session_is_kept_and_answered(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(call_tools(("ls", {"path": "."})), gate, 0), say("both"), say("late")])
    async with place(tmp_path / "h", model) as here:
        await here.call("chat.send", sessionKey="main", message="one", idempotencyKey="k1")
        await until(lambda: here.app.dispatcher.running(KEY))
        second = await here.call("sessions.steer", key="main", message="two", idempotencyKey="k2")
        assert second == {"runId": "k2", "status": "started", "interruptedActiveRun": True}
        gate.open()
        await until_over(here.link, "k1")
        waited = await here.call("agent.wait", runId="k2")
        assert waited["status"] == "ok"
        users = [m for m in (await here.call("chat.history", sessionKey="main"))["messages"] if m["role"] == "user"]
    assert [m["content"] for m in users] == ["one", "two"]


async def test_history_is_capped_by_count_by_length_and_cut_in_words(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("x" * 500), say("short")])) as here:
        await here.say("first", "k1")
        await here.say("second", "k2")
        last = await here.call("chat.history", sessionKey="main", limit=1)
        assert [m["__openclaw"]["seq"] for m in last["messages"]] == [4]
        cut = (await here.call("chat.history", sessionKey="main", maxChars=100))["messages"][1]["content"][0]["text"]
        assert cut == "x" * 100 + "\n...(truncated)..."
        whole = (await here.call("chat.history", sessionKey="main"))["messages"][1]
        got = await here.call("chat.message.get", sessionKey="main", messageId=whole["__openclaw"]["id"])
        assert got["message"]["content"][0]["text"] == "x" * 500
        gone = await here.call("chat.message.get", sessionKey="main", messageId="nope")
        assert gone == {"ok": False, "unavailableReason": "not_found"}
        new = await here.call("chat.history", sessionKey="fresh")
        assert new["messages"] == [] and new["sessionInfo"]["updatedAt"] is None
        error = await here.refused("chat.history", sessionKey="main", limit=0)
        assert error.message.startswith("invalid chat.history params: at /limit")


async def test_startup_brings_all_a_page_needs(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        page = await here.call("chat.startup", sessionKey="main", agentId="main", limit=100)
        more = await here.call("chat.metadata", agentId="main")
    assert page["agentsList"]["defaultId"] == "main" and page["metadata"]["models"][0]["id"] == "m"
    assert page["defaults"]["model"] == "m" and {"status", "new"} <= {c["name"] for c in more["commands"]}


async def test_a_note_is_put_into_the_conversation(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("hello")])) as here:
        assert (await here.refused("chat.inject", sessionKey="main", message="x")).message == "session not found"
        await here.say("hi", "k1")
        done = await here.call("chat.inject", sessionKey="main", message="by the way", label="note")
        (note,) = named(await gathered(here.link, lambda f: f["event"] == "chat"), "chat")
        last = (await here.call("chat.history", sessionKey="main"))["messages"][-1]
    assert note["message"]["content"][0]["text"] == "[note]\n\nby the way" and note["state"] == "final"
    assert last["__openclaw"]["id"] == done["messageId"] and last["model"] == "gateway-injected"


async def test_a_note_that_cannot_be_written_is_in_nobodys_memory(tmp_path: Path) -> None:
    model = ScriptedModel([say("hello"), say("again")])
    async with place(tmp_path / "h", model) as here:
        await here.say("hi", "k1")
        with closing(sqlite3.connect(tmp_path / "h" / "state.db", isolation_level=None)) as db:
            db.execute("CREATE TRIGGER full BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'full'); END")
            await here.refused("chat.inject", sessionKey="main", message="by the way")
            db.execute("DROP TRIGGER full")
        await here.say("and?", "k2")
        shown = await here.call("chat.history", sessionKey="main")
    assert "by the way" not in str(shown)
    assert [m.text for m in model.requests[1].messages] == ["hi", "hello", "and?"]


async def test_whoever_comes_back_gets_what_was_missed_once(tmp_path: Path) -> None:
    gate, me = StreamGate(), make_identity()
    caps = ("tool-events", "resume")
    model = ScriptedModel([hold_at(call_tools(("ls", {"path": "."})), gate, 0), say("Done.")])
    async with place(tmp_path / "h", model) as here:
        async with here.other(identity=me, caps=caps) as link:
            await link.call("sessions.messages.subscribe", {"key": "main"})
            await link.call("chat.send", {"sessionKey": "main", "message": "look", "idempotencyKey": "k1"})
            first = await gathered(link, lambda f: f["event"] == "agent")
            where = link.resume()
            while not link.events.empty():
                first.append(link.events.get_nowait())
        gate.open()
        await until_over(here.link, "k1")
        async with here.other(identity=me, caps=caps, resume=where) as link:
            assert link.hello["resume"]["ok"] is True
            awaited = {"final", 4}

            def seen(frame: dict[str, Any]) -> bool:
                awaited.discard(frame["payload"].get("state") or frame["payload"].get("messageSeq"))
                return not awaited

            rest = await gathered(link, seen)
        frames = first + rest
    tools = [p["data"]["phase"] for p in named(frames, "agent") if p["stream"] == "tool"]
    assert tools == ["start", "result"]
    assert [p["messageSeq"] for p in named(frames, "session.message")] == [1, 2, 3, 4]
    assert [p["state"] for p in named(frames, "chat")].count("final") == 1
    places = [f["pos"] for f in frames if "pos" in f]
    assert places == sorted(set(places))


async def test_messages_that_wait_are_told_with_the_history(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say(LONG), gate, 2), say("after")], repeat=True)
    async with place(tmp_path / "h", model, messages={"queue": {"mode": "followup"}}) as here:
        await here.call("chat.send", sessionKey="main", message="first", idempotencyKey="k1")
        await gathered(here.link, lambda f: f["event"] == "chat")
        file = {"fileName": "a.txt", "content": "YQ=="}
        params = {"message": "then this", "idempotencyKey": "k2", "attachments": [file]}
        await here.call("chat.send", sessionKey="main", **params)
        (waiting,) = (await here.call("chat.history", sessionKey="main"))["queued"]
        gate.open()
        await until_over(here.link, "k2")
        assert "queued" not in await here.call("chat.history", sessionKey="main")
    assert (waiting["runId"], waiting["text"], waiting["files"]) == ("k2", "then this", 1) and waiting["at"] > 0


async def test_a_key_that_comes_back_with_another_text_or_session_is_refused(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as here:
        await here.say("first", "k1")
        for session, text in (("main", "second"), ("elsewhere", "first")):
            for method in ("chat.send", "agent"):
                said = await here.refused(method, sessionKey=session, message=text, idempotencyKey="k1")
                assert str(said) == "this idempotency key was used for another message"
        again = await here.call("chat.send", sessionKey="main", message="first", idempotencyKey="k1")
        assert again == {"runId": "k1", "status": "ok"}


async def test_a_run_of_before_the_restart_is_known_to_agent_wait(tmp_path: Path) -> None:
    me = make_identity()
    async with place(tmp_path / "h", ScriptedModel([say("one")])) as here, here.other(identity=me) as link:
        await link.call("chat.send", {"sessionKey": "main", "message": "first", "idempotencyKey": "k1"})
        await until_over(link, "k1")
    with open_reader(str(tmp_path / "h")) as reader:
        (row,) = reader.items()
    async with place(tmp_path / "h", ScriptedModel([])) as here, here.other(identity=me) as link:
        for name in ("k1", row.id):
            known = await link.call("agent.wait", {"runId": name})
            assert (known["runId"], known["status"], known["stopReason"]) == (name, "ok", "stop")
            assert known["endedAt"] >= known["startedAt"] > 0
        assert (await link.call("agent.wait", {"runId": "nobody"}))["timeoutPhase"] == "unknown-run"


async def test_what_is_too_much_is_refused_before_it_is_looked_at(tmp_path: Path) -> None:
    """Issue 20, fault 19: a big body holds others."""
    file = {"type": "file", "mimeType": "text/plain", "fileName": "x.txt", "content": "aGk="}
    async with place(tmp_path / "h") as here:
        sent = {"sessionKey": KEY, "idempotencyKey": "1", "message": "x"}
        assert "more than 100 attachments" in str(await here.refused("chat.send", **sent, attachments=[file] * 101))
        assert list((tmp_path / "h").glob("media/inbound/*")) == []
        assert "more than 1000000 char" in str(
            await here.refused("chat.inject", sessionKey=KEY, message="x" * 1_000_001)
        )
        job = {"schedule": {"kind": "every", "everyMs": 10_000}, "payload": {"kind": "agentTurn", "message": "x"}}
        assert "more than 512 char" in str(await here.refused("cron.add", **job, name="x" * 513))


async def test_a_message_that_waits_can_be_taken_back(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say(LONG), gate, 2), say("after")], repeat=True)
    async with place(tmp_path / "h", model, messages={"queue": {"mode": "followup"}}) as here:
        await here.call("chat.send", sessionKey="main", message="first", idempotencyKey="k1")
        await gathered(here.link, lambda f: f["event"] == "chat")
        await here.call("chat.send", sessionKey="main", message="not this", idempotencyKey="k2")
        await here.call("chat.send", sessionKey="main", message="but this", idempotencyKey="k3")
        done = await here.call("chat.abort", sessionKey="main", runId="k2")
        assert done == {"ok": True, "aborted": True, "runIds": ["k2"]}
        (left,) = (await here.call("chat.history", sessionKey="main"))["queued"]
        assert left["text"] == "but this"
        gate.open()
        await until_over(here.link, "k3")
        seen = await here.call("chat.history", sessionKey="main")
        assert (await here.call("chat.abort", sessionKey="main", runId="k2"))["aborted"] is False
    assert [m["content"] for m in seen["messages"] if m["role"] == "user"] == ["first", "but this"]


async def test_what_waits_can_be_put_in_another_order_and_be_read_by_the_run_after_all(tmp_path: Path) -> None:
    gate, home = StreamGate(), tmp_path / "h"
    model = ScriptedModel([hold_at(say(LONG), gate, 2), *(say(f"answer {n}") for n in range(4))])
    async with place(home, model) as here:
        await here.call("chat.send", sessionKey="main", message="first", idempotencyKey="k1")
        await gathered(here.link, lambda f: f["event"] == "chat")
        for n in (2, 3, 4):
            text = {"message": f"number {n}", "idempotencyKey": f"k{n}", "queue": "followup"}
            await here.call("chat.send", sessionKey="main", **text)
        await here.call("chat.send", sessionKey="main", message="now", idempotencyKey="k5", queue="steer")
        done = await here.call("chat.queue", sessionKey="main", order=["k4", "k2", "nobody"])
        assert [(one["runId"], one["after"]) for one in done["queued"]] == [
            ("k4", True), ("k3", True), ("k2", True), ("k5", False),
        ]  # fmt: skip
        assert done["steered"] is False
        assert (await here.call("chat.queue", sessionKey="main", steer="nobody"))["steered"] is False
        done = await here.call("chat.queue", sessionKey="main", steer="k2")
        assert done["steered"] is True and [one["runId"] for one in done["queued"] if not one["after"]] == ["k2", "k5"]
        gate.open()
        await until_over(here.link, "k3")
        seen = await here.call("chat.history", sessionKey="main")
    said = [m["content"] for m in seen["messages"] if m["role"] == "user"]
    assert said == ["first", "now", "number 2", "number 4", "number 3"]
    assert [m["role"] for m in seen["messages"]].count("assistant") == 4  # two of them were read by the first run


async def test_a_message_that_failed_says_so_for_as_long_as_it_stands_there(tmp_path: Path) -> None:
    model = ScriptedModel([fail("auth", "the key was refused"), say("now it works")])
    async with place(tmp_path / "h", model) as here:
        await here.say("hello", "k1")
        (asked,) = (await here.call("chat.history", sessionKey="main"))["messages"]
        assert "the key was refused" in asked["failed"] and "versions" not in asked
        await here.call("sessions.rewind", key="main", entry=asked["__openclaw"]["id"], before=True)
        await here.say("hello", "k2")
        again, answer = (await here.call("chat.history", sessionKey="main"))["messages"]
    assert "failed" not in again and answer["content"][0]["text"] == "now it works"
    assert again["versions"] == [asked["__openclaw"]["id"], again["__openclaw"]["id"]]
    assert [m.text for m in model.requests[-1].messages] == ["hello"]  # the model sees it once


async def test_one_goes_to_and_fro_between_what_was_said_in_one_place(tmp_path: Path) -> None:
    model = ScriptedModel([say("about cats"), say("more cats"), say("about dogs"), say("still cats")])
    async with place(tmp_path / "h", model) as here:
        await here.say("cats?", "k1")
        await here.say("more?", "k2")
        first = (await here.call("chat.history", sessionKey="main"))["messages"][0]["__openclaw"]["id"]
        await here.call("sessions.rewind", key="main", entry=first, before=True)
        await here.say("dogs?", "k3")
        dogs = (await here.call("chat.history", sessionKey="main"))["messages"]
        await here.call("sessions.rewind", key="main", entry=first, newest=True)
        cats = (await here.call("chat.history", sessionKey="main"))["messages"]
        await here.say("and?", "k4")
    assert dogs[0]["versions"] == cats[0]["versions"] == [first, dogs[0]["__openclaw"]["id"]]
    assert [m["content"] for m in cats if m["role"] == "user"] == ["cats?", "more?"] and len(cats) == 4
    said = [m.text for m in model.requests[-1].messages]
    assert said == ["cats?", "about cats", "more?", "more cats", "and?"]


async def test_a_sender_knows_its_message_again(tmp_path: Path) -> None:
    """Newer pages send no second message before they have seen their first in the history."""
    async with place(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as here:
        await here.call("sessions.messages.subscribe", key="main", includeApprovals=True)
        frames = await here.say("first", "run-1")
        while not named(frames, "session.message"):
            frames.append(await here.link.events.get())
        live = [one["message"] for one in named(frames, "session.message") if one["message"]["role"] == "user"]
        assert [one["idempotencyKey"] for one in live] == ["run-1:user"]
        told = await here.call("chat.history", sessionKey="main", inputRunIds=["run-1", "never"], maxBytes=262144)
        assert [one.get("idempotencyKey") for one in told["messages"]] == ["run-1:user", None]
        assert told["inputReceipts"] == []
        # it also knows again what it saw live: without the run's name the answer would stand there twice
        plain = (await here.call("chat.history", sessionKey="main"))["messages"]
        assert [one["__openclaw"]["runId"] for one in plain] == ["run-1", "run-1"]
