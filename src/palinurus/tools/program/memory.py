"""memory_search and memory_get: finding and reading what was remembered. Made for a `Recall`; know no index.

Both only read. Writing memory is done with the ordinary file tools.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import msgspec

from palinurus.core.memory.results import MemoryExcerpt, MemoryFindings, MemoryRefusal, write_excerpt_hint
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.files.paths import shorten_path


class MemoryPort(Protocol):
    """Where memory is. `workspace.memory.shelf.Shelf` is one."""

    async def search(
        self, agent: str, session: str, text: str, limit: int | None = None, least: float | None = None
    ) -> MemoryFindings: ...

    async def get(
        self, agent: str, path: str, start: int = 1, lines: int | None = None
    ) -> MemoryExcerpt | MemoryRefusal: ...


def make_memory_tools(recall: MemoryPort) -> dict[str, Tool]:
    """The two tools, by name."""
    search = msgspec.structs.replace(_SEARCH, run=partial(_search, recall))
    get = msgspec.structs.replace(_GET, run=partial(_get, recall))
    return {search.name: search, get.name: get}


async def _search(
    recall: MemoryPort, ctx: ToolContext, query: str, maxResults: int | None = None, minScore: float | None = None
) -> ToolOutput:
    """Raises ToolFailure."""
    if not query.strip():
        raise ToolFailure("query is empty")
    found = await recall.search(ctx.agent, ctx.session, query, maxResults, minScore)
    hits: list[dict[str, Any]] = [_plain(hit) for hit in found.hits]
    body: dict[str, Any] = {"results": hits}
    if found.disabled:
        body |= {"disabled": True, "reason": found.disabled}
    if found.note:
        body["note"] = found.note
    room = ctx.settings.result_chars - 200
    text = _json(body)
    while len(text) > room and hits:  # a cut in the middle would be no JSON any more
        hits.pop()
        text = _json({**body, "leftOut": len(found.hits) - len(hits)})
    return make_output(text, body)


async def _get(recall: MemoryPort, ctx: ToolContext, path: str, **window: Any) -> ToolOutput:
    """Raises ToolFailure."""
    found = await recall.get(ctx.agent, path, window.get("from") or 1, window.get("lines"))
    if isinstance(found, MemoryRefusal):
        raise ToolFailure(f"{shorten_path(path)}: {found.reason}")
    told = write_excerpt_hint(found)
    gap = "\n\n" if found.text and told else ""
    return make_output(f"{found.text}{gap}{told}", msgspec.to_builtins(found))


def _plain(hit: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(hit)
    return {name: value for name, value in made.items() if value is not None}


def _json(body: dict[str, Any]) -> str:
    return msgspec.json.encode(body).decode()


async def _nobody(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("there is no memory here")


def _asked(args: dict[str, Any]) -> str:
    return shorten_path(str(args.get("query") or args.get("path") or ""))


_SEARCH = Tool(
    name="memory_search",
    description=(
        "Search MEMORY.md and memory/*.md for what was noted earlier (work, decisions, dates, people, preferences, "
        "tasks). Returns the best pieces with path and lines; read more with memory_get."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": 'Words to look for; "in quotes" they must stand together'},
            "maxResults": {"type": "integer", "minimum": 1, "description": "At most this many results (6)"},
            "minScore": {"type": "number", "minimum": 0, "maximum": 1, "description": "Leave out what scores lower"},
        },
        "required": ["query"],
    },
    run=_nobody,
    effect="pure",
    summary=_asked,
    aliases={
        "q": "query",
        "text": "query",
        "limit": "maxResults",
        "max_results": "maxResults",
        "min_score": "minScore",
    },
)
_GET = Tool(
    name="memory_get",
    description=(
        "Read lines of a memory file (MEMORY.md or memory/*.md), best after memory_search. Long files come in parts, "
        "with the line to continue from; a file that does not exist is empty, not an error."
    ),
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "As memory_search gave it, e.g. memory/2026-01-31.md"},
            "from": {"type": "integer", "minimum": 1, "description": "First line, counted from 1"},
            "lines": {"type": "integer", "minimum": 1, "description": "How many lines at most"},
        },
        "required": ["path"],
    },
    run=_nobody,
    effect="pure",
    summary=_asked,
    aliases={"file_path": "path", "file": "path", "offset": "from", "start": "from", "limit": "lines"},
)
