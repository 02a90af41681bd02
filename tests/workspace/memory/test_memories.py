"""The memories of all agents, told of tool calls by hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiny
from palinurus.clock import SystemClock
from palinurus.config.settings import AgentSettings
from palinurus.core.memory.results import MemoryExcerpt, MemoryOptions, MemoryRefusal
from palinurus.plugins.hooks import Hooks
from palinurus.workspace.memory.memories import Memories
from palinurus.workspace.memory.memory import AgentMemory

SESSION = "agent:main:main"


def agents(tmp_path: Path) -> dict[str, AgentSettings]:
    made = {}
    for name in ("main", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "MEMORY.md").write_text(f"I belong to {name}\n")
        made[name] = AgentSettings(name, name, str(tmp_path / name))
    return made


async def test_each_agent_has_its_own(tmp_path: Path) -> None:
    shelf = Memories(str(tmp_path / "home"), agents(tmp_path), SystemClock())
    for name in ("main", "other"):
        (hit,) = (await shelf.search(name, SESSION, "belong")).hits
        assert name in hit.snippet
    got = await shelf.get("other", "MEMORY.md")
    assert isinstance(got, MemoryExcerpt) and got.text == "I belong to other"
    assert (await shelf.search("nobody", SESSION, "belong")).disabled
    assert isinstance(await shelf.get("nobody", "MEMORY.md"), MemoryRefusal)
    await shelf.close()


async def test_hooks_tell_who_wrote(tmp_path: Path) -> None:
    shelf, hooks = Memories(str(tmp_path / "home"), agents(tmp_path), SystemClock()), Hooks()
    shelf.attach(hooks)
    hooks.observe("gateway_start", {})
    await hooks.drain()
    payload = {"agentId": "main", "sessionKey": SESSION, "runId": "r", "toolCallId": "c", "durationMs": 5}
    (tmp_path / "main" / "MEMORY.md").write_text("I belong to main\nnoted\n")
    hooks.observe("after_tool_call", {**payload, "toolName": "write", "params": {"path": "MEMORY.md"}})
    await hooks.drain()
    (tmp_path / "main" / "memory").mkdir()
    (tmp_path / "main" / "memory" / "a.md").write_text("by a command\n")
    hooks.observe("after_tool_call", {**payload, "toolName": "read", "params": {"path": "MEMORY.md"}})
    hooks.observe("after_tool_call", {**payload, "toolName": "write", "params": {"path": "AGENTS.md"}})
    await hooks.drain()
    hooks.observe("after_tool_call", {**payload, "toolName": "exec", "params": {"command": "x"}, "error": "exit 1"})
    await hooks.drain()
    await shelf.close()
    memory = AgentMemory(str(tmp_path / "home"), "main", str(tmp_path / "main"), MemoryOptions(), SystemClock())
    last = memory.versions("MEMORY.md")[-1]
    assert (last.kind, *last.author) == ("written", "write", SESSION, "r", "c")
    assert memory.versions("memory/a.md")[-1].kind == "during"
    memory.close()


async def test_vectors_are_made_in_the_background(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    tiny.model(tmp_path / "home")
    shelf, hooks = Memories(str(tmp_path / "home"), agents(tmp_path), SystemClock()), Hooks()
    shelf.attach(hooks)
    (tmp_path / "other" / "MEMORY.md").write_text("green tea tea\n")
    hooks.observe("gateway_start", {})
    await hooks.drain()
    assert shelf._filling is not None
    await shelf._filling
    assert (await shelf.search("other", SESSION, "beverage")).hits[0].path == "MEMORY.md"
    (tmp_path / "other" / "MEMORY.md").write_text("the cat cat\n")
    assert (await shelf.search("other", SESSION, "cat")).hits
    await shelf.close()  # in the middle of the work that search began
