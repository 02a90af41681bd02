"""Where servers bring so many tools that telling them all would fill the prompt: the model looks for what it needs.

`tool_search` finds tools by words, among those that the policy gives this run; `tool_call` calls one. The run takes the
call out of its wrapping before the gate (`agent/toolcalls.py`): policy, questions and taint are the tool's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.core.policy.groups import MCP_ORIGIN
from palinurus.core.types.tool import TOOL_CALL, Tool, ToolContext, ToolFailure, ToolOutput, ToolReach, make_json_output
from palinurus.core.untrusted import clean_label
from palinurus.patterns import compile_late
from palinurus.tools.results import fit_rows

SEARCH = "tool_search"
MOST = 10_000  # characters of all definitions together that are told outright: about 2,500 tokens
FOUND = 8
_WORD = compile_late(r"[^\W_]+")
_NAMED = 20  # servers in the description


def measure_tools(tools: Iterable[Tool]) -> int:
    """Characters that telling them costs."""
    return sum(len(msgspec.json.encode(tool.spec)) for tool in tools)


def make_search_tools(counts: Mapping[str, int], *, sequential: bool) -> list[Tool]:
    """The two tools. `counts`: how many tools each server brings."""
    told = ", ".join(f"{clean_label(name, 40)} ({count})" for name, count in sorted(counts.items())[:_NAMED])
    about = (
        f"Find tools of MCP servers by words (what you want to do, or a name), then call one with {TOOL_CALL}. "
        f"Returns names, descriptions and parameters. Servers and how many tools each has: {told}."
    )
    query = {"type": "string", "description": "Words, e.g. 'create issue'; a server's name alone lists its tools"}
    limit = {"type": "integer", "minimum": 1, "maximum": 50, "description": f"At most this many ({FOUND})"}
    search = {"type": "object", "properties": {"query": query, "limit": limit}, "required": ["query"]}
    name = {"type": "string", "description": f"As {SEARCH} gave it"}
    given = {"type": "object", "description": "The tool's own parameters", "additionalProperties": True}
    call = {"type": "object", "properties": {"name": name, "arguments": given}, "required": ["name"]}
    what = f"Call a tool that {SEARCH} found."
    # what it shows of servers stands in other prompts as it is
    ours: dict[str, Any] = {"origin": MCP_ORIGIN, "reach": ToolReach("mine", own=True)}
    return [
        Tool(SEARCH, about, search, _search, effect="pure", summary=_summarize("query"), **ours),
        Tool(TOOL_CALL, what, call, _call, sequential=sequential, summary=_summarize("name"), **ours),
    ]


def _summarize(name: str) -> Any:
    return lambda args: clean_label(str(args.get(name) or ""), 80)


async def _search(ctx: ToolContext, /, query: str, limit: int = FOUND) -> ToolOutput:
    found = find_tools(ctx.deferred, query)
    rows = [{"name": one.name, "description": one.description, "parameters": one.parameters} for one in found[:limit]]
    body: dict[str, Any] = {"found": len(found), "tools": rows}
    return make_json_output(fit_rows(body, "tools", ctx.settings.result_chars - 200))


async def _call(ctx: ToolContext, /, name: str, arguments: dict[str, Any] | None = None) -> ToolOutput:
    """Only reached by what is no call of a tool: the others are taken out of their wrapping before."""
    raise ToolFailure(
        f"{clean_label(name, 80)!r} cannot be called like this; {SEARCH} finds tools and their parameters"
    )


def find_tools(tools: Mapping[str, Tool], query: str) -> list[Tool]:
    """Those that fit best, the best first. A word in the name counts more than one in the description."""
    wanted = [word.lower() for word in _WORD.findall(query)]
    ranked = [(_rank(tool, wanted), tool.name, tool) for tool in tools.values()]
    return [tool for rank, _, tool in sorted(ranked, key=lambda row: (-row[0], row[1])) if rank > 0]


def _rank(tool: Tool, wanted: list[str]) -> int:
    name, about = tool.name.lower(), tool.description.lower()
    parts = set(_WORD.findall(name))
    return sum(5 if word in parts else 3 if word in name else 1 if word in about else 0 for word in wanted)
