"""The grep tool: lines by content."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.search.ask import render_answer, run_search

GREP_LIMIT = 100
MAX_CONTEXT = 20


async def grep_files(ctx: ToolContext, pattern: str, path: str = ".", **options: Any) -> ToolOutput:
    """`options`: glob, ignoreCase, literal, context, limit. Raises ToolFailure."""
    if not pattern:
        raise ToolFailure("pattern is empty")
    job = {
        "mode": "grep",
        "pattern": pattern,
        "glob": options.get("glob", ""),
        "ignoreCase": options.get("ignoreCase", False),
        "literal": options.get("literal", False),
        "context": min(max(options.get("context", 0), 0), MAX_CONTEXT),
        "limit": max(options.get("limit", GREP_LIMIT), 1),
    }
    try:
        answer = await run_search(ctx, path, job)
    except ToolFailure as failure:
        if "regular expression" in str(failure):
            raise ToolFailure(f"{failure}. For plain text set literal to true") from None
        raise
    return make_output(
        render_answer(answer, "No matches found."), {"matches": answer.hits, "truncated": bool(answer.full)}
    )


def _grep_summary(args: dict[str, Any]) -> str:
    return f"{args.get('pattern') or ''} in {args.get('path') or '.'}"[:80]


GREP_TOOL = Tool(
    name="grep",
    description=(
        "Search the content of files, line by line, for a regular expression (Python syntax) or literal text. "
        "Leaves out binary files and what .gitignore names. Shows file:line: text, lines cut at 500 characters, "
        f"at most {GREP_LIMIT} matches."
    ),
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Regular expression, or text if literal is true"},
            "path": {"type": "string", "description": "File or directory, the workspace if left out"},
            "glob": {"type": "string", "description": "Only files that match, e.g. *.py"},
            "ignoreCase": {"type": "boolean", "description": "Upper and lower case count as the same"},
            "literal": {"type": "boolean", "description": "The pattern is plain text"},
            "context": {"type": "integer", "description": "Lines to show before and after each match"},
            "limit": {"type": "integer", "description": f"At most this many matches ({GREP_LIMIT})"},
        },
        "required": ["pattern"],
    },
    run=grep_files,
    effect="pure",
    summary=_grep_summary,
    aliases={
        "query": "pattern",
        "regex": "pattern",
        "include": "glob",
        "dir": "path",
        "directory": "path",
        "-i": "ignoreCase",
    },
)
