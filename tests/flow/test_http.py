"""The HTTP interfaces in front of a whole program: the client's own tools, one tool alone, the history."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flow.test_app import running
from gateway.host import TOKEN
from later import LaterModule, open_openai
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage
from palinurus.gateway.server import GatewayServer
from palinurus.testing.model import ScriptedModel, call_tools, say

openai = LaterModule("openai")

WEATHER = {
    "name": "weather",
    "description": "the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@asynccontextmanager
async def served(app: App) -> AsyncIterator[GatewayServer]:
    gateway = GatewayServer(app, SystemClock(), TOKEN)
    await gateway.start("127.0.0.1", 0)
    try:
        yield gateway
    finally:
        await gateway.stop()


def sdk(gateway: GatewayServer) -> openai.AsyncOpenAI:
    return open_openai(gateway.port, TOKEN)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_of_the_clients_is_called_by_the_client(tmp_path: Path, stream: bool) -> None:
    """W29: calls and results of client tools came back to the model as text."""
    model = ScriptedModel([call_tools(("weather", {"city": "Rome"})), say("It is sunny.")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        messages: list[Any] = [{"role": "user", "content": "weather in Rome?"}]
        tools: Any = [{"type": "function", "function": WEATHER}]
        if stream:
            async with client.chat.completions.stream(model="openclaw", messages=messages, tools=tools) as frames:
                async for _ in frames:
                    pass
                first: Any = await frames.get_final_completion()
        else:
            first = await client.chat.completions.create(model="openclaw", messages=messages, tools=tools)
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls"
        (call,) = choice.message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Rome"})
        answer = {"role": "assistant", "tool_calls": [call.model_dump(include={"id", "type", "function"})]}
        messages += [answer, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        second = await client.chat.completions.create(model="openclaw", messages=messages, tools=tools)
        assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("It is sunny.", "stop")
    assert "weather" in {tool.name for tool in model.requests[0].tools}
    assert_roles(model.requests[1].messages)


def assert_roles(messages: Sequence[Message]) -> None:
    """The model sees its call and what the client's tool returned as such, tainted as nobody's of ours."""
    asked, said, result = messages
    assert isinstance(asked, UserMessage) and isinstance(said, AssistantMessage) and isinstance(result, ToolResult)
    assert [(call.id, call.name, call.arguments) for call in said.calls] == [
        (result.toolCallId, "weather", {"city": "Rome"})
    ]
    assert (result.text, result.toolName, result.source) == ("sunny", "weather", "plugin:client weather")


async def test_results_of_calls_that_nobody_made_are_told_in_words(tmp_path: Path) -> None:
    model = ScriptedModel([say("ok")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        messages: Any = [
            {"role": "user", "content": "weather?"},
            {"role": "tool", "tool_call_id": "no-such", "content": "sunny"},
        ]
        await client.chat.completions.create(model="openclaw", messages=messages)
    (request,) = model.requests
    assert [m.text for m in request.messages] == ["weather?", "[result of a tool]\nsunny"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_with_responses_which_remember(tmp_path: Path, stream: bool) -> None:
    model = ScriptedModel([call_tools(("weather", {"city": "Rome"})), say("It is sunny."), say("Any time.")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        tools: Any = [{"type": "function", "strict": False, **WEATHER}]
        if stream:
            async with client.responses.stream(model="openclaw", input="weather?", tools=tools) as frames:
                async for _ in frames:
                    pass
                first: Any = await frames.get_final_response()
        else:
            first = await client.responses.create(model="openclaw", input="weather?", tools=tools)
        (item,) = first.output
        assert (item.type, item.name, json.loads(item.arguments)) == ("function_call", "weather", {"city": "Rome"})
        output: Any = [{"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}]
        second = await client.responses.create(
            model="openclaw", input=output, previous_response_id=first.id, tools=tools
        )
        assert second.output_text == "It is sunny."
        third = await client.responses.create(model="openclaw", input="thanks", previous_response_id=second.id)
        assert third.output_text == "Any time."
    assert_roles(model.requests[1].messages)
    assert model.requests[2].messages[:3] == model.requests[1].messages  # the placeholder on file is never sent
    assert [m.text for m in model.requests[2].messages[3:]] == ["It is sunny.", "thanks"]


async def test_one_tool_without_a_model_under_the_policy(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), tools={"deny": ["grep"]}) as app, served(app) as gateway:
        workspace = Path(app.settings.agents["main"].workspace)
        (workspace / "notes.txt").write_text("remember the milk")
        base, headers = f"http://127.0.0.1:{gateway.port}", {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(base, headers=headers) as http:
            async with http.post("/tools/invoke", json={"tool": "ls", "args": {"path": "."}}) as answer:
                assert "notes.txt" in json.dumps(await answer.json())
            async with http.post("/tools/invoke", json={"tool": "grep", "args": {"pattern": "milk"}}) as answer:
                assert answer.status == 404
            async with http.post("/tools/invoke", json={"tool": "ls", "args": {"path": 7, "x": []}}) as answer:
                assert (answer.status, (await answer.json())["error"]["type"]) == (400, "tool_error")
        assert await app.store.sessions() == []


async def test_a_sessions_status_before_its_first_message(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([])) as app, served(app) as gateway:
        base, headers = f"http://127.0.0.1:{gateway.port}", {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(base, headers=headers) as http:
            for body in ({}, {"sessionKey": "agent:main:new"}):
                async with http.post("/tools/invoke", json={"tool": "session_status", **body}) as answer:
                    told = await answer.json()
                assert answer.status == 200 and told["result"]["details"]["model"] == "fake/m"
            other = {"tool": "session_status", "args": {"sessionKey": "agent:main:other"}}
            async with http.post("/tools/invoke", json=other) as answer:
                assert answer.status == 400  # another one does not exist for it
        assert await app.store.sessions() == []


async def test_a_history_in_pages_and_as_it_grows(tmp_path: Path) -> None:
    model = ScriptedModel([say(f"answer {n}") for n in range(3)])
    async with running(tmp_path / "h", model) as app, served(app) as gateway:
        base, headers = f"http://127.0.0.1:{gateway.port}", {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(base, headers=headers) as http:

            async def say_it(text: str) -> None:
                body = {"model": "openclaw", "messages": [{"role": "user", "content": text}]}
                more = {"x-openclaw-session-key": "agent:main:main"}
                async with http.post("/v1/chat/completions", json=body, headers=more) as answer:
                    assert answer.status == 200

            async with http.get("/sessions/main/history") as answer:
                assert answer.status == 404
            await say_it("one")
            await say_it("two")
            async with http.get("/sessions/agent%3Amain%3Amain/history?limit=3") as answer:
                newest = await answer.json()
            assert newest["hasMore"] and len(newest["messages"]) == 3 and newest["items"] == newest["messages"]
            async with http.get(f"/sessions/main/history?cursor={newest['nextCursor']}") as answer:
                oldest = await answer.json()
            assert not oldest["hasMore"] and [m["role"] for m in oldest["messages"]] == ["user"]
            async with http.get("/sessions/main/history?limit=0") as answer:
                assert answer.status == 400
            sse = {"Accept": "text/event-stream"}
            async with http.get("/sessions/main/history", headers=sse) as stream, asyncio.timeout(60):
                assert await stream.content.readline() == b"event: history\n"
                await say_it("three")
                seen = b""
                while b"answer 2" not in seen:
                    seen += await stream.content.readline()
            assert seen.count(b"event: message") == 2 and seen.count(b"answer 1") == 2  # the page holds its rows twice


async def test_the_lines_of_the_readme_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the stock SDK, as README.md shows it."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "gateway.token").write_text(TOKEN + "\n")
    monkeypatch.chdir(tmp_path)
    async with running(tmp_path / "h", ScriptedModel([say("two files")])) as app, served(app) as gateway:
        address = f"http://127.0.0.1:{gateway.port}/v1"
        await asyncio.to_thread(exec, code.replace("http://127.0.0.1:18789/v1", address), {})
    assert capsys.readouterr().out == "two files\n"
