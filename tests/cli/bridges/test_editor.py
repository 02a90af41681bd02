"""Editors: the official client of the Agent Client Protocol against the bridge, with a whole program behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings, until
from flow.test_http import served
from gateway.host import TOKEN
from later import LaterModule
from palinurus.cli.bridges.acp import LocalLeaves
from palinurus.cli.bridges.editor import AcpBridge, FolderLeaves, serve_acp
from palinurus.clock import SystemClock
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import Model
from palinurus.gateway.client import LoginOptions, connect_gateway, make_identity
from palinurus.gateway.rpc import ADMIN, APPROVALS, READ, WRITE
from palinurus.services.changes import ChangeKeeper
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, say

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
async def editing(
    tmp_path: Path, model: Model, editor: Editor, leaves: FolderLeaves | None = None, **changes: Any
) -> AsyncIterator[Any]:
    async with running(tmp_path / "h", model, **changes) as app, served(app) as gateway:
        url, done = f"ws://127.0.0.1:{gateway.port}/", asyncio.Event()

        async def bridged(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = SessionKey("main", "main")
            link = await connect_gateway(url, SystemClock(), OPTIONS)
            await serve_acp(link, target, False, (writer, reader), leaves=leaves)
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
        assert session in [row.session_id for row in listed.sessions]  # the name that new gave, and load takes
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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("eggs")
    return folder


EDITS = (
    ("read", {"path": "notes.txt"}),
    ("edit", {"path": "notes.txt", "edits": [{"oldText": "eggs", "newText": "tofu"}]}),
    ("write", {"path": "new.txt", "content": "n"}),
    ("exec", {"command": "pwd; exit 3"}),
    ("update_plan", {"plan": [{"step": "look", "status": "completed"}, {"step": "act", "status": "pending"}]}),
)


async def test_the_editors_project_is_where_it_works_after_one_question(tmp_path: Path, project: Path) -> None:
    """W15: it worked in its own folder. W30: edits had no diff and no place, lists other ids than new."""
    editor, model = Editor("allow-always"), ScriptedModel([call_tools(*EDITS), say("Done."), say("Again.")])
    leaves = LocalLeaves(settings(tmp_path / "h"), {})
    async with editing(tmp_path, model, editor, leaves) as agent:
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd=str(project), mcp_servers=[])).session_id
        await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
        assert (project / "notes.txt").read_text() == "tofu" and (project / "new.txt").exists()
        ((question, options),) = editor.asked
        assert str(project) in question.title and options == ["allow-always", "deny"]
        listed = await agent.list_sessions(cwd=str(project))
        assert [(row.session_id, row.cwd) for row in listed.sessions] == [(session, str(project))]
        again = (await agent.new_session(cwd=str(project), mcp_servers=[])).session_id  # allowed once and for all
        await agent.prompt(session_id=again, prompt=[acp.text_block("more")])
        assert len(editor.asked) == 1
    calls = {u.title.partition(":")[0]: u for u in editor.updates if u.session_update == "tool_call"}
    assert calls["edit"].locations[0].path == calls["read"].locations[0].path == str(project / "notes.txt")
    (diff,) = calls["edit"].content
    assert (diff.type, diff.path, diff.old_text, diff.new_text) == ("diff", str(project / "notes.txt"), "eggs", "tofu")
    assert calls["write"].content[0].new_text == "n"
    ends = {u.tool_call_id: u for u in editor.updates if u.session_update == "tool_call_update"}
    assert ends[calls["edit"].tool_call_id].content[0].type == "diff"
    assert ends[calls["exec"].tool_call_id].status == "failed"
    (plan,) = [u for u in editor.updates if u.session_update == "plan"]
    assert [(one.content, one.status) for one in plan.entries] == [("look", "completed"), ("act", "pending")]


async def test_a_session_made_by_one_bridge_works_in_its_project_in_the_next(tmp_path: Path, project: Path) -> None:
    """Fronts that end after each command, as acpx: new, and then load in another process."""
    editor, model = Editor("allow-always"), ScriptedModel([call_tools(*EDITS[1:3]), say("Done."), say("Again.")])
    async with editing(tmp_path, model, editor, LocalLeaves(settings(tmp_path / "h"), {})) as first:
        await first.initialize(protocol_version=1)
        session = (await first.new_session(cwd=str(project), mcp_servers=[])).session_id
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        agent = acp.connect_to_agent(editor, writer, reader)  # type: ignore[arg-type]
        await agent.initialize(protocol_version=1)
        for times in (1, 1):  # asked for before the first prompt, and then no more
            await agent.load_session(cwd=str(project), session_id=session, mcp_servers=[])
            await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
            assert len(editor.asked) == times and (project / "notes.txt").read_text() == "tofu"
        (row,) = (await agent.list_sessions(cwd=str(project))).sessions
        assert row.session_id == session and row.updated_at.startswith("20")
        await agent.close()
        writer.close()


@pytest.mark.parametrize("cwd", ["project", "h", "."])
async def test_without_leave_it_works_at_home_and_is_told_where_the_editor_is(
    tmp_path: Path, project: Path, cwd: str
) -> None:
    editor, model = Editor("deny"), ScriptedModel([call_tools(("write", {"path": "x", "content": ""})), say("Done.")])
    place = str((tmp_path / cwd).resolve())
    async with editing(tmp_path, model, editor, LocalLeaves(settings(tmp_path / "h"), {})) as agent:
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd=place, mcp_servers=[])).session_id
        await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
    assert len(editor.asked) == (cwd == "project")  # the state directory, and what holds it, cannot be allowed
    assert (tmp_path / "h" / "workspace" / "x").exists() and not (Path(place) / "x").exists()
    assert f"[The editor is open in {place}]" in str(model.requests[0].messages[-1].content)  # type: ignore[union-attr]


async def test_unknown_sessions_and_failed_turns(tmp_path: Path) -> None:
    """W30: an unknown session was answered, a failed turn ended as `end_turn`."""
    editor = Editor()
    async with editing(tmp_path, ScriptedModel([fail("auth", "no such key")], repeat=True), editor) as agent:
        await agent.initialize(protocol_version=1)
        for ident in ("nobody", "agent:main:acp:nobody"):
            with pytest.raises(acp.RequestError, match="no session"):
                await agent.prompt(session_id=ident, prompt=[acp.text_block("hi")])
            with pytest.raises(acp.RequestError, match="no session"):
                await agent.load_session(cwd="/", session_id=ident, mcp_servers=[])
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        with pytest.raises(acp.RequestError, match="no such key"):
            await agent.prompt(session_id=session, prompt=[acp.text_block("hi")])


async def test_modes_options_and_commands(tmp_path: Path) -> None:
    """W30: there were none."""
    editor = Editor()
    async with editing(tmp_path, ScriptedModel([say("ok")]), editor) as agent:
        await agent.initialize(protocol_version=1)
        made = await agent.new_session(cwd="/", mcp_servers=[])
        assert made.modes.current_mode_id == "default"
        assert {"plan", "ask", "acceptEdits", "full"} <= {one.id for one in made.modes.available_modes}
        assert made.config_options[0].id == "model" and made.config_options[0].current_value == "fake/m"
        await until(lambda: any(u.session_update == "available_commands_update" for u in editor.updates))
        await agent.set_session_mode(session_id=made.session_id, mode_id="plan")
        loaded = await agent.load_session(cwd="/", session_id=made.session_id, mcp_servers=[])
        assert loaded.modes.current_mode_id == "plan"
        chosen = await agent.set_config_option(config_id="model", session_id=made.session_id, value="builtin/demo")
        assert chosen.config_options[0].current_value == "builtin/demo"
        with pytest.raises(acp.RequestError):
            await agent.set_session_mode(session_id=made.session_id, mode_id="nosuch")


async def test_thoughts_are_shown(tmp_path: Path) -> None:
    """W30: they were not sent."""
    editor = Editor()
    async with editing(tmp_path, ScriptedModel([say("Answer.", thinking="hm, well")]), editor) as agent:
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        await agent.prompt(session_id=session, prompt=[acp.text_block("hi")])
        await until(lambda: editor.said() == "Answer.")
    assert editor.said("agent_thought_chunk") == "hm, well"


class Hands(Editor):
    """An editor that lends its hands. `buffers`: what is on its screen; `saves`: does writing reach the disk?"""

    def __init__(self, *, saves: bool = True, abilities: str = "read write terminal") -> None:
        super().__init__("allow-always")
        self.buffers: dict[str, str] = {}
        self.saves = saves
        self.log: list[tuple[str, str]] = []
        self.commands: list[tuple[str, list[str], str, dict[str, str]]] = []
        self.ended = asyncio.Event()
        files = schema.FileSystemCapabilities(read_text_file="read" in abilities, write_text_file="write" in abilities)
        self.capabilities = schema.ClientCapabilities(fs=files, terminal="terminal" in abilities)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        self.log.append(("read", path))
        text = self.buffers[path] if path in self.buffers else Path(path).read_text()
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        self.log.append(("write", content))
        self.buffers[path] = content
        if self.saves:
            Path(path).write_text(content)
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self, session_id: str, command: str, args: Any = None, env: Any = None, cwd: str | None = None, **_: Any
    ) -> Any:
        self.commands.append((command, args, cwd or "", {one.name: one.value for one in env}))
        return schema.CreateTerminalResponse(terminal_id="t1")

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        await self.ended.wait()
        return schema.WaitForTerminalExitResponse(exit_code=3)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        return schema.TerminalOutputResponse(output="seen by the person\n", truncated=False)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.log.append(("kill", terminal_id))
        self.ended.set()
        return schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.log.append(("release", terminal_id))
        return schema.ReleaseTerminalResponse()


async def work(tmp_path: Path, folder: Path, editor: Hands, *calls: Any, **changes: Any) -> list[str]:
    """What the model was told of its calls, made one after the other in the editor's project."""
    model = ScriptedModel([*(call_tools(call) for call in calls), say("Done.")])
    async with editing(tmp_path, model, editor, LocalLeaves(settings(tmp_path / "h"), {}), **changes) as agent:
        await agent.initialize(protocol_version=1, client_capabilities=editor.capabilities)
        session = (await agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
    return [one.text for one in model.requests[-1].messages if isinstance(one, ToolResult)]


async def test_reading_shows_what_is_not_saved_yet(tmp_path: Path, project: Path) -> None:
    editor = Hands()
    editor.buffers[str(project / "notes.txt")] = "eggs and milk"
    (project / "same.txt").write_bytes(b"a\r\nb\r\n")
    editor.buffers[str(project / "same.txt")] = "a\nb\n"  # an editor's own ends of lines are no change
    told = await work(tmp_path, project, editor, ("read", {"path": "notes.txt"}), ("read", {"path": "same.txt"}))
    assert told[0].startswith("eggs and milk") and "not saved" in told[0]
    assert told[1] == "a\nb\n"
    assert (project / "notes.txt").read_text() == "eggs"


async def test_what_leads_out_of_the_folder_is_not_asked_of_the_editor(tmp_path: Path, project: Path) -> None:
    editor = Hands()
    (tmp_path / "secret").write_text("s3cret")
    (project / "link").symlink_to(tmp_path / "secret")
    told = await work(
        tmp_path, project, editor, ("read", {"path": "link"}), ("write", {"path": "link", "content": "x"})
    )
    assert all("link is outside the workspace" in one for one in told)
    assert (tmp_path / "secret").read_text() == "s3cret"
    assert editor.log == []


async def test_changes_go_by_the_editors_buffer_and_can_be_undone(tmp_path: Path, project: Path) -> None:
    editor, notes = Hands(), project / "notes.txt"
    editor.buffers[str(notes)] = "eggs and milk"
    calls = (
        ("edit", {"path": "notes.txt", "edits": [{"oldText": "eggs", "newText": "tofu"}]}),
        ("write", {"path": "new/a.txt", "content": "n"}),
    )
    told = await work(tmp_path, project, editor, *calls)
    assert [one for one in editor.log if one[0] == "write"] == [
        ("write", "eggs and milk"),  # what the person had typed is saved first
        ("write", "tofu and milk"),
        ("write", "n"),
    ]
    assert told[0] == "Changed notes.txt in 1 place, first at line 1." and told[1] == "Created new/a.txt (1 bytes)."
    assert notes.read_text() == "tofu and milk" and (project / "new" / "a.txt").read_text() == "n"
    async with running(tmp_path / "h", ScriptedModel([])) as app:
        await ChangeKeeper(app.settings, app.store).undo()
    assert notes.read_text() == "eggs and milk" and not (project / "new").exists()


async def test_an_editor_that_does_not_write_is_written_for(tmp_path: Path, project: Path) -> None:
    told = await work(tmp_path, project, Hands(saves=False), ("write", {"path": "notes.txt", "content": "x"}))
    assert (project / "notes.txt").read_text() == "x" and "was written on disk" in told[0]


async def test_a_form_of_the_editors_own_stays(tmp_path: Path, project: Path) -> None:
    class Formats(Hands):
        async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
            return await super().write_text_file(session_id, path, content.rstrip() + "\n")

    told = await work(tmp_path, project, Formats(), ("write", {"path": "a.py", "content": "x=1  "}))
    assert (project / "a.py").read_text() == "x=1\n" and "read it again" in told[0]


OUTSIDE = {"exec": {"ask": "off", "security": "full"}, "elevated": {"enabled": True, "allowFrom": {"*": ["*"]}}}


async def test_commands_outside_run_where_the_person_sees_them(tmp_path: Path, project: Path) -> None:
    editor = Hands()
    editor.ended.set()
    outside = {"tools": OUTSIDE, "agents": {"defaults": {"elevatedDefault": "full"}}}
    (told,) = await work(tmp_path, project, editor, ("exec", {"command": "echo hi"}), **outside)
    ((program, args, cwd, env),) = editor.commands
    assert [program, *args][-2:] == ["-c", "echo hi"] and cwd == str(project) and env["OPENCLAW_SHELL"] == "exec"
    assert "seen by the person" in told and "(exit code 3)" in told
    assert ("release", "t1") in editor.log
    shown = [u.content[0] for u in editor.updates if u.session_update == "tool_call_update" and u.content]
    assert [(one.type, one.terminal_id) for one in shown] == [("terminal", "t1")] * 2  # it stays when the call is over


async def test_contained_commands_are_ours(tmp_path: Path, project: Path) -> None:
    editor = Hands()
    assert await work(tmp_path, project, editor, ("exec", {"command": "echo held"})) == ["held"]
    assert editor.commands == []


async def test_stopping_ends_the_command_in_the_editor(tmp_path: Path, project: Path) -> None:
    editor = Hands()
    model = ScriptedModel([call_tools(("exec", {"command": "sleep 1000"}))])
    outside = {"tools": OUTSIDE, "agents": {"defaults": {"elevatedDefault": "full"}}}
    async with editing(tmp_path, model, editor, LocalLeaves(settings(tmp_path / "h"), {}), **outside) as agent:
        await agent.initialize(protocol_version=1, client_capabilities=editor.capabilities)
        session = (await agent.new_session(cwd=str(project), mcp_servers=[])).session_id
        waiting = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[acp.text_block("go")]))
        await until(lambda: bool(editor.commands))
        await agent.cancel(session_id=session)
        assert (await asyncio.wait_for(waiting, 60)).stop_reason == "cancelled"
        await until(lambda: editor.log == [("kill", "t1"), ("release", "t1")])


async def test_a_turn_outlives_its_editor(tmp_path: Path, project: Path) -> None:
    class Leaves(Hands):
        async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
            asyncio.get_running_loop().call_soon(self.ended.set)
            return await asyncio.Event().wait()

    editor, model = Leaves(), ScriptedModel([call_tools(("read", {"path": "notes.txt"})), say("Done.")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway:
        link = await connect_gateway(f"ws://127.0.0.1:{gateway.port}/", SystemClock(), OPTIONS)
        LocalLeaves(app.settings, {}).allow(str(project))
        bridge = AcpBridge(link, SessionKey("main", "main"), False, LocalLeaves(app.settings, {}))
        bridge.on_connect(editor)
        listening = asyncio.ensure_future(bridge.listen())
        await bridge.initialize(1, editor.capabilities)
        session = (await bridge.new_session(str(project))).session_id
        asking = asyncio.ensure_future(bridge.prompt(session, [acp.text_block("go")]))
        await editor.ended.wait()
        for task in (asking, listening):
            task.cancel()
        await link.close()
        await until(lambda: len(model.requests) == 2)
    (told,) = [one.text for one in model.requests[-1].messages if isinstance(one, ToolResult)]
    assert told.startswith("eggs") and "the editor was closed; this is the file on disk" in told
