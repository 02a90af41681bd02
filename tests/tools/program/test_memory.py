"""memory_search and memory_get, through the door."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from palinurus.clock import SystemClock
from palinurus.config.settings import AgentSettings
from palinurus.core.memory.results import MemoryExcerpt, MemoryFindings, MemoryHit, MemoryOptions, MemoryRefusal
from palinurus.core.policy.groups import TOOL_GROUPS
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.program.memory import MemoryPort, make_memory_tools
from palinurus.workspace.memory.memories import Memories

Do = Callable[..., Awaitable[ToolResult]]


class Nothing:
    """A Recall that answers what it is told to."""

    def __init__(
        self, found: MemoryFindings = MemoryFindings(), excerpt: MemoryExcerpt | MemoryRefusal = MemoryRefusal("no")
    ) -> None:
        self.found, self.excerpt = found, excerpt
        self.asked: list[tuple[Any, ...]] = []

    async def search(
        self, agent: str, session: str, text: str, limit: int | None = None, least: float | None = None
    ) -> MemoryFindings:
        self.asked.append((agent, session, text, limit, least))
        return self.found

    async def get(
        self, agent: str, path: str, start: int = 1, lines: int | None = None
    ) -> MemoryExcerpt | MemoryRefusal:
        self.asked.append((agent, path, start, lines))
        return self.excerpt


def doing(recall: MemoryPort, ctx: Any) -> Do:
    tools, hooks = make_memory_tools(recall), Hooks()

    async def one(name: str, **args: Any) -> ToolResult:
        return await call_tool(ToolCall("c", name, args), tools, ctx, hooks)

    return one


@pytest.fixture
def real(ctx: Any, workspace: Path) -> Do:
    """With real files and a real index."""
    settings = AgentSettings("main", "main", str(workspace), memory=MemoryOptions(get_lines=5, get_chars=200))
    return doing(Memories(str(workspace.parent / "home"), {"main": settings}, SystemClock()), ctx)


async def test_search_and_read_what_was_found(real: Do, workspace: Path) -> None:
    (workspace / "memory").mkdir()
    (workspace / "memory" / "2026-01-31.md").write_text("# Launch\nmoved to May\n")
    result = await real("memory_search", query="launch date")
    (hit,) = json.loads(result.text)["results"]
    assert not result.isError and set(hit) == {
        "path", "startLine", "endLine", "score", "snippet", "source", "citation"
    }  # fmt: skip
    assert hit["citation"] == "memory/2026-01-31.md#L1-L3" and "moved to May" in hit["snippet"]
    assert (await real("memory_get", path=hit["path"], **{"from": 2})).text == "moved to May"


async def test_no_citation_in_a_group(real: Do, ctx: Any, workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("launch\n")
    ctx.session = "agent:main:telegram:group:1"
    (hit,) = json.loads((await real("memory_search", query="launch")).text)["results"]
    assert "citation" not in hit


@pytest.mark.seed(396)
async def test_get_is_bounded_by_the_config_and_says_how_to_go_on(real: Do, workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("".join(f"line {n}\n" for n in range(1, 100)))
    result = await real("memory_get", path="MEMORY.md")
    assert result.text == "line 1\nline 2\nline 3\nline 4\nline 5\n\n[Lines 1-5 of 99. Continue with from=6.]"
    wide = await real("memory_get", path="MEMORY.md", lines=99)
    assert len(wide.details["text"]) <= 200 and wide.details["next"] > 20


async def test_a_missing_file_is_empty_and_no_error(real: Do) -> None:
    result = await real("memory_get", path="memory/2020-01-01.md")
    assert not result.isError and result.details["text"] == "" and "does not exist yet" in result.text


@pytest.mark.parametrize("path", ["AGENTS.md", "../secret.md", "/etc/passwd", "memory/link.md"])
async def test_only_memory_is_read(real: Do, workspace: Path, path: str) -> None:
    (workspace / "memory").mkdir()
    (workspace / "AGENTS.md").write_text("secret")
    (workspace.parent / "secret.md").write_text("secret")
    (workspace / "memory" / "link.md").symlink_to(workspace.parent / "secret.md")
    result = await real("memory_get", path=path)
    assert result.isError and "secret\n" not in result.text and "are memory" in result.text


async def test_arguments_are_handed_on(ctx: Any) -> None:
    recall = Nothing(excerpt=MemoryExcerpt("m", "t", 3, 1, 3))
    do = doing(recall, ctx)
    await do("memory_search", q="x", limit=2, minScore=0.5)
    await do("memory_get", path="m", offset=3, limit=7)
    assert recall.asked == [("main", ctx.session, "x", 2, 0.5), ("main", "m", 3, 7)]
    assert (await do("memory_search", query="  ")).isError
    assert (await do("memory_search", query="x", maxResults=0)).isError


async def test_trouble_is_a_result(ctx: Any) -> None:
    result = await doing(Nothing(MemoryFindings(disabled="no index")), ctx)("memory_search", query="x")
    assert not result.isError
    assert json.loads(result.text) == {"results": [], "disabled": True, "reason": "no index"}


async def test_what_does_not_fit_is_left_out_whole(ctx: Any) -> None:
    ctx.set(result_chars=2000)
    found = MemoryFindings(tuple(MemoryHit(f"{n}", 1, 2, 1.0, "x" * 600) for n in range(6)))
    told = json.loads((await doing(Nothing(found), ctx)("memory_search", query="x")).text)
    assert len(told["results"]) == 2 and told["leftOut"] == 4


def test_both_only_read() -> None:
    tools = make_memory_tools(Nothing())
    assert [(name, tool.name, tool.effect) for name, tool in tools.items()] == [
        ("memory_search", "memory_search", "pure"),
        ("memory_get", "memory_get", "pure"),
    ]
    assert all(p["description"] for tool in tools.values() for p in tool.parameters["properties"].values())


@pytest.mark.seed(294)
def test_the_group_is_these_two_tools() -> None:
    assert TOOL_GROUPS["group:memory"] == tuple(make_memory_tools(Nothing()))
