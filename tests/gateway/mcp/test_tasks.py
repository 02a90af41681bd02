"""Calls that take long, as tasks of MCP's extension: a name instead of a result, for the caller who made them alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from flow.test_app import settings
from flow.test_http import served
from gateway.mcp.test_modern import KEY, META, post
from palinurus import tool
from palinurus.app.program import App
from palinurus.clock import SystemClock
from palinurus.core.types.caller import SCOPES, Caller
from palinurus.core.types.messages import UserMessage
from palinurus.gateway.mcp.face import McpFault
from palinurus.gateway.mcp.tasks import KEPT, MOST, McpTasks
from palinurus.plugins.api import PluginContributions
from palinurus.plugins.peer import find_mcp_peer
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say

TASKS = "io.modelcontextprotocol/tasks"
CAN = "io.modelcontextprotocol/clientCapabilities"
DECLARED = {**META, CAN: {"elicitation": {}, "extensions": {TASKS: {}}}}
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def brought() -> PluginContributions:
    @tool(effect="pure")
    async def ask() -> str:
        """Asks two things at once, as a task."""
        peer = find_mcp_peer()
        assert peer is not None and peer.defer(needed=True)
        peer.progress(1, 4)
        told = await asyncio.gather(peer.elicit("A?", FORM, "a"), peer.elicit("B?", FORM, "b"))
        return str([one["action"] for one in told])

    @tool(effect="pure")
    async def ask_first() -> str:
        """Asks, and then takes long."""
        peer = find_mcp_peer()
        assert peer is not None
        told = await peer.elicit("A?", FORM, "a")
        peer.defer()
        return str(told["action"])

    @tool(effect="pure")
    async def late() -> str:
        """Becomes a task when its caller has gone."""
        peer = find_mcp_peer()
        assert peer is not None
        BEGUN.set()
        try:
            await HUNG_UP.wait()
            peer.defer()
            await asyncio.sleep(3600)
        finally:
            STOPPED.set()
        return ""

    return PluginContributions(tools={one.name: one for one in (ask, ask_first, late)})


BEGUN: Any = None
HUNG_UP: Any = None
STOPPED: Any = None


class Client:
    """One that comes back."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http, self.url = http, url

    async def send(self, method: str, named: str, meta: dict[str, Any] = DECLARED, **params: Any) -> dict[str, Any]:
        told = await post(self.http, self.url, method, {"_meta": meta, **params}, Mcp_Name=named)
        return dict(await told.json())

    async def call(self, tool: str, **params: Any) -> dict[str, Any]:
        return dict((await self.send("tools/call", tool, name=tool, **params))["result"])

    async def get(self, task: str) -> dict[str, Any]:
        return dict((await self.send("tasks/get", task, taskId=task))["result"])

    async def until(self, task: str, status: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while (told := await self.get(task))["status"] != status:
                await asyncio.sleep(0.01)
        return told


@asynccontextmanager
async def client(home: Path, model: ScriptedModel) -> AsyncIterator[Client]:
    app = App(settings(home), {}, SystemClock(), model=model, given=brought())
    await app.start()
    try:
        async with served(app) as server, aiohttp.ClientSession(headers=KEY) as http:
            yield Client(http, f"http://127.0.0.1:{server.port}/mcp")
    finally:
        await app.stop()


async def test_a_message_to_the_agent_is_a_task_for_who_comes_back(tmp_path: Path) -> None:
    gate = StreamGate()
    async with client(tmp_path / "h", ScriptedModel([hold_at(say("Hello, agent."), gate, 1)])) as here:
        made = await here.call("sessions_send", arguments={"message": "hi"})
        assert (made["resultType"], made["status"]) == ("task", "working") and "result" not in made
        working = await here.get(made["taskId"])
        assert (working["resultType"], working["status"]) == ("complete", "working")
        gate.open()
        done = await here.until(made["taskId"], "completed")
        assert done["result"]["content"][0]["text"] == "Hello, agent." and done["ttlMs"] >= KEPT
        assert done["createdAt"] == made["createdAt"] <= done["lastUpdatedAt"]
        gone = await here.send("tasks/get", "x", taskId="x")
        assert gone["error"]["code"] == -32602
        other = await here.send("tasks/get", made["taskId"], META, taskId=made["taskId"])
        assert (
            other["error"]["code"] == -32021 and TASKS in other["error"]["data"]["requiredCapabilities"]["extensions"]
        )
        named = await here.send("tasks/get", "another", taskId=made["taskId"])
        assert named["error"]["code"] == -32020


async def test_a_task_goes_on_when_the_gateway_begins_anew(tmp_path: Path) -> None:
    """What the agent was told is on disk under the task's name: nothing is said twice, and the name still counts."""
    gate = StreamGate()
    async with client(tmp_path / "h", ScriptedModel([hold_at(say("lost"), gate, 1)])) as here:
        task = (await here.call("sessions_send", arguments={"message": "once"}))["taskId"]
        assert (await here.get(task))["status"] == "working"
    model = ScriptedModel([say("after")])
    async with client(tmp_path / "h", model) as here:
        done = await here.until(task, "completed")
        assert done["result"] == {"content": [{"type": "text", "text": "after"}], "isError": False}
        assert (await here.send("tasks/cancel", task, taskId=task))["result"]["resultType"] == "complete"
        assert (await here.get(task))["status"] == "completed"
    assert sum(isinstance(one, UserMessage) for one in model.requests[-1].messages) == 1


async def test_a_task_that_nobody_wants_is_stopped_for_good(tmp_path: Path) -> None:
    gate = StreamGate()
    async with client(tmp_path / "h", ScriptedModel([hold_at(say("never"), gate, 1)])) as here:
        task = (await here.call("sessions_send", arguments={"message": "hi"}))["taskId"]
        told = await here.send("tasks/cancel", task, taskId=task)
        assert told["result"]["resultType"] == "complete" and "taskId" not in told["result"]
        assert (await here.get(task))["status"] == "cancelled"
    async with client(tmp_path / "h", ScriptedModel([])) as here:
        assert (await here.get(task))["status"] == "cancelled"


async def test_what_a_task_asks_is_answered_piece_by_piece(tmp_path: Path) -> None:
    async with client(tmp_path / "h", ScriptedModel([])) as here:
        task = (await here.call("ask"))["taskId"]
        asked = await here.until(task, "input_required")
        assert sorted(asked["inputRequests"]) == ["a", "b"] and asked["statusMessage"] == "1 of 4"
        yes = {"action": "accept", "content": {"ok": True}}
        for given in ({"a": yes, "never": yes}, {"b": {"action": "accept", "content": {"ok": 7}}}):
            acked = await here.send("tasks/update", task, taskId=task, inputResponses=given)
            assert set(acked["result"]) == {"resultType", "_meta"}
        assert list((await here.get(task))["inputRequests"]) == ["b"]  # what does not fit is asked for again
        await here.send("tasks/update", task, taskId=task, inputResponses={"b": {"action": "decline"}})
        assert "decline" in str((await here.until(task, "completed"))["result"])


async def test_a_tool_may_ask_before_it_is_a_task_and_may_need_to_be_one(tmp_path: Path) -> None:
    async with client(tmp_path / "h", ScriptedModel([])) as here:
        first = await here.call("ask_first")
        assert first["resultType"] == "input_required" and "taskId" not in first
        given = {"a": {"action": "accept", "content": {"ok": True}}}
        made = await here.call("ask_first", requestState=first["requestState"], inputResponses=given)
        assert made["resultType"] == "task" and "requestState" not in made
        assert "accept" in str((await here.until(made["taskId"], "completed"))["result"])
        refused = await here.send("tools/call", "ask", {**META, CAN: {"elicitation": {}}}, name="ask")
        assert refused["error"]["code"] == -32021


async def test_who_hung_up_before_he_heard_the_name_wants_it_no_more(tmp_path: Path) -> None:
    """He will ask again, and then it would be done twice."""
    global BEGUN, HUNG_UP, STOPPED
    BEGUN, HUNG_UP, STOPPED = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with client(tmp_path / "h", ScriptedModel([])) as here:
        async with aiohttp.ClientSession(headers=KEY) as http:
            other = Client(http, here.url)
            asking = asyncio.ensure_future(other.call("late"))
            await BEGUN.wait()
            asking.cancel()
        await asyncio.sleep(0.2)
        HUNG_UP.set()
        async with asyncio.timeout(60):
            await STOPPED.wait()


async def test_who_listens_is_told_how_his_tasks_stand(tmp_path: Path) -> None:
    async with client(tmp_path / "h", ScriptedModel([say("told")])) as here:
        task = (await here.call("sessions_send", arguments={"message": "hi"}))["taskId"]
        wanted = {"_meta": DECLARED, "notifications": {"taskIds": [task, "another"]}}
        heard = await post(here.http, here.url, "subscriptions/listen", wanted)
        rows = []
        async with asyncio.timeout(60):
            async for line in heard.content:
                if line.startswith(b"data:"):
                    rows.append(json.loads(line[5:]))
                    if rows[-1]["params"].get("status") == "completed":
                        break
        assert rows[0]["params"]["notifications"]["taskIds"] == [task]
        assert {one["method"] for one in rows[1:]} == {"notifications/tasks"}
        assert rows[-1]["params"]["result"]["content"][0]["text"] == "told"
        refused = await post(here.http, here.url, "subscriptions/listen", {**wanted, "_meta": META})
        assert (await refused.json())["error"]["code"] == -32021


class Call:
    def __init__(self) -> None:
        self.outcome: dict[str, Any] | None = None

    def list_questions(self) -> dict[str, Any]:
        return {}

    def take_answers(self, given: dict[str, Any]) -> None: ...

    def cancel(self) -> None: ...


class Nothing:
    async def call(self, method: str, params: dict[str, Any], *, begun: Any = None) -> Any:
        raise McpFault(0, "not reached")


async def test_a_task_is_its_makers_and_is_kept_an_hour_from_its_end() -> None:
    clock, mine, other = FakeClock(), Caller("me", SCOPES, "token"), Caller("other", SCOPES, "token")
    tasks, call = McpTasks(clock), Call()
    task = tasks.add("t", ("me", mine.device), call)
    assert task is not None and tasks.find("t", mine) is task and tasks.find("t", other) is None
    call.outcome = {"result": {}}
    task.touch()
    ends = task.describe()["ttlMs"]
    for n in range(MOST - 1):
        assert tasks.add(str(n), ("me", ""), Call()) is not None
    assert tasks.add("one more", ("me", ""), Call()) is None and tasks.find("t", mine) is task
    clock.jump((ends + 1) / 1000)
    assert tasks.add("one more", ("me", ""), Call()) is not None and tasks.find("t", mine) is None
