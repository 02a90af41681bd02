"""Issue 21, F3: without anything that contains commands, file tools ask before they leave the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palinurus.agent.plan.sandbox import ToolSandboxes
from palinurus.config.load import load_config
from palinurus.core.types.approval import ApprovalAnswer, ApprovalRequest
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.sandbox.probe import SandboxSupport


class Person:
    """Answers the same to every question, and keeps them."""

    def __init__(self, decision: Any) -> None:
        self.decision = decision
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, question: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(question)
        return ApprovalAnswer(self.decision, "me")


@pytest.fixture
def bounded(ctx: Any, workspace: Path, tmp_path: Path) -> Any:
    system = tmp_path / "usr"
    system.mkdir()
    (system / "lib.txt").write_text("open to all")
    ctx.set(cell=SandboxSpec(read=(str(system),), write=(str(workspace),)))
    return ctx


LEAVING = [
    ("read", {"path": "{home}/.ssh/id_rsa"}, "read outside"),
    ("grep", {"pattern": "canary", "path": "{home}"}, "read outside"),
    ("find", {"pattern": "*", "path": "{home}"}, "read outside"),
    ("write", {"path": "{home}/.bashrc", "content": "owned"}, "write outside"),
    ("edit", {"path": "{home}/.ssh/id_rsa", "edits": [{"oldText": "canary", "newText": "x"}]}, "write outside"),
]


@pytest.mark.parametrize(("tool", "args", "title"), LEAVING)
@pytest.mark.parametrize("decision", ["deny", "allow-once"])
async def test_what_leaves_the_workspace_asks(
    bounded: Any, do: Any, tmp_path: Path, tool: str, args: dict[str, Any], title: str, decision: str
) -> None:
    home = tmp_path / "person"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("canary")
    person = bounded.ask = Person(decision)
    filled = {key: value.format(home=home) if isinstance(value, str) else value for key, value in args.items()}
    result = await do(tool, **filled)
    assert len(person.asked) == 1 and title in person.asked[0].title
    if decision == "deny":
        assert "denied" in result.text and "canary" not in result.text and not (home / ".bashrc").exists()
        assert (home / ".ssh" / "id_rsa").read_text() == "canary"
    else:
        assert not result.isError, result.text


async def test_a_link_is_judged_by_where_it_leads(bounded: Any, do: Any, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("canary")
    (workspace / "innocent").symlink_to(tmp_path / "key")
    person = bounded.ask = Person("deny")
    result = await do("read", path="innocent")
    assert "canary" not in result.text and str(tmp_path / "key") in person.asked[0].title


async def test_ordinary_work_asks_nothing(bounded: Any, do: Any, workspace: Path, tmp_path: Path) -> None:
    person = bounded.ask = Person("deny")
    assert not (await do("write", path="a.txt", content="x")).isError
    assert (await do("read", path="a.txt")).text
    assert "open to all" in (await do("read", path=str(tmp_path / "usr" / "lib.txt"))).text
    assert person.asked == []


@pytest.mark.parametrize(("contain", "bounds"), [("auto", True), ("off", False)])
def test_who_has_bounds(tmp_path: Path, contain: str, bounds: bool) -> None:
    """A machine that contains nothing; not where the owner said that this is meant."""
    home = tmp_path / "state"
    home.mkdir()
    (home / "palinurus.json").write_text(f'{{"agents": {{"defaults": {{"sandbox": {{"contain": "{contain}"}}}}}}}}')
    settings = load_config(str(home), {"HOME": str(tmp_path)}).settings
    made = ToolSandboxes(settings, {"HOME": str(tmp_path)}, SandboxSupport)
    cell = made.of(settings.agents["main"], SessionKey("main", "main")).cell
    assert cell.kind == "none" and bool(cell.write) == bounds and ("/usr" in cell.read) == bounds
