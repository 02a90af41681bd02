"""Where the content of a tool's result came from: the word that taints whoever reads it (`core/policy/taint.py`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.core.folders import is_inside
from palinurus.core.policy import lasting, networking, taint
from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolOutput
from palinurus.tools.files.paths import name_in_persona


def find_source(tool: Tool, args: Mapping[str, Any], output: ToolOutput | None, ctx: ToolContext) -> str:
    """Where the content of a result came from; None: the tool failed in words of ours."""
    if output is not None and taint.TOOL_SOURCES.get(tool.name) == "memory":
        found = taint.join_taint(
            (), (one for path in _read_back(output.details) for one in ctx.file_taint(_full(path, ctx, memory=True)))
        )
        return f"memory {', '.join(dict.fromkeys(map(taint.get_source_kind, found)))}" if found else ""
    if output is not None and not output.source and tool.name == "read" and isinstance(args.get("path"), str):
        real = _full(args["path"], ctx)
        # skills that the owner installed were judged then
        if lasting.is_shaping_file(name_in_persona(real, ctx)) or _below(real, ctx.settings.readable):
            return f"memory {args['path']}"[: taint.MAX_SOURCE_DETAIL] if ctx.file_taint(real) else "own read"
    if output is not None and isinstance(args.get("path"), str) and taint.TOOL_SOURCES.get(tool.name) == "file":
        real = _full(args["path"], ctx)
        if _below(real, ctx.settings.received):  # not the machine's own: somebody sent it
            return f"attachment {os.path.basename(real)}"[: taint.MAX_SOURCE_DETAIL]
    if output is not None and (marked := _read_marked(tool.name, args, output, ctx)):
        return marked
    if output is not None and tool.reach is not None and tool.reach.own and not output.source:
        return f"own {tool.name}"
    about = tool.summary(dict(args)) if tool.summary else ""
    return taint.name_source(tool.name, output.source if output else "", tool.origin, about, failed=output is None)


def _read_marked(tool: str, args: Mapping[str, Any], output: ToolOutput, ctx: ToolContext) -> str:
    """The true kind of what a plain file holds that was written after content from outside was read."""
    if not ctx.has_marks:
        return ""
    named = [args["path"]] if isinstance(args.get("path"), str) else []
    if tool == "grep":
        lines = (block.text for block in output.content if isinstance(block, TextBlock))
        named += [line.partition(":")[0] for text in lines for line in text.splitlines()[:400]]
    elif tool in ("exec", "process"):
        told = " ".join(str(args.get(name) or "") for name in ("command", "data", "text", "literal"))
        named = [word.strip("'\"") for word in told.split()[:200]]
    elif taint.TOOL_SOURCES.get(tool) != "file":
        return ""
    for name in dict.fromkeys(named):
        kinds = [taint.get_source_kind(s) for s in ctx.file_taint(_full(name, ctx)) if taint.is_from_outside((s,))]
        if kinds:
            return f"{kinds[0]} by way of {name}"[: taint.MAX_SOURCE_DETAIL]
    return ""


def name_output(output: ToolOutput, command: str, ctx: ToolContext, *, closed: bool) -> ToolOutput:
    """What a command printed that had a network may be anybody's words."""
    details = output.details if isinstance(output.details, dict) else {}
    if details.get("status") == "running" and details.get("tail") == "" and not output.source:
        return msgspec.structs.replace(output, source=taint.SILENT)
    had = not closed and (ctx.settings.cell.kind == "none" or ctx.settings.cell.connect != ())
    kind = networking.classify_output(command) if had else "command"
    return msgspec.structs.replace(output, source=kind) if kind != "command" and not output.source else output


def _full(path: str, ctx: ToolContext, *, memory: bool = False) -> str:
    whole = os.path.join((ctx.settings.persona if memory else "") or ctx.workspace, path)
    try:
        return os.path.realpath(whole)
    except (OSError, ValueError):  # no path at all, or one that changed under us
        return os.path.normpath(whole)


def _below(real: str, folders: Iterable[str]) -> bool:
    return any(is_inside(real, os.path.realpath(folder)) for folder in folders)


def _read_back(details: Any) -> list[str]:
    """The memory files that a result shows."""
    if not isinstance(details, dict):
        return []
    rows = details.get("results") or [details]
    return [str(row["path"]) for row in rows if isinstance(row, dict) and row.get("path")]
