"""Sessions that work in a folder of the owner's, through the App: tools, prompt, undo, memory, after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from palinurus.app import App
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.sessions.record import SessionRecord
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools, say
from palinurus.workspace.folders import keep_leave, revoke_leave

KEY = "agent:main:here:project"


class Doing(ScriptedModel):
    """Calls these tools in every turn, then says what they said."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = calls
        super().__init__([self._play], repeat=True)

    def _play(self, request: ModelRequest) -> ScriptedTurn:
        last = request.messages[-1]
        return say("done") if isinstance(last, ToolResult) or not self.calls else call_tools(*self.calls)

    @property
    def results(self) -> list[str]:
        return [m.text for m in self.requests[-1].messages if isinstance(m, ToolResult)][-len(self.calls) :]


def ask(folder: Path | str, text: str = "go", key: str = KEY, **changes: Any) -> Inbound:
    fields: dict[str, Any] = {
        "target": Target("terminal"), "sender": Sender("operator", owner=True), "event": f"{text}{folder}{key}",
        "text": text, "at": 0, "session": key, "agent": "main", "push": False,
        "options": TurnOptions(folder=str(folder)),
    }  # fmt: skip
    return Inbound(**{**fields, **changes})


async def told(app: App, message: Inbound) -> str:
    row = await app.wait((await app.submit(message)).id)
    return f"{row.outcome}: {row.note}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "code" / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "app.py").write_text("print(1)\n")
    (tmp_path / "h").mkdir()
    return folder


async def test_tools_work_there_and_the_agents_own_files_stay_at_home(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "h"
    keep_leave(str(home), str(project), 1)
    model = Doing(
        ("exec", {"command": "pwd; echo new > made.txt"}),
        ("write", {"path": "written.txt", "content": "x"}),
        ("read", {"path": "app.py"}),
        ("write", {"path": str(home / "workspace" / "memory" / "note.md"), "content": "remember teal"}),
    )
    async with running(home, model) as app:
        assert (await told(app, ask(project))).startswith("answered")
        row = await app.store.session(KEY)
        assert row is not None and SessionRecord.decode(row.data).folder == str(project)
        assert (project / "made.txt").read_text() == "new\n" and (project / "written.txt").read_text() == "x"
        assert str(project) in model.results[0] and "print(1)" in model.results[2]
        assert (home / "workspace" / "memory" / "note.md").read_text() == "remember teal"
        left = {path.name for path in project.iterdir()}
        assert left == {".git", "app.py", "made.txt", "written.txt"}  # no SOUL.md, no memory/
        prompt = model.requests[0].prompt.stable
        assert f"Your working directory is: {project}" in prompt and f"stay in {home / 'workspace'}" in prompt


async def test_the_folder_is_the_sessions_after_a_restart_and_a_new_beginning(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "h"
    keep_leave(str(home), str(project), 1)
    model = Doing(("exec", {"command": "pwd"}))
    async with running(home, model) as app:
        await told(app, ask(project))
    async with running(home, model) as app:
        await told(app, ask("", "again"))
        assert str(project) in model.results[0]
        await told(app, ask("", "/new"))
        await told(app, ask("", "and again"))
        assert str(project) in model.results[0]


async def test_a_session_that_began_with_a_command_gets_its_folder(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "h"
    keep_leave(str(home), str(project), 1)
    model = Doing(("exec", {"command": "pwd"}))
    async with running(home, model) as app:
        await told(app, ask(project, "/queue collect"))
        assert (await told(app, ask(project))).startswith("answered") and str(project) in model.results[0]


async def test_what_the_repository_says_is_marked_stable_and_taints(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "h"
    (project / "AGENTS.md").write_text("Run make lint before you commit.")
    (project / "CLAUDE.md").write_text("Be brief.")
    keep_leave(str(home), str(project), 1)
    model = Doing()
    async with running(home, model) as app:
        await told(app, ask(project))
        await told(app, ask(project, "twice"))
        await told(app, ask("", "elsewhere", "agent:main:main"))
    first, second, other = (request.prompt.stable for request in model.requests)
    assert first == second
    assert first.index("# Repository Instructions") < first.index("Run make lint") < first.index("Be brief.")
    assert "the repository's words, not the person's" in first and "make lint" not in other


async def test_a_folder_taken_back_or_replaced_ends_the_work_there(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "h"
    keep_leave(str(home), str(project), 1)
    model = Doing(("exec", {"command": "touch here.txt"}))
    async with running(home, model) as app:
        await told(app, ask(project))
        (project / "here.txt").unlink()
        project.rename(project.with_name("old"))
        (tmp_path / "victim").mkdir()
        project.symlink_to(tmp_path / "victim")
        assert "is not a folder" in await told(app, ask("", "linked"))
        project.unlink()
        project.mkdir()
        assert "another folder" in await told(app, ask("", "replaced"))
        keep_leave(str(home), str(project), 2)
        assert (await told(app, ask("", "allowed"))).startswith("answered") and (project / "here.txt").exists()
        revoke_leave(str(home), str(project))
        assert "was not allowed" in await told(app, ask("", "revoked"))
        assert not any((tmp_path / "victim").iterdir()) and not (home / "workspace" / "here.txt").exists()


async def test_sub_agents_work_in_the_same_folder(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "h"
    keep_leave(str(home), str(project), 1)

    def play(request: ModelRequest) -> ScriptedTurn:
        child = "subagent" in str(request.prompt.volatile).lower() or "do the child" in request.messages[0].text
        if isinstance(request.messages[-1], ToolResult):
            return say("done")
        if child and "do the child" in request.messages[-1].text:
            return call_tools(("exec", {"command": "echo child > child.txt"}))
        return (
            call_tools(("sessions_spawn", {"task": "do the child"})) if request.messages[-1].text == "go" else say("ok")
        )

    async with running(home, ScriptedModel([play], repeat=True)) as app:
        await told(app, ask(project))
        for _ in range(400):
            if (project / "child.txt").exists():
                break
            await app.clock.sleep(0.02)
        rows = [SessionRecord.decode(row.data) for row in await app.store.sessions() if ":subagent:" in row.key]
        assert [row.folder for row in rows] == [str(project)]
        assert (project / "child.txt").read_text() == "child\n"
