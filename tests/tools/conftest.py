"""A tool context of our own, and one call through the door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.policy.deciding import judge_values
from palinurus.core.types.approval import ApprovalAnswer, ApprovalRequest, ExecRules
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.core.types.tool import Tool, ToolSettings
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.collect import make_builtin_tools
from palinurus.tools.commands.environ import build_child_env
from palinurus.tools.commands.table import CommandTable


class FakeContext:
    """Implements ToolContext; keeps the updates."""

    agent = "main"
    session = "agent:main:main"
    run = "run-1"
    item = "item-1"
    call = "call-1"
    trusted = True
    inbound = Inbound(Target("fake", "chat"), Sender("human", owner=True), "e", "do it", 0)
    taint = ()

    def __init__(self, workspace: Path, **settings: Any) -> None:
        self.workspace = str(workspace)
        # Nobody is asked here: what an exec may do is tested in test_guard.py.
        given = {"rules": ExecRules(security="full", ask="off"), **settings}
        self.settings = ToolSettings(exec_env=build_child_env({"HOME": str(workspace)}, {}), **given)
        self.updates: list[str] = []
        self.asked: list[ApprovalRequest] = []
        self.told = ApprovalAnswer(None, "nobody is here")

    def set(self, **settings: Any) -> FakeContext:
        self.settings = msgspec.structs.replace(self.settings, **settings)
        return self

    def now(self) -> int:
        return 1234

    tainted_at = 0
    has_marks = True
    messages: tuple[Any, ...] = ()
    read: tuple[str, ...] = ()

    def has_called(self, tool: str, action: str) -> bool:
        return True

    def has_read(self, path: str) -> bool:
        return path in self.read

    async def confirm(self) -> None:
        return None

    def judge(self, tool: Any, args: dict[str, Any]) -> Any:
        return judge_values(tool, args, self.messages)

    async def is_asked_for(self, tool: Any) -> bool:
        return False

    def marked_below(self, folder: str) -> tuple[str, ...]:
        return ()

    async def unmark(self, paths: tuple[str, ...]) -> None:
        pass

    async def mark(self, path: str) -> None:
        pass

    @property
    def deferred(self) -> Mapping[str, Tool]:
        return {}

    def file_taint(self, path: str) -> tuple[str, ...]:
        return ()

    async def ask(self, ask: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(ask)
        return self.told

    def update(self, partial: str) -> None:
        self.updates.append(partial)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def ctx(workspace: Path) -> FakeContext:
    return FakeContext(workspace)


@pytest.fixture
async def processes() -> AsyncIterator[CommandTable]:
    """The table of running commands; what a test leaves running is ended."""
    table = CommandTable()
    yield table
    await table.close(grace=0.05)


@pytest.fixture
def do(ctx: FakeContext, processes: CommandTable) -> Callable[..., Awaitable[ToolResult]]:
    """`await do("read", path="a")` through the door, with the built-in tools."""
    tools = make_builtin_tools(processes)
    hooks = Hooks()

    async def one(name: str, **args: Any) -> ToolResult:
        return await call_tool(ToolCall("call-1", name, args), tools, ctx, hooks)

    return one
