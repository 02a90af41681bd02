"""A tool context of our own, and one call through the door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.core.types.tool import ToolSettings
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call
from palinurus.tools.collect import builtin
from palinurus.tools.environ import child_env


class FakeContext:
    """Implements ToolContext; keeps the updates."""

    agent = "main"
    session = "agent:main:main"
    run = "run-1"
    call = "call-1"
    trusted = True

    def __init__(self, workspace: Path, **settings: Any) -> None:
        self.workspace = str(workspace)
        self.settings = ToolSettings(exec_env=child_env({"HOME": str(workspace)}, {}), **settings)
        self.updates: list[str] = []

    def set(self, **settings: Any) -> FakeContext:
        self.settings = msgspec.structs.replace(self.settings, **settings)
        return self

    def now(self) -> int:
        return 1234

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
def do(ctx: FakeContext) -> Callable[..., Awaitable[ToolResult]]:
    """`await do("read", path="a")` through the door, with the built-in tools."""
    tools = builtin()
    hooks = Hooks()

    async def one(name: str, **args: Any) -> ToolResult:
        return await call(ToolCall("call-1", name, args), tools, ctx, hooks)

    return one
