"""The one door: every tool call of every run goes through `call_tool`, and comes back as a ToolResult.

Knows hooks, argument checks, taint and the cut; knows no tool. It never raises but for cancellation, which passes
through after the tool has cleaned up.
"""

from __future__ import annotations

import asyncio
import copy
import difflib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from palinurus.core.types.messages import REPEATED, TextBlock, ToolCall, ToolResult
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.crashpoints import pass_crashpoint
from palinurus.late import load_part
from palinurus.plugins.hooks import Hooks
from palinurus.tools import sources, taint
from palinurus.tools.files.buffers import save_buffers
from palinurus.tools.results import fit_content, limit_details
from palinurus.tools.schema import check_arguments

log = logging.getLogger(__name__)

ALREADY = "This was done already, and its result stands above. Do not do it again: tell the person now what came of it."
_WRITERS = frozenset(("write", "edit", "apply_patch", "exec", "process"))


async def call_tool(tool_call: ToolCall, tools: Mapping[str, Tool], ctx: ToolContext, hooks: Hooks) -> ToolResult:
    """The result of one call, errors included. Raises CancelledError only."""
    tool = tools.get(tool_call.name)
    if tool is None:
        return await _result(tool_call, make_output(_unknown(tool_call.name, tools), error=True), ctx)
    if tool_call.invalid == REPEATED:
        return await _result(tool_call, make_output(ALREADY), ctx)
    if tool_call.invalid is not None:
        return await _result(tool_call, make_output(_unreadable(tool_call), error=True), ctx)
    args, problem = check_arguments(tool.parameters, tool_call.arguments, tool.aliases)
    if problem is None and hooks.has("before_tool_call"):
        args, problem = await _asked(tool_call, tool, args, ctx, hooks=hooks)
    elif problem is not None:
        problem = f"Invalid arguments for {tool.name}: {problem}"
    if problem is not None:
        return await _result(tool_call, make_output(problem, error=True), ctx)
    return await _run(tool_call, tool, args, ctx, hooks=hooks)


async def _asked(
    tool_call: ToolCall, tool: Tool, args: dict[str, Any], ctx: ToolContext, hooks: Hooks
) -> tuple[dict[str, Any], str | None]:
    """What before_tool_call leaves of the arguments, or why the call must not run.

    Handlers get copies, and what they return is checked again: the tool receives what was judged.
    """
    payload = {**_named(tool_call, ctx), "params": copy.deepcopy(args)}
    changes = await hooks.modify("before_tool_call", payload)
    if changes.get("block"):
        return {}, str(changes.get("blockReason") or f"{tool.name} was blocked by a before_tool_call hook")
    problem = None
    if "params" in changes:
        args, problem = check_arguments(tool.parameters, copy.deepcopy(changes["params"]), tool.aliases)
    if problem is not None:
        return args, f"A before_tool_call hook left invalid arguments for {tool.name}: {problem}"
    if question := changes.get("requireApproval"):
        return args, await _approved(tool, args, ctx, question if isinstance(question, dict) else {})
    return args, None


async def _approved(tool: Tool, args: dict[str, Any], ctx: ToolContext, question: dict[str, Any]) -> str | None:
    """A plugin wants a person to be asked. None if they said yes, else why not."""
    title = str(question.get("title") or f"use {tool.name}")[:200]
    shown = msgspec.json.format(msgspec.json.encode(args, enc_hook=str), indent=1).decode()
    bound = {"args": hashlib.sha256(shown.encode()).hexdigest()}
    why = str(question.get("description") or "a plugin wants this to be approved")[:500]
    try:
        await taint.require_approval(ctx, tool.name, title, shown, binding=bound, why=why)
    except ToolFailure as failure:
        return str(failure)
    return None


class _Work:
    """The call itself. Where it may write files of the workspace, what it changes is kept: from when it begins, with
    leave, until whoever puts files back after it has done so."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._end: Callable[[int], Awaitable[tuple[str, ...] | None]] | None = None

    async def run(self, ctx: ToolContext, **args: Any) -> ToolOutput:
        tool, settings = self._tool, ctx.settings
        writes = tool.name in _WRITERS and not tool.origin
        paths = taint.list_written_paths(tool.name, args, ctx) if writes else ()
        if settings.editor is not None and paths:
            await save_buffers(ctx, paths)
        if writes and settings.changes.enabled and settings.protected:
            self._end = await load_part("changes")(ctx, tool.name, args, paths)
        return await _work(tool, ctx, **args)

    async def end(self, output: ToolOutput | None) -> tuple[str, ...] | None:
        """The paths it changed, where that is known."""
        if self._end is None:
            return None
        return await self._end(taint.find_left_process(output) if output is not None else 0)


async def _work(tool: Tool, ctx: ToolContext, **args: Any) -> ToolOutput:
    await ctx.confirm()  # a person may have been asked meanwhile, or the machine slept
    output: object = await tool.run(ctx, **args)
    if isinstance(output, ToolOutput):
        return output
    return make_output(f"{tool.name} returned {type(output).__name__}, not a tool output", error=True)


async def _run_kept(work: _Work, tool: Tool, args: dict[str, Any], ctx: ToolContext) -> ToolOutput:
    output: ToolOutput | None = None
    try:
        output = await taint.run_judged(tool, args, ctx, work.run)
    finally:
        changed = await work.end(output)
    if changed is None or tool.name != "exec" or not isinstance(output.details, dict):
        return output
    # with the result, so that whoever reads or replays the conversation knows it
    return msgspec.structs.replace(output, details={**output.details, "changed": list(changed)})


async def _run(tool_call: ToolCall, tool: Tool, args: dict[str, Any], ctx: ToolContext, hooks: Hooks) -> ToolResult:
    clock = asyncio.get_running_loop().time
    started = clock()
    pass_crashpoint("tool.during")
    source: str | None = None
    try:
        output = await _run_kept(_Work(tool), tool, args, ctx)
    except asyncio.CancelledError:
        _observe(tool_call, args, ctx, hooks, outcome={"error": "aborted", "durationMs": _ms(clock() - started)})
        raise
    except ToolFailure as failure:
        output = make_output(str(failure) or f"{tool.name} failed", error=True)
        source = sources.find_source(tool, args, None, ctx)
    except Exception as exc:
        log.exception("tool %s failed", tool.name)
        output = make_output(f"{tool.name} failed: {type(exc).__name__}: {exc}", error=True)
    pass_crashpoint("tool.after")
    source = sources.find_source(tool, args, output, ctx) if source is None else source
    result = msgspec.structs.replace(await _result(tool_call, output, ctx), source=source)
    if hooks.has("after_tool_call"):
        outcome = {"error": result.text} if result.isError else {"result": msgspec.to_builtins(result)}
        _observe(tool_call, args, ctx, hooks, outcome={**outcome, "durationMs": _ms(clock() - started)})
    return result


def _observe(
    tool_call: ToolCall, args: dict[str, Any], ctx: ToolContext, hooks: Hooks, outcome: dict[str, Any]
) -> None:
    if hooks.has("after_tool_call"):
        hooks.observe("after_tool_call", {**_named(tool_call, ctx), "params": args, **outcome})


def _named(tool_call: ToolCall, ctx: ToolContext) -> dict[str, Any]:
    return {
        "toolName": tool_call.name,
        "toolCallId": tool_call.id,
        "runId": ctx.run,
        "sessionKey": ctx.session,
        "agentId": ctx.agent,
    }


async def _result(tool_call: ToolCall, output: ToolOutput, ctx: ToolContext) -> ToolResult:
    secrets = ctx.settings.secrets
    told = tuple(TextBlock(secrets.blank(b.text)) if isinstance(b, TextBlock) else b for b in output.content)
    room = min(ctx.settings.result_chars, output.chars or ctx.settings.result_chars)
    content = await fit_content(told, room, ctx.settings.results) or (TextBlock("(no output)"),)
    return ToolResult(
        tool_call.id,
        tool_call.name,
        content,
        output.is_error,
        details=limit_details(secrets.blank(output.details)),
        timestamp=ctx.now(),
        terminate=output.terminate,
    )


def _unknown(name: str, tools: Mapping[str, Tool]) -> str:
    """`Tool x not found` and what may have been meant."""
    text = f"Tool {name[:64] or '(no name)'} not found."
    near = difflib.get_close_matches(name[:64].lower(), list(tools), 3, 0.5)
    if near:
        return f"{text} Did you mean {', '.join(near)}?"
    return f"{text} Available: {', '.join(sorted(tools)[:40])}." if tools else f"{text} No tools are available."


def _unreadable(tool_call: ToolCall) -> str:
    return (
        f"The arguments of {tool_call.name} could not be read as JSON ({(tool_call.invalid or '')[:300]}); "
        "nothing was run. Send the call again with one valid JSON object."
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
