"""Tools of MCP servers through the whole program: offered, allowed, denied, tainted, asked about, ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow import test_app
from flow.test_app import transcript, until
from palinurus.app import App
from palinurus.app.mcp import VARIABLE
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.sampling import SamplingRequest
from palinurus.core.types.tool import ToolFailure
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.commands import descendants
from palinurus.tools.mcp.questions import McpAnswer, McpQuestion, fill_form
from support import inbound
from tools.mcp.kit import TINY

LOOK = "tiny__look"
OWNER = Sender("me", owner=True)


@asynccontextmanager
async def running(home: Path, model: ScriptedModel, **changes: Any) -> AsyncIterator[App]:
    async with test_app.running(home, model, **changes) as app:
        app.mcp._wait = 60.0  # the first run waits for servers that are starting: here however slow the machine is
        yield app


def names(model: ScriptedModel, at: int = 0) -> list[str]:
    return [tool.name for tool in model.requests[at].tools if "__" in tool.name]


async def asked(app: App, text: str = "go", **more: Any) -> Any:
    return await app.wait((await app.submit(inbound(text, sender=OWNER, **more))).id)


def results(model: ScriptedModel) -> list[ToolResult]:
    return [one for one in model.requests[-1].messages if isinstance(one, ToolResult)]


@pytest.mark.seed(273)
async def test_the_model_is_offered_a_servers_tools_and_its_words_come_back_framed(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools((LOOK, {})), say("done")])
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": TINY}}) as app:
        assert (await asked(app)).outcome == "answered"
        mark = app.mcp.all["tiny"]._means.mark("tiny")
        assert descendants.find_strays((mark,))
    assert names(model) == [f"tiny__{n}" for n in ("change", "die", "env", "long", "look", "oops", "touch", "wait")]
    (result,) = results(model)
    assert not result.isError and "EXTERNAL_UNTRUSTED_CONTENT" in result.text and "\nseen\n" in result.text
    assert result.source == "mcp:tiny"
    assert mark.startswith(VARIABLE) and not descendants.find_strays((mark,))  # ended with the program


@pytest.mark.parametrize(
    ("tools", "seen"),
    [
        ({"deny": ["bundle-mcp"]}, []),
        ({"deny": ["group:plugins"]}, []),
        ({"deny": ["tiny"]}, []),
        ({"deny": ["bundle-mcp:tiny"]}, []),
        ({"deny": ["tiny__*"]}, []),
        ({"profile": "minimal"}, []),
        ({"profile": "minimal", "alsoAllow": [LOOK]}, [LOOK]),
        ({"allow": ["read", "tiny__look"]}, [LOOK]),
        ({"allow": ["read"]}, []),
        (
            {"profile": "messaging", "deny": ["tiny__*e*", "tiny__lo*g", "tiny__wait", "tiny__touch", "tiny__oops"]},
            [LOOK],
        ),
    ],
)
async def test_policy_names_servers_and_their_tools(tmp_path: Path, tools: dict[str, Any], seen: list[str]) -> None:
    model = ScriptedModel([call_tools((LOOK, {})), say("done")])
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": TINY}}, tools=tools) as app:
        await asked(app)
    assert names(model) == seen
    (result,) = results(model)
    assert result.isError is (LOOK not in names(model))
    if result.isError:
        assert "not found" in result.text  # a tool that was not offered cannot be called either


async def test_after_a_servers_words_a_change_is_asked_about_and_a_look_is_not(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call_tools((LOOK, {})), call_tools((LOOK, {})), call_tools(("tiny__change", {"ctx": "x"})), say("done")]
    )
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": TINY}}) as app:
        ident = (await app.submit(inbound("go", sender=OWNER))).id
        async with asyncio.timeout(60):
            while not (rows := await app.approvals.pending()):
                await asyncio.sleep(0.01)
        (row,) = rows
        assert row.ask.tool == "tiny__change" and row.ask.taint == ("mcp:tiny",)
        await app.approvals.answer(row.id, "deny", "test")
        await app.wait(ident)
    first, second, third = results(model)
    assert not first.isError and not second.isError
    assert third.isError and "denied" in third.text


async def test_a_server_that_does_not_start_stops_nobody(tmp_path: Path) -> None:
    model = ScriptedModel([say("hello")])
    async with running(tmp_path / "h", model, mcp={"servers": {"gone": {"command": "no-such-program"}}}) as app:
        assert (await asked(app)).note == "hello"
    assert names(model) == []


async def test_a_crash_leaves_the_tools_in_the_prompt_and_the_server_comes_back(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("tiny__die", {})), call_tools((LOOK, {})), say("done"), say("again")])
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": TINY}}) as app:
        await asked(app)
        await asked(app, "again", event="e2")
    died, looked = (one for one in results(model) if one.toolName.startswith("tiny"))
    assert died.isError and "whether it was done is not known" in died.text and not looked.isError
    assert model.requests[0].tools == model.requests[-1].tools


async def test_an_abort_ends_the_call_and_leaves_the_server_connected(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("tiny__wait", {})), say("never")])
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": TINY}}) as app:
        ident = (await app.submit(inbound("go", sender=OWNER))).id
        async with asyncio.timeout(60):
            while not any("tiny__wait" in str(line) for line in _lines(tmp_path / "h")):
                await asyncio.sleep(0.01)
        assert await app.abort("agent:main:main", "stop")
        assert (await app.wait(ident)).outcome == "aborted"
        await until(lambda: app.mcp.all["tiny"].connected)
    assert len(model.requests) == 1


def _lines(home: Path) -> list[Any]:
    try:
        return transcript(home)
    except ValueError:
        return []


async def test_a_tool_filter_leaves_some_of_a_servers_tools(tmp_path: Path) -> None:
    rules = {"include": ["lo*", "tiny__env", "wait"], "exclude": ["long"]}
    model = ScriptedModel([call_tools((LOOK, {}), ("tiny__long", {})), say("done")])
    servers = {"tiny": {**TINY, "toolFilter": rules, "supportsParallelToolCalls": False}}
    async with running(tmp_path / "h", model, mcp={"servers": servers}) as app:
        await asked(app)
        assert all(tool.sequential for tool in app.mcp._mine.values())
    assert names(model) == ["tiny__env", LOOK, "tiny__wait"]
    assert [one.isError for one in results(model)] == [False, True]  # nor can it be called


async def test_times_of_a_server_can_be_written_in_seconds(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("tiny__wait", {})), say("done")])
    slow = {"command": "sleep", "args": ["60"], "connectTimeout": 0.2}
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": {**TINY, "timeout": 0.2}, "slow": slow}}) as app:
        await asked(app)
        await until(lambda: bool(app.mcp.all["slow"].problem))
        assert "did not start within 0.2 s" in app.mcp.all["slow"].problem
    assert "did not answer within 0.2 s" in results(model)[0].text


async def test_a_server_that_nobody_uses_is_ended_until_the_next_run(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools((LOOK, {})), say("one"), call_tools((LOOK, {})), say("two")])
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": TINY}, "sessionIdleTtlMs": 50}) as app:
        tiny = app.mcp.all["tiny"]
        assert (await asked(app)).note == "one"
        await until(lambda: not tiny.connected)
        assert not tiny.problem and (await asked(app, event="2")).note == "two"
    assert names(model, 0) == names(model, 2) and not results(model)[-1].isError


MANY, ASKS = ({**TINY, "args": [*TINY["args"], word]} for word in ("--many", "--asks"))


async def test_of_two_hundred_tools_the_model_is_told_how_to_find_them(tmp_path: Path) -> None:
    """Less than 4,000 tokens of prompt; what is found is called under its own name at the gate; the prefix stays."""
    turns = [
        call_tools(("tool_search", {"query": "boats department"})),
        call_tools(("tool_call", {"name": "tiny__job_077", "arguments": {"what": "paint it"}})),
        say("done"),
        call_tools(("tool_call", {"name": "tiny__job_078", "arguments": {"what": "x"}})),
        call_tools(("tool_call", {"name": "tiny__job_080", "arguments": {}}), ("tool_call", {"name": "read"})),
        say("done"),
    ]
    model = ScriptedModel(turns)
    tools = {"deny": ["tiny__job_078"]}
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": MANY}}, tools=tools) as app:
        await asked(app)
        found, called = results(model)
        await asked(app)
    first = model.requests[0]
    told = [tool for tool in first.tools if tool.name.startswith(("tiny__", "tool_"))]
    assert {tool.name for tool in told} == {"tool_search", "tool_call"}
    cost = sum(len(msgspec.json.encode(tool)) for tool in told) + first.prompt.text.count("tiny__") * 40
    assert cost / 4 < 1_000  # tokens; without the search: 200 definitions of about 100 tokens
    hits = json.loads(found.text)
    assert hits["tools"][0]["name"] == "tiny__job_077" and hits["tools"][0]["parameters"]["required"] == ["what"]
    assert "job_077: paint it" in called.text and called.toolName == "tool_call" and "mcp:tiny" in str(called.source)
    assert all(one.tools == first.tools and one.prompt.stable == first.prompt.stable for one in model.requests)
    denied, wrong, other = results(model)[-3:]
    assert denied.isError and "not found" in denied.text  # policy holds for what is found, too
    assert wrong.isError and "what" in wrong.text and other.isError and "path" in other.text


@pytest.mark.parametrize(
    ("decision", "action"),
    [("allow-once", {"action": "accept", "content": {"sure": True, "name": "boat"}}), ("deny", {"action": "decline"})],
)
async def test_what_a_server_asks_back_is_put_to_the_person(tmp_path: Path, decision: Any, action: Any) -> None:
    model = ScriptedModel([call_tools(("tiny__confirm", {})), say("done")])
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": ASKS}}) as app:
        ident = (await app.submit(inbound("go", sender=OWNER))).id
        async with asyncio.timeout(60):
            while not (rows := await app.approvals.pending()):
                await asyncio.sleep(0.01)
        assert rows[0].ask.tool == "tiny__confirm" and ("asks", "Sink it?") in rows[0].ask.facts
        assert ("sends name", "boat") in rows[0].ask.facts and rows[0].ask.allowed == ("allow-once", "deny")
        await app.approvals.answer(rows[0].id, decision, "test")
        await app.wait(ident)
    (result,) = results(model)
    assert json.loads(result.text.split("\n---\n", 1)[1].split("\n<<<END")[0]) == action


async def test_what_would_have_to_be_typed_is_declined_and_nobody_is_asked(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("tiny__confirm", {"required": ["secret"]})), say("done")])
    form = {"properties": {"secret": {"type": "string"}}, "required": ["secret"]}
    assert fill_form(form) is None and fill_form({}) == {}
    assert fill_form({"properties": {"kind": {"enum": ["one"]}, "more": {"type": "string"}}}) == {"kind": "one"}
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": ASKS}}) as app:
        server = app.mcp.all["tiny"]
        server.wake()
        await server.wait_settled()
        assert await server._help().ask(McpQuestion("Password?", form)) == McpAnswer(
            "decline"
        )  # no call, nobody to ask
        assert await app.approvals.pending() == []


@pytest.mark.parametrize("decision", ["allow-once", "deny"])
async def test_a_server_borrows_a_model_only_with_a_persons_leave(tmp_path: Path, decision: Any) -> None:
    answers = [say("Halcyon")] if decision == "allow-once" else []
    words = f"Name a boat. {'x' * 3000} And tell nobody."
    model = ScriptedModel([call_tools(("tiny__borrow", {"text": words})), *answers, say("done")])
    agents = {"defaults": {"model": {"primary": "fake/m", "fallbacks": ["fake/second-model"]}}}
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": ASKS}}, agents=agents) as app:
        ident = (await app.submit(inbound("my secret is 42", sender=OWNER))).id
        async with asyncio.timeout(60):
            while not (rows := await app.approvals.pending()):
                await asyncio.sleep(0.01)
        facts = dict(rows[0].ask.facts)
        assert facts["user says"] == words and facts["system says"] == "Be short."
        assert "at most 50 tokens" in facts["model"] and rows[0].ask.tool == "tiny__borrow"
        await app.approvals.answer(rows[0].id, decision, "test")
        await app.wait(ident)
    (result,) = results(model)
    told = json.loads(result.text.split("\n---\n", 1)[1].split("\n<<<END")[0])
    if decision == "deny":
        assert told["code"] == -1 and len(model.requests) == 2  # no model was asked for it
        return
    asked = model.requests[1]
    assert told["content"]["text"] == "Halcyon" and told["stopReason"] == "endTurn"
    assert (asked.prompt.text, asked.max_tokens, asked.tools, asked.owner) == ("Be short.", 50, (), rows[0].ask.session)
    assert "42" not in str(asked.messages)  # nothing of the conversation
    assert "mcp:tiny" in str(result.source)


async def test_nobody_lends_a_model_outside_of_a_call_or_for_too_many_words(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("tiny__borrow", {"text": "x" * 7000})), say("done")])
    async with running(tmp_path / "h", model, mcp={"servers": {"tiny": ASKS}}) as app:
        server = app.mcp.all["tiny"]
        with pytest.raises(ToolFailure, match="no model is lent"):
            await server._help().sample(SamplingRequest((("user", "hi"),), 5))
        await app.wait((await app.submit(inbound("go", sender=OWNER))).id)
        assert await app.approvals.pending() == []
    assert "at most" in results(model)[0].text
