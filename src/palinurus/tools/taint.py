"""At the door: a call made after untrusted content was read. Asks a person where the call reaches beyond containment,
takes the network from commands, and keeps the files that shape the agent.

The rules are `core/policy/taint`; this file finds paths and puts the question.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

import msgspec

from palinurus.config.sections.approvals import read_approvals
from palinurus.core.policy import card, deciding, exec, lasting, modes, taint
from palinurus.core.policy.spoken import AGREED
from palinurus.core.types.approval import ApprovalDecision, ApprovalRequest, CallJudgement, CommandRule
from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolReach, ToolSettings
from palinurus.files import find_real_path
from palinurus.tools import planted, sources
from palinurus.tools.files import bounds, handles
from palinurus.tools.files.hunks import PatchError, UpdateFile, parse_patch
from palinurus.tools.files.paths import find_persona, name_in_persona, resolve_path, shorten_path
from palinurus.tools.persona import PersonaChange, PersonaWatch
from palinurus.tools.watches import ASIDE, get_persona_watches

CLOSED = (
    "[No network for this command: untrusted content was read ({where}). If it needs the network, run it with "
    "elevated, which asks the owner.]"
)
UNDONE = (
    "[Undone: {names}. Commands do not change these files{where}. What was written is kept for the owner; use write or "
    "edit to change them.]"
)
MAX_FACTS = 16  # deciding values that a card names one by one
TICK = 20_000_000  # nanoseconds: file times are coarser than the clock
MODE_ASKS = "permission mode is ask"
TAKEN = "[The owner let the command change {names}.]"


class CallPermission(msgspec.Struct, frozen=True):
    """Leave for a call. `ctx` is what the tool sees; `paths` are shaping files it may write."""

    ctx: ToolContext
    paths: tuple[str, ...] = ()
    approved: bool = False  # a person read it and said yes
    closed: bool = False  # it lost the network


def enter_mode(tool: Tool, args: Mapping[str, Any], ctx: ToolContext) -> tuple[ToolSettings, str]:
    """The settings as the mode leaves them, and what has to be asked because of it ("" for nothing; of `exec` its own
    judge asks). Raises ToolFailure for what the mode does not let happen."""
    settings, target = ctx.settings, ctx.inbound.target
    kind = modes.classify_call(tool.name, tool.effect, tool.origin, args, here=(target.channel, target.to))
    verdict = modes.VERDICTS[settings.rules.mode][kind]
    if verdict == "closed" and tool.name == "exec":
        cell = modes.close_cell(settings.cell)
        if cell is None or exec.wants_node(str(args.get("host") or ""), str(args.get("node") or ""), "auto"):
            raise ToolFailure(modes.REFUSED)
        return msgspec.structs.replace(settings, cell=cell), ""
    if verdict in ("closed", "refuse"):
        raise ToolFailure(modes.REFUSED)
    return settings, f"use {tool.name}" if verdict == "ask" and tool.name != "exec" else ""


async def judge_call(tool: Tool, args: dict[str, Any], ctx: ToolContext, must: str = "") -> CallPermission:
    """Leave, perhaps after a person was asked: at all events, if `must` says what. Raises ToolFailure where there is
    none."""
    if tool.name == "exec" and await planted.loses_network(ctx, args, partial(_ask, ctx)):
        cell = msgspec.structs.replace(ctx.settings.cell, connect=())
        settings = msgspec.structs.replace(ctx.settings, cell=cell)
        return CallPermission(cast(ToolContext, _Narrow(ctx, settings=settings)), closed=True)
    written = list_written_paths(tool.name, args, ctx)
    paths = tuple(path for path in written if _lasts(path, ctx))
    if not taint.is_reason_to_ask(ctx.settings.taint, tool.name, ctx.taint):
        rules = ctx.settings.taint
        if rules.enabled and "cron" not in rules.allow and not ctx.taint and _starts_jobs(tool, args, ctx):
            why = "the first job of a conversation lasts beyond it, and nothing you wrote asks for one"
            await require_approval(
                ctx, "cron", "make a job", _shown("cron", args, ctx), binding=_binding(args, ()), why=why
            )
        elif must:
            words, bound = _title(must, written, ctx), _binding(args, paths)
            await require_approval(ctx, tool.name, words, _shown(tool.name, args, ctx), binding=bound, why=MODE_ASKS)
        return CallPermission(ctx, paths, approved=bool(must))
    if taint.is_from_outside(ctx.taint):
        for path in written:
            if path not in paths:
                await ctx.mark(path)
    words = _words(tool, args, ctx, paths)
    judged = CallJudgement()
    if words and not paths and not taint.list_addresses(tool.name, args):
        judged = ctx.judge(tool, args)
        words = "" if _passes(tool, args, judged, ctx) or await _is_wished(tool, judged, ctx) else words
    asks = "untrusted content was read before this" if words else MODE_ASKS
    words = words or (must and _title(must, written, ctx))
    if words:
        rule = deciding.make_tool_rule(tool, args) if judged.values else None
        shown = judged.values[:MAX_FACTS]
        await require_approval(
            ctx,
            tool.name,
            words,
            _shown(tool.name, args, ctx),
            binding=_binding(args, paths),
            why=f"{asks}{f', and {judged.doubt}' if shown and judged.doubt else ''}",
            rule=rule,
            facts=tuple(value.fact for value in shown),
            values=tuple(f"{value.name}={value.value}" for value in shown),
        )
        # nobody is there when a job runs: its text, read whole and agreed to, gives the values then
        agreed = _Narrow(ctx, taint=(AGREED, *ctx.taint)) if tool.name == "cron" and not tool.origin else ctx
        return CallPermission(cast(ToolContext, agreed), paths, approved=True)
    return CallPermission(ctx, paths)


def _title(must: str, written: tuple[str, ...], ctx: ToolContext) -> str:
    names = ", ".join(shorten_path(_relative(path, ctx)) for path in written[:8])
    return f"change {names}" if names else must


def _passes(tool: Tool, args: dict[str, Any], judged: CallJudgement, ctx: ToolContext) -> bool:
    """Is no question needed: the owner gave all that decides, or has said "always" to exactly this?"""
    stored = read_approvals(ctx.settings.rules.file).rules(ctx.agent) if tool.reach and tool.reach.to else ()
    if deciding.is_covered(tool, args, stored, judged):
        return True
    known = bool(tool.origin) or tool.name in deciding.BUILTIN
    return ctx.settings.taint.mode == "judged" and known and judged.passes


async def _is_wished(tool: Tool, judged: CallJudgement, ctx: ToolContext) -> bool:
    """Does nothing but the owner's wish stand in doubt, and does a model read it as one?"""
    doubtful = ctx.settings.taint.mode == "judged" and bool(tool.origin) and judged.lacks_only_wish
    return doubtful and await ctx.is_asked_for(tool)


async def _ask(ctx: ToolContext, title: str, shown: str, binding: dict[str, str], why: str) -> None:
    await require_approval(ctx, "exec", title, shown, binding=binding, why=why)


async def run_judged(
    tool: Tool, args: dict[str, Any], ctx: ToolContext, work: Callable[..., Awaitable[ToolOutput]]
) -> ToolOutput:
    """What `work(ctx, **args)` returns, run with what the taint leaves of its rights. Raises what it raises."""
    watches = get_persona_watches()
    strays = watches.undo_strays(ctx.workspace)
    settings, must = enter_mode(tool, args, ctx)
    ctx = ctx if settings is ctx.settings else cast(ToolContext, _Narrow(ctx, settings=settings))
    ctx = await _reach_beyond(tool, args, ctx)
    given = await judge_call(tool, args, ctx, must)
    tainted = taint.is_reason_to_ask(ctx.settings.taint, "exec:files", ctx.taint)
    rules = ctx.settings.taint
    watched = (
        tool.effect != "pure" if tainted else tool.name == "exec" and rules.enabled and "exec:files" not in rules.allow
    )
    if not watched:
        output = await work(given.ctx, **args)
        watches.accept(given.paths)
        return _noted(output, given, await _settle(strays, ctx), ctx)
    for path in given.paths:
        if not given.approved or lasting.is_memory_note(name_in_persona(path, ctx)):
            await ctx.mark(path)
    home = ctx.settings.exec_env.get("HOME", "") or ctx.workspace
    began = ctx.now() * 1_000_000 - TICK
    project = bool(ctx.settings.persona)
    with watches.watch(ctx.workspace, _aside(ctx), home if tainted else "", project=project) as watch:
        try:
            output = await work(given.ctx, **args)
        finally:
            watches.accept(given.paths)
            undone = watch.undo()
        if (pid := find_left_process(output)) and tool.name == "exec":
            watch.pids.add(pid)
    if tool.name == "exec":
        await planted.mark_written(ctx, began)
        output = sources.name_output(output, str(args.get("command") or ""), ctx, closed=given.closed)
    return _noted(output, given, await _settle([*strays, *((watch, one) for one in undone)], ctx), ctx)


async def _reach_beyond(tool: Tool, args: Mapping[str, Any], ctx: ToolContext) -> ToolContext:
    """The context with files opened that a person allowed for this call, where nothing else bounds the file tools."""

    async def ask(title: str, binding: dict[str, str]) -> None:
        why = "nothing contains tools on this machine"
        await require_approval(ctx, tool.name, title, _shown(tool.name, args, ctx), binding=binding, why=why)

    cell = await bounds.open_beyond(tool.name, args, ctx, ask)
    if cell is None:
        return ctx
    return cast(ToolContext, _Narrow(ctx, settings=msgspec.structs.replace(ctx.settings, cell=cell)))


async def _settle(changes: list[tuple[PersonaWatch, PersonaChange]], ctx: ToolContext) -> list[str]:
    """What is said of changes that were put back. After untrusted content those of the agent's own files stay so; all
    others are put to the owner."""
    open_ones = [(w, c) for w, c in changes if not (w.wide and w.shapes(c.name))]
    undone, where = [c.name for _, c in changes], ", ".join(dict.fromkeys(map(taint.get_source_kind, ctx.taint)))
    notes = []
    if open_ones:
        names = ", ".join(c.name for _, c in open_ones)
        shown = "\n".join(c.show() for _, c in open_ones)
        bound = {f"path:{c.path}": hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest() for _, c in open_ones}
        why = "a command changed files that act later; they were put back"
        title = f"keep what a command wrote to {names[:200]}"
        try:
            await require_approval(ctx, "exec", title, shown, binding=bound, why=why)
            for watch, change in open_ones:
                watch.apply(change)
            notes.append(TAKEN.format(names=names))
            undone = [c.name for w, c in changes if (w, c) not in open_ones]
        except (ToolFailure, OSError):
            pass  # they stay as they were, and the model is told
    if undone:
        said = f" after untrusted content was read ({where})" if where else ""
        notes.append(UNDONE.format(names=", ".join(undone[:10]), where=said))
    return notes


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
    if card.count_shown(made) > card.MAX_SHOWN:
        raise ToolFailure(too_long)
    return made


async def require_approval(
    ctx: ToolContext,
    tool: str,
    title: str,
    command: str,
    binding: Mapping[str, str],
    why: str = "",
    **more: Any,
) -> None:
    """Returns if a person said yes; `facts`, `values` and `rule` are for the card. Raises ToolFailure."""
    rule: CommandRule | None = more.get("rule")
    allowed: tuple[ApprovalDecision, ...] = ("allow-once", "allow-always", "deny") if rule else ("allow-once", "deny")
    ask = make_approval_request(
        ctx,
        "not done: it needs an approval and is too long to be shown whole. Do it in smaller pieces.",
        kind="tool",
        tool=tool,
        title=title,
        command=command,
        binding=dict(binding),
        why=why or "untrusted content was read before this",
        allowed=allowed,
        rules=(rule,) if rule else (),
        facts=more.get("facts", ()),
        values=more.get("values", ()),
    )
    told = await ctx.ask(ask)
    if told.decision == "deny":
        raise ToolFailure(
            f"not done: denied by {told.by or 'the owner'}. Do not try it in another way; ask the person."
        )
    if not told.allowed:
        where = f" ({', '.join(ctx.taint[:4])})" if ctx.taint else ""
        raise ToolFailure(f"not done: it needs an approval, {ask.why}{where}, and {told.by or 'nobody answered'}.")


def _words(tool: Tool, args: Mapping[str, Any], ctx: ToolContext, paths: tuple[str, ...]) -> str:
    """What has to be asked; "" for nothing."""
    if paths:
        return f"change {', '.join(shorten_path(_relative(path, ctx)) for path in paths)}"
    telling = [url for url in taint.list_addresses(tool.name, args) if ctx.may_leak(url)]
    if telling:
        return "open an address that nobody gave (it could carry data away)"
    target = ctx.inbound.target
    foreign = bool(tool.origin) and _reaches_out(tool, args, ctx)
    return taint.describe_effect(tool.name, args, (target.channel, target.to), ctx.taint, foreign=foreign)


def _reaches_out(tool: Tool, args: Mapping[str, Any], ctx: ToolContext) -> bool:
    """Could the call of a plugin's tool do or tell something beyond the owner? Reading asks only where it says that it
    speaks to others, or, where it says nothing, with an address that nobody gave."""
    if tool.effect != "pure":
        return True
    if tool.reach is None:
        looked = msgspec.structs.replace(tool, reach=ToolReach(to=()))
        return any(value.origin for value in ctx.judge(looked, dict(args)).values)
    if tool.reach.extent == "asks":  # what a server said itself it knows
        server = f"{tool.name.partition('__')[0]}__"
        return any(one.origin and not one.origin.startswith(server) for one in ctx.judge(tool, dict(args)).values)
    return tool.reach.extent == "out"


def _starts_jobs(tool: Tool, args: dict[str, Any], ctx: ToolContext) -> bool:
    """Is it a conversation's first job, which the owner's last words did not ask for?"""
    made = tool.name == "cron" and not tool.origin and args.get("action") == "add"
    return made and not ctx.has_called("cron", "add") and not ctx.judge(tool, args).asked


def _lasts(real: str, ctx: ToolContext) -> bool:
    if ctx.settings.persona and not find_persona(real, ctx, reading=True):
        return lasting.is_project_order(_relative(real, ctx))
    name = name_in_persona(real, ctx)
    return lasting.is_shaping_file(name) or lasting.is_steering_file(name)


def list_written_paths(tool: str, args: Mapping[str, Any], ctx: ToolContext) -> tuple[str, ...]:
    """The files that the call writes; the tool itself says what is wrong with a path."""
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
            found.append(resolve_path(name, ctx).real)
        except ToolFailure:
            continue
    return tuple(dict.fromkeys(found))


def _relative(real: str, ctx: ToolContext) -> str:
    return os.path.relpath(real, find_real_path(ctx.workspace))


def _shown(tool: str, args: Mapping[str, Any], ctx: ToolContext) -> str:
    """What the person reads: what changes in a file, or all arguments."""
    if tool == "write":
        return card.show_change(_read_now(str(args.get("path")), ctx), str(args.get("content")))
    if tool == "edit" and isinstance(args.get("edits"), list):
        return "\n".join(card.show_change(str(one.get("oldText")), str(one.get("newText"))) for one in args["edits"])
    if tool == "apply_patch":
        return str(args.get("input"))
    opened = taint.list_addresses(tool, args)
    return " ".join(opened) if opened else json.dumps(dict(args), ensure_ascii=False, default=str)


def _read_now(path: str, ctx: ToolContext) -> str:
    """What the file holds; "" if there is none, or the tool itself would say what is wrong with it."""
    try:
        return handles.read_whole(resolve_path(path, ctx), handles.MAX_TEXT).decode("utf-8", "replace")
    except ToolFailure:
        return ""


def _binding(args: Mapping[str, Any], paths: tuple[str, ...]) -> dict[str, str]:
    """What the answer is bound to: every argument, and which files they are."""
    data = json.dumps(dict(args), sort_keys=True, default=str).encode("utf-8", "replace")
    return {"args": hashlib.sha256(data).hexdigest(), **{f"path:{path}": path for path in paths}}


def _aside(ctx: ToolContext) -> str:
    home = next(iter(ctx.settings.protected), "")
    return os.path.join(home, ASIDE) if home else ""


def find_left_process(output: ToolOutput) -> int:
    """The process a call left running."""
    details = output.details if isinstance(output.details, dict) else {}
    return int(details.get("pid") or 0) if details.get("status") == "running" else 0


def _noted(output: ToolOutput, given: CallPermission, notes: list[str], ctx: ToolContext) -> ToolOutput:
    where = ", ".join(dict.fromkeys(map(taint.get_source_kind, ctx.taint)))
    details = output.details if isinstance(output.details, dict) else {}
    if given.closed and details.get("exitCode") != 0:
        notes = [*notes, CLOSED.format(where=where)]
    if not notes:
        return output
    return msgspec.structs.replace(output, content=(*output.content, *(TextBlock(f"\n\n{note}") for note in notes)))


class _Narrow:
    """A context of which something is another."""

    def __init__(self, ctx: ToolContext, **changes: Any) -> None:
        self._ctx = ctx
        self.__dict__.update(changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)
