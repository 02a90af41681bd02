"""Editors: the official client of the Agent Client Protocol against the bridge, with a whole program behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, until
from flow.test_http import served
from gateway.host import TOKEN
from later import LaterModule
from palinurus.cli.bridges.editor import serve_acp
from palinurus.clock import SystemClock
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import Model
from palinurus.gateway.client import LoginOptions, connect_gateway, make_identity
from palinurus.gateway.rpc import ADMIN, APPROVALS, READ, WRITE
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say

acp = LaterModule("acp")
schema = LaterModule("acp.schema")

OPTIONS = LoginOptions(token=TOKEN, identity=make_identity(), scopes=(ADMIN, READ, WRITE, APPROVALS))


class Editor:
    """What the person at the editor sees, and says when asked."""

    def __init__(self, decision: str = "allow-once") -> None:
        self.decision = decision
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[str]]] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        self.asked.append((tool_call, [option.option_id for option in options]))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=self.decision)
        )

    def on_connect(self, conn: Any) -> None:
        pass

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(u.content.text for u in self.updates if u.session_update == kind)


@asynccontextmanager
async def editing(tmp_path: Path, model: Model, editor: Editor, **changes: Any) -> AsyncIterator[Any]:
    async with running(tmp_path / "h", model, **changes) as app, served(app) as gateway:
        url, done = f"ws://127.0.0.1:{gateway.port}/", asyncio.Event()

        async def bridged(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = SessionKey("main", "main")
            await serve_acp(await connect_gateway(url, SystemClock(), OPTIONS), target, False, (writer, reader))
            done.set()

        server = await asyncio.start_unix_server(bridged, tmp_path / "s")
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        agent = acp.connect_to_agent(editor, writer, reader)  # type: ignore[arg-type]
        try:
            yield agent
        finally:
            await agent.close()
            writer.close()
            async with asyncio.timeout(60):
                await done.wait()
            server.close()


async def test_a_prompt_streams_its_answer_and_its_tools(tmp_path: Path) -> None:
    editor, model = Editor(), ScriptedModel([call_tools(("ls", {"path": "."})), say("All there.")])
    async with editing(tmp_path, model, editor) as agent:
        hello = await agent.initialize(protocol_version=1)
        assert hello.protocol_version == 1 and hello.agent_info.name == "palinurus"
        session = (await agent.new_session(cwd="/src", mcp_servers=[])).session_id
        done = await agent.prompt(session_id=session, prompt=[acp.text_block("look around")])
        assert done.stop_reason == "end_turn"
        await until(lambda: "All there." in editor.said())
        assert editor.said() == "All there."
        tools = [u for u in editor.updates if u.session_update in ("tool_call", "tool_call_update")]
        assert [(u.status, u.tool_call_id) for u in tools] == [
            ("in_progress", tools[0].tool_call_id),
            ("completed", tools[0].tool_call_id),
        ]
        assert (tools[0].kind, tools[0].title) == ("read", "ls: .")
        listed = await agent.list_sessions()
        assert f"agent:main:acp:{session}" in [row.session_id for row in listed.sessions]
        editor.updates.clear()
        await agent.load_session(cwd="/src", session_id=session, mcp_servers=[])
        await until(lambda: editor.said() == "All there.")
    assert "[The editor is open in /src]\nlook around" in str(model.requests[0].messages[-1].content)  # type: ignore[union-attr]


@pytest.mark.parametrize(("decision", "ran"), [("allow-once", True), ("deny", False)])
async def test_a_question_to_a_person_is_the_editors_permission_request(
    tmp_path: Path, decision: str, ran: bool
) -> None:
    editor = Editor(decision)
    model = ScriptedModel([call_tools(("exec", {"command": "touch made"})), say("Done.")])
    rules = {"exec": {"ask": "always", "security": "allowlist"}}
    async with editing(tmp_path, model, editor, tools=rules) as agent:
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        done = await agent.prompt(session_id=session, prompt=[acp.text_block("make it")])
        assert done.stop_reason == "end_turn"
        ((call, options),) = editor.asked
        assert call.title == "touch made" and {"allow-once", "deny"} <= set(options)
    assert (tmp_path / "h" / "workspace" / "made").exists() is ran


async def test_cancelling_ends_the_run(tmp_path: Path) -> None:
    editor, gate = Editor(), StreamGate()
    async with editing(tmp_path, ScriptedModel([hold_at(say("never"), gate)]), editor) as agent:
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        waiting = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[acp.text_block("wait")]))
        await gate.wait_reached()
        await agent.cancel(session_id=session)
        assert (await asyncio.wait_for(waiting, 60)).stop_reason == "cancelled"


async def test_a_commands_answer_is_said_and_errors_are_too(tmp_path: Path) -> None:
    editor = Editor()
    async with editing(tmp_path, ScriptedModel([]), editor) as agent:
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        done = await agent.prompt(session_id=session, prompt=[acp.text_block("/status")])
        assert done.stop_reason == "end_turn"
        await until(lambda: "fake/m" in editor.said())
