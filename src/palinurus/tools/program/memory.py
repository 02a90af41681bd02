"""memory_search and memory_get: finding and reading what was remembered. Made for a `MemoryPort`; know no index.

Both only read. Writing memory is done with the ordinary file tools.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from palinurus.core.memory.results import MemoryExcerpt, MemoryFindings, MemoryRefusal, write_excerpt_hint
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_json_output, make_output
from palinurus.tools.define import bind_tools, define_tool
from palinurus.tools.files.paths import shorten_path
from palinurus.tools.results import fit_rows


class MemoryPort(Protocol):
    """Where memory is. `workspace.memory.memories.Memories` is one."""

    async def search(
        self, agent: str, session: str, text: str, limit: int | None = None, least: float | None = None
    ) -> MemoryFindings: ...

    async def get(
        self, agent: str, path: str, start: int = 1, lines: int | None = None
    ) -> MemoryExcerpt | MemoryRefusal: ...


@define_tool(
    "memory_search",
    effect="pure",
    summary=("query", "path"),
    aliases={"query": "q text", "maxResults": "limit max_results", "minScore": "min_score"},
)
async def _search(
    memory: MemoryPort,
    /,
    ctx: ToolContext,
    query: Annotated[str, 'Words to look for; "in quotes" they must stand together'],
    maxResults: Annotated[int, Meta(ge=1, description="At most this many results (6)")] | None = None,
    minScore: Annotated[float, Meta(ge=0, le=1, description="Leave out what scores lower")] | None = None,
) -> ToolOutput:
    """Search MEMORY.md and memory/*.md for what was noted earlier (work, decisions, dates, people, preferences, tasks).
    Returns the best pieces with path and lines; read more with memory_get."""
    if not query.strip():
        raise ToolFailure("query is empty")
    found = await memory.search(ctx.agent, ctx.session, query, maxResults, least=minScore)
    body: dict[str, Any] = {"results": [_plain(hit) for hit in found.hits]}
    if found.disabled:
        body |= {"disabled": True, "reason": found.disabled}
    if found.note:
        body["note"] = found.note
    return make_json_output(fit_rows(body, "results", ctx.settings.result_chars - 200))


class MemoryWindow(msgspec.Struct, frozen=True):
    """Which lines of which file."""

    path: Annotated[str, "As memory_search gave it, e.g. memory/2026-01-31.md"]
    first: Annotated[int, Meta(ge=1, description="First line, counted from 1")] = msgspec.field(name="from", default=1)
    lines: Annotated[int, Meta(ge=1, description="How many lines at most")] | None = None


@define_tool(
    "memory_get",
    effect="pure",
    summary=("query", "path"),
    aliases={"path": "file_path file", "from": "offset start", "lines": "limit"},
)
async def _get(memory: MemoryPort, /, ctx: ToolContext, args: MemoryWindow) -> ToolOutput:
    """Read lines of a memory file (MEMORY.md or memory/*.md), best after memory_search. Long files come in parts, with
    the line to continue from; a file that does not exist is empty, not an error."""
    found = await memory.get(ctx.agent, args.path, args.first, args.lines)
    if isinstance(found, MemoryRefusal):
        raise ToolFailure(f"{shorten_path(args.path)}: {found.reason}")
    told = write_excerpt_hint(found)
    gap = "\n\n" if found.text and told else ""
    return make_output(f"{found.text}{gap}{told}", msgspec.to_builtins(found))


def _plain(hit: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(hit)
    return {name: value for name, value in made.items() if value is not None}


def make_memory_tools(memory: MemoryPort) -> dict[str, Tool]:
    """The two tools, by name."""
    return bind_tools((_search, _get), memory)
