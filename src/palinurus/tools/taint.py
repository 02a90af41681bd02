"""At the door: a call made after untrusted content was read. Asks a person where the call reaches beyond containment,
takes the network from commands, and keeps the files that shape the agent.

The rules are `core/policy/taint`; this file finds paths and puts the question.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from palinurus.core.policy import card, taint
from palinurus.core.types.approval import ApprovalRequest
from palinurus.core.types.messages import TextBlock
from palinurus.core.types.sandbox import is_inside
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolSettings
from palinurus.tools.files.hunks import PatchError, UpdateFile, parse_patch
from palinurus.tools.files.paths import resolve_path, shorten_path
from palinurus.tools.persona import get_persona_watches

CLOSED = (
    "[No network for this command: untrusted content was read ({where}). If it needs the network, run it with "
    "elevated, which asks the owner.]"
)
UNDONE = (
    "[Undone: {names}. Commands do not change these files after untrusted content was read ({where}). Use write or "
    "edit, which ask the owner.]"
)


class CallPermission(NamedTuple):
    """Leave for a call. `ctx` is what the tool sees; `paths` are shaping files it may write."""

    ctx: ToolContext
    paths: tuple[str, ...] = ()
    approved: bool = False  # a person read it and said yes
    closed: bool = False  # it lost the network


async def judge_call(tool: Tool, args: dict[str, Any], ctx: ToolContext) -> CallPermission:
    """Leave, perhaps after a person was asked. Raises ToolFailure where there is none."""
    paths = _shaping(tool.name, args, ctx)
    if not taint.is_reason_to_ask(ctx.settings.taint, tool.name, ctx.taint):
        return CallPermission(ctx, paths)
    words = _words(tool, args, ctx, paths)
    if words:
        await require_approval(ctx, tool.name, words, _shown(tool.name, args), binding=_binding(args, paths))
        return CallPermission(ctx, paths, approved=True)
    command = args.get("command")
    if (
        tool.name == "exec"
        and isinstance(command, str)
        and not taint.may_use_network(command, ctx.taint, ctx.settings.taint)
    ):
        cell = ctx.settings.cell
        if cell.kind != "none" and cell.connect != ():
            settings = msgspec.structs.replace(ctx.settings, cell=msgspec.structs.replace(cell, connect=()))
            return CallPermission(cast(ToolContext, _Narrow(ctx, settings)), closed=True)
    return CallPermission(ctx)


async def run_judged(
    tool: Tool, args: dict[str, Any], ctx: ToolContext, work: Callable[..., Awaitable[ToolOutput]]
) -> ToolOutput:
    """What `work(ctx, **args)` returns, run with what the taint leaves of its rights. Raises what it raises."""
    watches = get_persona_watches()
    watches.undo_strays(ctx.workspace)
    given = await judge_call(tool, args, ctx)
    watched = tool.effect != "pure" and taint.is_reason_to_ask(ctx.settings.taint, "exec:files", ctx.taint)
    if not watched:
        output = await work(given.ctx, **args)
        watches.accept(given.paths)
        return output
    for path in given.paths:
        if not given.approved or taint.is_memory_note(_relative(path, ctx)):
            await ctx.mark(path)
    with watches.watch(ctx.workspace, _aside(ctx)) as watch:
        try:
            output = await work(given.ctx, **args)
        finally:
            watches.accept(given.paths)
            undone = watch.undo()
        if (pid := _left(output)) and tool.name == "exec":
            watch.pids.add(pid)
    return _noted(output, given, undone, ctx)


def make_approval_request(ctx: ToolContext, too_long: str, **fields: Any) -> ApprovalRequest:
    """The question, with what the context knows. Raises ToolFailure(`too_long`) if it cannot be shown whole."""
    sender = ctx.inbound.sender
    made = ApprovalRequest(
        agent=ctx.agent,
        session=ctx.session,
        run=ctx.run,
        call=ctx.call,
        taint=ctx.taint,
        timeout=ctx.settings.rules.timeout,
        asker="" if sender.owner else f"{sender.name or sender.id or 'somebody'} (not the owner)",
        **fields,
    )
    if len(card.show_command(made)) > card.MAX_SHOWN:
        raise ToolFailure(too_long)
    return made


async def require_approval(
    ctx: ToolContext, tool: str, title: str, command: str, binding: Mapping[str, str], why: str = ""
) -> None:
    """Returns if a person said yes. Raises ToolFailure."""
    ask = make_approval_request(
        ctx,
        "not done: it needs an approval and is too long to be shown whole. Do it in smaller pieces.",
        kind="tool",
        tool=tool,
        title=title,
        command=command,
        binding=dict(binding),
        why=why or "untrusted content was read before this",
        allowed=("allow-once", "deny"),
    )
    told = await ctx.ask(ask)
    if told.decision == "deny":
        raise ToolFailure(
            f"not done: denied by {told.by or 'the owner'}. Do not try it in another way; ask the person."
        )
    if not told.allowed:
        where = f" ({', '.join(ctx.taint[:4])})" if ctx.taint else ""
        raise ToolFailure(f"not done: it needs an approval, {ask.why}{where}, and {told.by or 'nobody answered'}.")


def find_source(tool: Tool, args: Mapping[str, Any], output: ToolOutput | None, ctx: ToolContext) -> str:
    """Where the content of a result came from; None: the tool failed in words of ours."""
    if output is not None and taint.TOOL_SOURCES.get(tool.name) == "memory":
        found = taint.join_taint(
            (), (one for path in _read_back(output.details) for one in ctx.file_taint(_full(path, ctx)))
        )
        return f"memory {', '.join(dict.fromkeys(map(taint.get_source_kind, found)))}" if found else ""
    if output is not None and not output.source and tool.name == "read" and isinstance(args.get("path"), str):
        real = _full(args["path"], ctx)
        # skills that the owner installed were judged then
        if taint.is_shaping_file(_relative(real, ctx)) or _below(real, ctx.settings.readable):
            return f"memory {args['path']}"[: taint.MAX_SOURCE_DETAIL] if ctx.file_taint(real) else ""
    if output is not None and isinstance(args.get("path"), str) and taint.TOOL_SOURCES.get(tool.name) == "file":
        real = _full(args["path"], ctx)
        if _below(real, ctx.settings.received):  # not the machine's own: somebody sent it
            return f"attachment {os.path.basename(real)}"[: taint.MAX_SOURCE_DETAIL]
    about = tool.summary(dict(args)) if tool.summary else ""
    return taint.name_source(tool.name, output.source if output else "", tool.origin, about, failed=output is None)


def _words(tool: Tool, args: Mapping[str, Any], ctx: ToolContext, paths: tuple[str, ...]) -> str:
    """What has to be asked; "" for nothing."""
    if paths:
        return f"change {', '.join(shorten_path(_relative(path, ctx)) for path in paths)}"
    telling = [url for url in taint.list_addresses(tool.name, args) if ctx.may_leak(url)]
    if telling:
        return "open an address that nobody gave (it could carry data away)"
    target = ctx.inbound.target
    foreign = bool(tool.origin) and tool.effect != "pure"
    return taint.describe_effect(tool.name, args, (target.channel, target.to), ctx.taint, foreign=foreign)


def _shaping(tool: str, args: Mapping[str, Any], ctx: ToolContext) -> tuple[str, ...]:
    """The files of the call that make the agent what it is; the tool itself says what is wrong with a path."""
    named: list[str] = []
    if tool in ("write", "edit") and isinstance(args.get("path"), str):
        named = [args["path"]]
    elif tool == "apply_patch" and isinstance(args.get("input"), str):
        try:
            for change in parse_patch(args["input"]):
                named += [change.path, change.move] if isinstance(change, UpdateFile) and change.move else [change.path]
        except PatchError:
            return ()
    found = []
    for name in named:
        try:
            real = resolve_path(name, ctx).real
        except ToolFailure:
            continue
        if taint.is_shaping_file(_relative(real, ctx)):
            found.append(real)
    return tuple(dict.fromkeys(found))


def _relative(real: str, ctx: ToolContext) -> str:
    return os.path.relpath(real, os.path.realpath(ctx.workspace))


def _full(path: str, ctx: ToolContext) -> str:
    whole = os.path.join(ctx.workspace, path)
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


def _shown(tool: str, args: Mapping[str, Any]) -> str:
    """What the person reads: the text that would be written, or all arguments."""
    if tool == "write":
        return str(args.get("content"))
    if tool == "apply_patch":
        return str(args.get("input"))
    opened = taint.list_addresses(tool, args)
    return " ".join(opened) if opened else json.dumps(dict(args), ensure_ascii=False, default=str)


def _binding(args: Mapping[str, Any], paths: tuple[str, ...]) -> dict[str, str]:
    """What the answer is bound to: every argument, and which files they are."""
    data = json.dumps(dict(args), sort_keys=True, default=str).encode("utf-8", "replace")
    return {"args": hashlib.sha256(data).hexdigest(), **{f"path:{path}": path for path in paths}}


def _aside(ctx: ToolContext) -> str:
    home = next(iter(ctx.settings.protected), "")
    return os.path.join(home, "aside") if home else ""


def _left(output: ToolOutput) -> int:
    """The process a call left running."""
    details = output.details
    running = isinstance(details, dict) and details.get("status") == "running"
    return int(details.get("pid") or 0) if running else 0


def _noted(output: ToolOutput, given: CallPermission, undone: list[str], ctx: ToolContext) -> ToolOutput:
    where = ", ".join(dict.fromkeys(map(taint.get_source_kind, ctx.taint)))
    notes = [UNDONE.format(names=", ".join(undone[:10]), where=where)] if undone else []
    details = output.details if isinstance(output.details, dict) else {}
    if given.closed and details.get("exitCode") != 0:
        notes.append(CLOSED.format(where=where))
    if not notes:
        return output
    return msgspec.structs.replace(output, content=(*output.content, *(TextBlock(f"\n\n{note}") for note in notes)))


class _Narrow:
    """A context with other settings."""

    def __init__(self, ctx: ToolContext, settings: ToolSettings) -> None:
        self._ctx = ctx
        self.settings = settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)
