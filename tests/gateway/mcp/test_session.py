"""A client of our MCP server: what it is told while a call goes on, what it follows, and what it may not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palinurus.clock import SystemClock
from palinurus.core.types.caller import SCOPES, Caller
from palinurus.core.types.events import AgentEnd, ToolStart
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.tool import ToolFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.gateway.mcp.face import McpFace, McpFault
from palinurus.gateway.mcp.session import MOST, McpSession, McpSessions, McpStream
from palinurus.plugins.peer import McpPeer, PluginPrompt, PluginResource, PromptArgument, find_mcp_peer

OWNER = Caller("owner", SCOPES, "token")


class Link:
    """The gateway's methods, as far as these tests need them; `work` is what a tool does."""

    def __init__(self, work: Any = None) -> None:
        self.work = work
        self.calls: list[str] = []
        self.tools, self.files = ["read"], {"MEMORY.md": 1}

    async def call(self, method: str, params: dict[str, Any], *, begun: Any = None) -> Any:
        self.calls.append(method)
        rows = [{"id": name, "about": name, "parameters": {}, "effect": "pure"} for name in self.tools]
        if method in ("tools.invoke", "agent"):
            peer = find_mcp_peer()
            assert peer is not None
            content = [{"type": "text", "text": str(await self.work(peer))}]
            return {"ok": True, "output": {"content": content, "details": None}, "status": "ok"}
        return {
            "tools.effective": {"groups": [{"tools": rows}]},
            "skills.status": {"skills": []},
            "sessions.list": {"sessions": [{"key": "agent:main:main"}]},
            "agents.files.list": {
                "files": [{"name": n, "missing": False, "updatedAtMs": at} for n, at in self.files.items()]
            },
        }.get(method, {})


def session(**can: Any) -> tuple[McpSession, McpFace]:
    made = McpSession("s", OWNER)
    face = McpFace(Link(), "agent:main:main", send=True, memory=True)
    made._can = can
    return made, face


async def asked(one: McpSession, face: McpFace, method: str, ident: int = 1, **params: Any) -> list[dict[str, Any]]:
    stream = one.start({"id": ident, "method": method, "params": params}, face)
    return await said(stream)


async def said(stream: McpStream) -> list[dict[str, Any]]:
    async with asyncio.timeout(20):
        while not stream.ended:
            stream.wake.clear()
            await stream.wake.wait()
    return [message for _, message in stream.since(0)]


async def call(work: Any, meta: dict[str, Any] | None = None, **can: Any) -> list[dict[str, Any]]:
    one, _ = session(**can)
    face = McpFace(Link(work), "agent:main:main", send=True)
    return await asked(one, face, "tools/call", name="read", arguments={}, _meta=meta or {})


async def test_progress_goes_to_who_asked_for_it_and_logs_by_level() -> None:
    async def work(peer: McpPeer) -> str:
        peer.progress(1, 2, "half")
        peer.log("debug", "quiet")
        peer.log("warning", "loud")
        return "done"

    told = await call(work, {"progressToken": "t"})
    assert told[0]["params"] == {"progressToken": "t", "progress": 1, "total": 2, "message": "half"}
    assert told[1]["params"]["data"] == "loud" and told[-1]["result"]["content"][0]["text"] == "done"
    assert [one.get("method") for one in await call(work)] == ["notifications/message", None]


async def test_a_client_is_asked_only_what_it_said_it_can() -> None:
    async def work(peer: McpPeer) -> str:
        return str((await peer.elicit("Name?", {"type": "object"}))["content"])

    one, _ = session(elicitation={})
    stream = one.start(
        {"id": 1, "method": "tools/call", "params": {"name": "read"}}, McpFace(Link(work), "agent:main:main", send=True)
    )
    async with asyncio.timeout(20):
        await stream.wake.wait()
    (_, question), *_ = stream.since(0)
    assert question["method"] == "elicitation/create" and question["params"]["message"] == "Name?"
    one.take_answer({"id": "another", "result": {}})
    one.take_answer({"id": question["id"], "result": {"action": "accept", "content": "Ada"}})
    assert (await said(stream))[-1]["result"]["content"][0]["text"] == "Ada"

    async def sampled(peer: McpPeer) -> str:
        with pytest.raises(ToolFailure, match="no sampling"):
            await peer.sample([], 10)
        return "refused"

    assert (await call(sampled))[-1]["result"]["content"][0]["text"] == "refused"


async def test_a_cancelled_call_is_stopped_and_not_answered() -> None:
    ended = asyncio.Event()

    async def work(peer: McpPeer) -> str:
        peer.progress(0)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    one, _ = session()
    face = McpFace(Link(work), "agent:main:main", send=True)
    params = {"name": "read", "_meta": {"progressToken": 1}}
    stream = one.start({"id": 7, "method": "tools/call", "params": params}, face)
    async with asyncio.timeout(20):
        await stream.wake.wait()
    one.take_notice("notifications/cancelled", {"requestId": 8})
    assert not ended.is_set()
    one.take_notice("notifications/cancelled", {"requestId": 7})
    told = await said(stream)
    assert ended.is_set() and not any("result" in one or "error" in one for one in told)


async def test_a_cancelled_message_to_the_agent_stops_its_run() -> None:
    link = Link(lambda peer: asyncio.Event().wait())
    one, _ = session()
    params = {"name": "sessions_send", "arguments": {"message": "hi"}}
    stream = one.start({"id": 1, "method": "tools/call", "params": params}, McpFace(link, "agent:main:main", send=True))
    while "agent" not in link.calls:
        await asyncio.sleep(0)
    one.take_notice("notifications/cancelled", {"requestId": 1})
    await said(stream)
    await one.tasks.settle()
    assert link.calls[-1] == "chat.abort"


async def test_levels_and_subscriptions_are_checked() -> None:
    one, face = session()
    assert (await asked(one, face, "logging/setLevel", level="error"))[0]["result"] == {}
    assert one.level == "error"
    assert (await asked(one, face, "logging/setLevel", level="shout"))[0]["error"]["code"] == -32602
    assert (await asked(one, face, "resources/subscribe", uri="memory://MEMORY.md"))[0]["result"] == {}
    for uri in ("memory://../x", "file:///etc/passwd"):
        assert (await asked(one, face, "resources/subscribe", uri=uri))[0]["error"]["code"] == -32002
    alone = McpSession("", OWNER)
    assert "error" in (await asked(alone, face, "resources/subscribe", uri="session://main"))[0]


async def test_changes_are_told_to_who_knows_the_old() -> None:
    link = Link()
    one, face = McpSession("s", OWNER), McpFace(link, "agent:main:main", send=True, memory=True)
    await one.look(face)
    assert one.news.since(0) == []  # it asked for nothing
    await asked(one, face, "tools/list")
    await asked(one, face, "resources/subscribe", uri="memory://MEMORY.md")
    await one.look(face)
    assert one.news.since(0) == []
    link.tools.append("grep")
    link.files["MEMORY.md"] = 2
    await one.look(face)
    await one.look(face)
    told = [message["method"] for _, message in one.news.since(0)]
    assert told == ["notifications/tools/list_changed", "notifications/resources/updated"]
    await asked(one, face, "resources/unsubscribe", uri="memory://MEMORY.md")
    link.files["MEMORY.md"] = 3
    await one.look(face)
    assert len(one.news.since(0)) == 2


async def test_who_follows_a_conversation_hears_of_it_and_of_the_steps_of_its_own_run() -> None:
    sessions, steps = McpSessions(SystemClock()), []
    one, face = sessions.open(OWNER), McpFace(Link(), "agent:main:main", send=True)
    await asked(one, face, "resources/subscribe", uri="session://agent%3Amain%3Amain")
    sessions.expect_run("mine", lambda step, words: steps.append((step, words)))
    inbound = Inbound(Target("gateway"), Sender("x"), "mine", "hi", at=0)
    sessions.on_accepted("i1", "agent:main:main", inbound)
    sessions.on_event("i1", ToolStart("c", "read", {}))
    sessions.on_event("i1", AgentEnd((), "stop", TokenUsage()))
    sessions.on_ended("i1")
    sessions.on_accepted("i2", "agent:main:other", Inbound(Target("gateway"), Sender("x"), "e", "hi", at=0))
    sessions.on_event("i2", ToolStart("c", "read", {}))
    sessions.on_event("i2", AgentEnd((), "stop", TokenUsage()))
    assert [m["params"]["uri"] for _, m in one.news.since(0)] == ["session://agent%3Amain%3Amain"]
    assert steps == [(1, "read")]


def test_a_session_is_its_callers_and_the_oldest_makes_room() -> None:
    sessions = McpSessions(SystemClock())
    first = sessions.open(OWNER)
    assert sessions.find(first.id, OWNER) is first
    assert sessions.find(first.id, Caller("device:x", SCOPES, "device", device="x")) is None
    for _ in range(MOST):
        sessions.open(OWNER)
    assert len(sessions) == MOST and sessions.find(first.id, OWNER) is None and first.news.ended


def test_a_stream_is_read_by_one_and_kept_for_who_comes_back() -> None:
    stream = McpStream("3")
    turn = stream.take()
    stream.say({"method": "a"})
    stream.say({"method": "b"})
    assert [number for number, _ in stream.since(1)] == [2]
    stream.take()
    assert not stream.holds(turn)


async def test_what_plugins_bring() -> None:
    face = McpFace(Link(), "agent:main:main", send=True)
    face.resources = {
        "log://{day}/lines": PluginResource("log://{day}/lines", "Log", lambda day: f"of {day}"),
        "pic://x": PluginResource("pic://x", "Picture", lambda: b"\x01", mime="image/png"),
    }
    arguments = (PromptArgument("tone", required=True, choices=("kind", "keen")),)
    face.prompts = {"greet": PluginPrompt("greet", "Greets", lambda tone: f"Be {tone}.", arguments)}
    listed = (await face.answer("resources/list", {}))["resources"]
    assert [one["uri"] for one in listed] == ["session://agent%3Amain%3Amain", "pic://x"]
    patterns = (await face.answer("resources/templates/list", {}))["resourceTemplates"]
    assert [one["uriTemplate"] for one in patterns] == ["session://{key}", "log://{day}/lines"]
    assert (await face.answer("resources/read", {"uri": "log://mon%20day/lines"}))["contents"][0][
        "text"
    ] == "of mon day"
    assert (await face.answer("resources/read", {"uri": "pic://x"}))["contents"][0]["blob"] == "AQ=="
    got = await face.answer("prompts/get", {"name": "greet", "arguments": {"tone": "kind", "more": "x"}})
    assert got["messages"][0]["content"]["text"] == "Be kind."
    with pytest.raises(McpFault, match="needs tone"):
        await face.answer("prompts/get", {"name": "greet"})
    ref = {"type": "ref/prompt", "name": "greet"}
    told = await face.answer("completion/complete", {"ref": ref, "argument": {"name": "tone", "value": "ke"}})
    assert told["completion"]["values"] == ["keen"]
    key = {"ref": {"type": "ref/resource", "uri": "session://{key}"}, "argument": {"name": "key", "value": "agent:m"}}
    assert (await face.answer("completion/complete", key))["completion"]["values"] == ["agent:main:main"]
