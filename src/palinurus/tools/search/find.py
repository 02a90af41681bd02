"""The find tool: files by name."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.search.ask import render_answer, run_search

FIND_LIMIT = 1000


async def find_files(ctx: ToolContext, pattern: str, path: str = ".", limit: int = FIND_LIMIT) -> ToolOutput:
    """Raises ToolFailure."""
    if not pattern.strip("/ "):
        raise ToolFailure("pattern is empty; give a glob such as **/*.py")
    answer = await run_search(ctx, path, {"mode": "find", "pattern": pattern.strip(), "limit": max(limit, 1)})
    return make_output(render_answer(answer, "No files match."), {"count": answer.hits, "truncated": bool(answer.full)})


def _summary(args: dict[str, Any]) -> str:
    return f"{args.get('pattern') or ''} in {args.get('path') or '.'}"[:80]


FIND_TOOL = Tool(
    name="find",
    description=(
        "Find files and directories by glob. Without a slash the pattern matches names at any depth (*.py); with one "
        f"it matches the path below `path` (src/**/*.py). Leaves out what .gitignore names. "
        f"At most {FIND_LIMIT} results."
    ),
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Glob: *, ?, [abc], {a,b}, ** for any folders"},
            "path": {"type": "string", "description": "Where to search, the workspace if left out"},
            "limit": {"type": "integer", "description": f"At most this many results ({FIND_LIMIT})"},
        },
        "required": ["pattern"],
    },
    run=find_files,
    effect="pure",
    summary=_summary,
    aliases={"glob": "pattern", "name": "pattern", "query": "pattern", "dir": "path", "directory": "path"},
)
