"""Runs of a real App, as clients of the gateway are told of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running, until
from palinurus.app import App
from palinurus.core.types.caller import Caller
from palinurus.errors import PalinurusError
from palinurus.gateway import context
from palinurus.gateway.broadcaster import ENDED
from palinurus.gateway.methods import METHODS
from palinurus.gateway.rpc import (
    ADMIN,
    ALL_SESSIONS,
    READ,
    WRITE,
    ClientDescription,
    ConnectedClient,
    MethodCall,
    MethodError,
    to_method_error,
)
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say

KEY = "agent:main:main"
OWNER = ConnectedClient(
    "c1",
    Caller("owner", frozenset({ADMIN}), "token"),
    ClientDescription("test", "1", "linux", "test"),
    caps=frozenset({"tool-events"}),
)


class Face:
    """A gateway that only writes down what it would send."""

    def __init__(self, app: App) -> None:
        self.host = app
        self.settings, self.clock = app.settings, app.clock
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.topics: set[str] = set()
        self.context = context.make_context(self, app.program)  # type: ignore[arg-type]
        app.follow(self.context.broadcaster)

    def broadcast(self, event: str, payload: Any, *, drop_if_slow: bool = False) -> None:
        self.sent.append(("all", event, payload))

    def tell(self, topics: Iterable[str], event: str, payload: Any, *, drop_if_slow: bool = False) -> None:
        if set(topics) & self.topics:
            self.sent.append(("topic", event, payload))

    def send(self, conn: str, event: str, payload: Any, *, drop_if_slow: bool = False) -> bool:
        self.sent.append((conn, event, payload))
        return True

    def follow(self, conn: str, topic: str) -> None:
        self.topics.add(topic)

    def unfollow(self, conn: str, topic: str) -> None:
        self.topics.discard(topic)

    attended = True

    def followers(self, topics: Iterable[str]) -> frozenset[str]:
        return frozenset({"c1"}) if set(topics) & self.topics else frozenset()

    def clients(self) -> tuple[ConnectedClient, ...]:
        return (OWNER,)

    async def call(self, method: str, client: ConnectedClient = OWNER, **params: Any) -> Any:
        """As a client would, its params checked."""
        row = METHODS[method]
        assert client.may(row.scope)
        given = msgspec.convert(params, row.params) if row.params is not None else None
        self.acks: list[Any] = []
        try:
            return await row.run(MethodCall(self, client, "1", method, self.acks.append), given)  # type: ignore[arg-type]
        except PalinurusError as error:  # as rpc.serve_call does it
            raise to_method_error(error) from error

    def events(self, name: str, **wanted: Any) -> list[dict[str, Any]]:
        return [p for _, e, p in self.sent if e == name and all(p.get(k) == v for k, v in wanted.items())]


@asynccontextmanager
async def face(home: Path, model: ScriptedModel) -> AsyncIterator[Face]:
    async with running(home, model) as app:
        made = Face(app)
        yield made
        made.context.broadcaster.close()


def texts(home: Face, state: str) -> list[str]:
    return [p["message"]["content"][0]["text"] for p in home.events("chat", state=state) if "message" in p]


async def test_a_message_is_acknowledged_then_streamed_then_final(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([say("Hello, human.")])) as gate:
        sent = await gate.call("chat.send", sessionKey="main", message="hi", idempotencyKey="k1")
        assert sent == {"runId": "k1", "status": "started"}
        await until(lambda: bool(gate.events("chat", state="final")))
        final = gate.events("chat", state="final")[0]
        assert (final["runId"], final["sessionKey"]) == ("k1", KEY)
        assert texts(gate, "final") == ["Hello, human."]
        again = await gate.call("chat.send", sessionKey="main", message="hi", idempotencyKey="k1")
        assert again == {"runId": "k1", "status": "ok"}
        seen = await gate.call("chat.history", sessionKey="main")
    assert [m["role"] for m in seen["messages"]] == ["user", "assistant"]
    assert [m["__openclaw"]["seq"] for m in seen["messages"]] == [1, 2]
    assert seen["sessionInfo"]["key"] == KEY and seen["sessionId"]
    assert len(gate.events("chat", state="final")) == 1


async def test_while_nobody_is_here_nothing_is_prepared_for_anybody(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as gate:
        gate.topics.add(ALL_SESSIONS)
        gate.attended = False
        await gate.call("chat.send", sessionKey="main", message="hi", idempotencyKey="k1")
        await until(lambda: bool(gate.events("chat", state="final")))
        assert gate.context.broadcaster._worker is None
        gate.attended = True
        await gate.call("chat.send", sessionKey="main", message="hi", idempotencyKey="k2")
        await until(lambda: len(gate.events("session.message")) == 2)


async def test_who_looks_at_all_sessions_for_weeks_costs_no_more_with_each_of_them(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as gate:
        gate.topics.add(ALL_SESSIONS)
        seen = gate.context.broadcaster._seen
        seen.update({f"agent:main:old{n}": ("s", n) for n in range(ENDED)})
        for key in ("k1", "k2"):
            await gate.call("chat.send", sessionKey="main", message="hi", idempotencyKey=key)
            await until(lambda key=key: bool(gate.events("chat", state="final", runId=key)))  # type: ignore[misc]
        await until(lambda: len(gate.events("session.message")) == 4)
        assert len(seen) == ENDED and list(seen)[-1] == KEY
        assert [told["messageSeq"] for told in gate.events("session.message")] == [1, 2, 3, 4]


async def test_tool_events_go_to_the_starter_and_to_followers(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("ls", {"path": "."})), say("done")])
    async with face(tmp_path / "h", model) as gate:
        await gate.call("sessions.subscribe")
        await gate.call("chat.send", sessionKey="main", message="look", idempotencyKey="k1")
        await until(lambda: bool(gate.events("chat", state="final")))
        await until(lambda: len(gate.events("session.message")) >= 4)
        history = (await gate.call("chat.history", sessionKey="main"))["messages"]
    own = [p for conn, event, p in gate.sent if conn == "c1" and event == "agent"]
    assert [p["data"]["phase"] for p in own] == ["start", "result"]
    assert [p["data"]["phase"] for p in gate.events("session.tool")] == ["start", "result"]
    assert all(p["stream"] != "tool" for conn, event, p in gate.sent if conn == "all" and event == "agent")
    told = [p["message"]["__openclaw"]["id"] for p in gate.events("session.message")]
    assert told == [m["__openclaw"]["id"] for m in history]
    assert history[1]["toolCalls"][0]["name"] == "ls" and history[2]["role"] == "toolResult"
    assert [p.get("phase") or p.get("reason") for p in gate.events("sessions.changed")][:2] == ["send", "start"]


async def test_aborting_tells_before_it_is_over_who_stopped_what(tmp_path: Path) -> None:
    gate_ = StreamGate()
    async with face(tmp_path / "h", ScriptedModel([hold_at(say("slow"), gate_, 0)])) as gate:
        await gate.call("chat.send", sessionKey="main", message="go", idempotencyKey="k1")
        await until(lambda: bool(gate.context.broadcaster.running(KEY)))
        busy = await gate.call("chat.send", sessionKey="main", message="go", idempotencyKey="k1")
        assert busy["status"] == "in_flight"
        done = await gate.call("chat.abort", sessionKey="main")
        assert done == {"ok": True, "aborted": True, "runIds": ["k1"]}
        await until(lambda: bool(gate.events("chat", state="aborted")))
        assert gate.events("chat", state="aborted")[0]["stopReason"] == "rpc"
        assert (await gate.call("chat.abort", sessionKey="main"))["aborted"] is False


async def test_agent_answers_twice_and_can_be_waited_for(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([say("four")])) as gate:
        answer = await gate.call("agent", message="2+2", idempotencyKey="k2")
        assert gate.acks[0]["status"] == "accepted" and gate.acks[0]["runId"] == "k2"
        assert answer["result"]["payloads"] == [{"text": "four", "mediaUrl": None}]
        waited = await gate.call("agent.wait", runId="k2")
        assert (waited["status"], waited["stopReason"]) == ("ok", "stop")
        assert (await gate.call("agent.wait", runId="nobody", timeoutMs=0))["status"] == "timeout"


async def test_a_run_that_is_over_is_remembered_without_what_it_read(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("read", {"path": "big.txt"})), say("four")])
    async with face(tmp_path / "h", model) as gate:
        workspace = gate.host.settings.agents["main"].workspace
        (Path(workspace) / "big.txt").write_text("NEEDLE " * 4000)
        await gate.call("agent", message="what does it say?", idempotencyKey="k2")
        assert "NEEDLE" in str(gate.events("agent") + [p for _, _, p in gate.sent])  # it was shown
        kept = msgspec.json.encode(gate.context.broadcaster.end("k2"))
        assert b"NEEDLE" not in kept and b"four" in kept and len(kept) < 500


async def test_commands_answer_with_one_final(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([])) as gate:
        await gate.call("chat.send", sessionKey="main", message="/whoami", idempotencyKey="k3")
        await until(lambda: bool(gate.events("chat", state="final")))
        (final,) = gate.events("chat")
    assert final["message"]["command"] is True and final["sessionKey"] == KEY


async def test_patching_a_session(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([])) as gate:
        done = await gate.call("sessions.patch", key="main", verboseLevel="full", label="work", fastMode=True)
        assert done["entry"]["verboseLevel"] == "full" and done["entry"]["label"] == "work"
        await gate.call("sessions.patch", key="main", verboseLevel=None)
        row = (await gate.call("sessions.describe", key="main"))["session"]
        assert "verboseLevel" not in row and row["label"] == "work" and row["fastMode"] is True
        with pytest.raises(MethodError, match=r"invalid thinkingLevel \(use off"):
            await gate.call("sessions.patch", key="main", thinkingLevel="sideways")
        with pytest.raises(MethodError, match="label already in use: work"):
            await gate.call("sessions.patch", key="other", label="work")
        with pytest.raises(MethodError, match="invalid model"):
            await gate.call("sessions.patch", key="main", model="nobody/knows")
        assert (await gate.call("sessions.resolve", label="work"))["key"] == KEY


async def test_sessions_are_made_listed_branched_reset_and_deleted(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("other way")])
    async with face(tmp_path / "h", model) as gate:
        made = await gate.call("sessions.create", label="trip")
        key = made["key"]
        for number, text in enumerate(("first", "second")):
            await gate.call("chat.send", sessionKey=key, message=text, idempotencyKey=f"k{number}")
            await until(lambda: len(gate.events("chat", state="final")) == number + 1)  # noqa: B023
        listed = await gate.call("sessions.list", includeDerivedTitles=True, includeLastMessage=True)
        assert [(r["key"], r["lastMessagePreview"]) for r in listed["sessions"]] == [(key, "two")]
        messages = (await gate.call("chat.history", sessionKey=key))["messages"]
        second = messages[2]["__openclaw"]["id"]
        branch = await gate.call("sessions.branch", key=key, entryId=second)
        told = (await gate.call("chat.history", sessionKey=branch["key"]))["messages"]
        assert [m["role"] for m in told] == ["user", "assistant"]
        await gate.call("chat.send", sessionKey=branch["key"], message="instead", idempotencyKey="k9")
        await until(lambda: len(gate.events("chat", state="final")) == 3)
        before = (await gate.call("sessions.describe", key=key))["session"]["sessionId"]
        reset = await gate.call("sessions.reset", key=key)
        assert reset["entry"]["sessionId"] != before
        assert (await gate.call("chat.history", sessionKey=key))["messages"] == []
        gone = await gate.call("sessions.delete", key=branch["key"])
        assert gone["deleted"] and gone["archived"]
        with pytest.raises(MethodError, match="Cannot delete the main session"):
            await gate.call("sessions.delete", key="main")


async def test_what_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([])) as gate:
        with pytest.raises(MethodError, match="message or attachment required"):
            await gate.call("chat.send", sessionKey="main", message="  ", idempotencyKey="k")
        with pytest.raises(MethodError, match="unknown agent"):
            await gate.call("chat.send", sessionKey="agent:nobody:main", message="x", idempotencyKey="k")
        with pytest.raises(MethodError, match="not base64"):
            bad = [{"type": "image", "mimeType": "image/png", "content": "***"}]
            await gate.call("chat.send", sessionKey="main", message="x", idempotencyKey="k", attachments=bad)
        with pytest.raises(MethodError, match="unsupported file"):
            await gate.call("agents.files.get", agentId="main", name="../palinurus.json")


async def test_workspace_files_are_read_and_written_whole(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([])) as gate:
        await gate.call("agents.files.set", agentId="main", name="SOUL.md", content="Be kind.")
        read = await gate.call("agents.files.get", agentId="main", name="SOUL.md")
        assert read["file"]["content"] == "Be kind."
        listed = (await gate.call("agents.files.list", agentId="main"))["files"]
        assert {f["name"]: f["missing"] for f in listed}["SOUL.md"] is False


async def test_a_writer_is_no_owner(tmp_path: Path) -> None:
    writer = msgspec.structs.replace(OWNER, caller=Caller("owner", frozenset({WRITE, READ})))
    async with face(tmp_path / "h", ScriptedModel([])) as gate:
        await gate.call("chat.send", writer, sessionKey="main", message="/config show", idempotencyKey="k")
        await until(lambda: bool(gate.events("chat", state="final")))
    assert texts(gate, "final") == ["/config is for the owner only."]


async def test_the_main_session_is_not_stopped_by_a_delete_that_is_refused(tmp_path: Path) -> None:
    gate_ = StreamGate()
    async with face(tmp_path / "h", ScriptedModel([hold_at(say("slow"), gate_, 0)])) as gate:
        await gate.call("chat.send", sessionKey="main", message="go", idempotencyKey="k1")
        await until(lambda: bool(gate.context.broadcaster.running(KEY)))
        with pytest.raises(MethodError, match="Cannot delete the main session"):
            await gate.call("sessions.delete", key="main")
        gate_.open()
        await until(lambda: bool(gate.events("chat", state="final")))
        assert not gate.events("chat", state="aborted")
