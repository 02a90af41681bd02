"""The process tool: what a session can do with the commands it has running. One row of `_ACTIONS` per action."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec

from palinurus.core.policy.networking import classify_output
from palinurus.core.policy.taint import SILENT, get_source_kind, is_from_outside, is_reason_to_ask
from palinurus.core.signature import pick_one
from palinurus.core.text import cut_line
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.patterns import compile_late
from palinurus.tools.commands import terminal
from palinurus.tools.commands.exec import TAIL, describe_ending
from palinurus.tools.commands.running import RunningCommand
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.define import define_tool
from palinurus.tools.taint import require_approval

LINES = 200  # that log shows unless told
MAX_WAIT = 30_000  # milliseconds
QUIET = 0.5  # seconds of silence after new output that end a waiting poll
HINTS = (5, 10, 30, 60)  # seconds to wait before the next look, growing while nothing comes
END_GRACE = 1.0
_TYPING = ("write", "submit", "send-keys", "paste")
_ENDING = frozenset(("C-c", "C-d", "C-\\"))  # keys that tell a command nothing but to end
# Answers that are no command in any shell, and carry nothing. Not Up: it brings an earlier line back, whose files may
# be others by now.
_ANSWER = compile_late(r"\s*(?:y|n|yes|no|\d{1,4})?\s*", re.I)
_ANSWERING = frozenset(("Enter", "Return", "Down", "Left", "Right", "Space", "y", "n", "Y", "N", *_ENDING))
SHELL_HINT = " A shell or program that you start now has no network, and typing into it is not asked about."


async def _typing(ctx: ToolContext, held: RunningCommand, args: ProcessArguments) -> None:
    """What runs outside was approved for what it was then, not for what a page wants to be typed into it. What has a
    network has it from before: what a command would not be given now is not handed to it in words.

    Raises ToolFailure."""
    cell, rules = held.job.spec.cell, ctx.settings.taint
    outside = cell.kind == "none" and not ctx.settings.cell.accepted
    ends = args.action == "send-keys" and _ENDING.issuperset(args.keys) and not args.literal and not args.hex
    # a new command loses the network by any taint inside, and asks outside after content from elsewhere; what commands
    # printed (they print files as well) leaves answers to their questions
    told = any(get_source_kind(one) not in ("command", "network") for one in ctx.taint) or not _answers(args)
    barred = is_from_outside(ctx.taint) or (told and cell.kind != "none")
    linked = barred and cell.connect != () and not ends and is_reason_to_ask(rules, "exec:network", ctx.taint)
    if (outside or linked) and is_reason_to_ask(rules, "exec", ctx.taint):
        title = f"type into {_label(held.job.command)}, {'outside the sandbox' if outside else 'which has the network'}"
        try:
            await require_approval(ctx, "process", title, str(msgspec.to_builtins(args)), binding={})
        except ToolFailure as exc:
            raise ToolFailure(f"{exc}{'' if outside else SHELL_HINT}") from None
    held.remember_typed(args.data + args.text + args.literal)


def _answers(args: ProcessArguments) -> bool:
    """Is it no more than a yes, a no, a number or a choice from a menu?"""
    typed = args.data + args.text + args.literal
    return bool(_ANSWER.fullmatch(typed)) and not args.hex and _ANSWERING.issuperset(args.keys)


def _list(processes: CommandTable, ctx: ToolContext) -> ToolOutput:
    rows = processes.list_of_session(ctx.session)
    lines = [f"{h.id}  {h.status:<9}  {_span(h.ms)}  {_label(h.job.command)}{_waits(h)}" for h in rows]
    return make_output("\n".join(lines) or "No running or recent sessions.", {"sessions": [_facts(h) for h in rows]})


def _facts(held: RunningCommand) -> dict[str, Any]:
    outcome = held.outcome
    facts: dict[str, Any] = {
        "sessionId": held.id,
        "status": held.status,
        "pid": held.child.pid,
        "startedAt": held.job.at,
        "runtimeMs": held.ms,
        "cwd": held.job.spec.cwd,
        "command": _label(held.job.command),
    }
    if outcome is not None:
        facts["exitCode"] = None if outcome.failed else outcome.code
        if outcome.failed:
            facts["reason"] = outcome.reason
    elif held.child.writable:
        facts["stdinWritable"] = True
        facts["waitingForInput"] = held.waiting
    return facts


async def _poll(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    if asked.timeout > 0 and held.running:
        with held.watch():
            await _news(held, min(asked.timeout, MAX_WAIT) / 1000)
    text = held.pending.take(last=not held.running).rstrip()
    body = [text or "(no new output)", _state(held)]
    facts = {**_facts(held), "aggregated": held.kept.tail(TAIL)}
    if held.running:
        held.empty_polls = 0 if text else held.empty_polls + 1
        if held.empty_polls:
            seconds = HINTS[min(held.empty_polls, len(HINTS)) - 1]
            facts["retryInMs"] = seconds * 1000
            body.append(f"Look again in {seconds} s, or do something else: you will be told when it ends.")
    else:
        held.seen = True
    return make_output("\n\n".join(body), facts, error=bool(held.outcome and held.outcome.failed))


async def _news(held: RunningCommand, seconds: float) -> None:
    """Until it ends, or something new came and it fell silent, or the time is up."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    if not held.pending:
        held.news.clear()
    try:
        async with asyncio.timeout(seconds):
            await held.news.wait()
            while held.running and held.idle < QUIET and loop.time() < until:
                await held.wait_quiet(QUIET - held.idle)
    except TimeoutError:
        pass


async def _log(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    lines = held.kept.text().rstrip("\n").split("\n")
    total = len(lines) if lines != [""] else 0
    start = max(total - (asked.limit or LINES), 0) if asked.offset is None else max(asked.offset, 0)
    end = total if asked.limit is None or asked.offset is None else min(start + max(asked.limit, 0), total)
    shown = lines[start:end]
    if not held.running:
        held.seen = True
    notes = [_state(held)]
    if shown and (start > 0 or end < total):
        notes.append(f"[lines {start + 1} to {end} of {total}; offset and limit show others]")
    facts = {**_facts(held), "total": total, "totalLines": total, "totalChars": held.kept.total, "offset": start}
    return make_output("\n\n".join(("\n".join(shown) or "(no output)", *notes)), facts)


def _taking(held: RunningCommand) -> None:
    """Raises ToolFailure if it takes no input."""
    if not held.running:
        raise ToolFailure(f"session {held.id} has ended; it takes no input")
    if not held.child.writable:
        hint = "start the command with pty or background to have it open"
        raise ToolFailure(f"the input of session {held.id} is closed; {hint}")


def _sent(held: RunningCommand, data: bytes, what: str, *notes: str) -> ToolOutput:
    _taking(held)
    if data and not held.write(data):
        raise ToolFailure(f"session {held.id} does not read its input; nothing was written")
    return make_output(" ".join((what, *notes)), {**_facts(held), "bytes": len(data)})


async def _write(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    data = asked.data.encode("utf-8", "replace")
    out = _sent(held, data, f"Wrote {len(data)} bytes to session {held.id}{' and closed its input' * asked.eof}.")
    if asked.eof:
        held.child.close_input()
    return out


async def _send_keys(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    given = terminal.from_hex(asked.hex)
    if isinstance(given, str):
        raise ToolFailure(given)
    named = terminal.encode_keys(asked.keys)
    data = asked.literal.encode("utf-8", "replace") + named.data + given
    if not data:
        raise ToolFailure("send-keys needs keys, hex or literal")
    unknown = f"No key is called {', '.join(named.unknown)}; sent as text." if named.unknown else ""
    return _sent(held, data, f"Sent {len(data)} bytes to session {held.id}.", *([unknown] if unknown else []))


async def _submit(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    end = b"\r" if held.child.pty else b"\n"
    return _sent(held, asked.data.encode("utf-8", "replace") + end, f"Submitted to session {held.id}.")


async def _paste(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    text = asked.text or asked.data
    if not text:
        raise ToolFailure("paste needs text")
    data = terminal.encode_paste(text, bracketed=asked.bracketed and held.child.pty)
    return _sent(held, data, f"Pasted {len(text)} characters into session {held.id}.")


async def _kill(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    if not held.running:
        held.seen = True
        return make_output(f"Session {held.id} had ended already. {_state(held)}", _facts(held))
    held.seen = True
    held.end("killed", END_GRACE)
    await held.ended.wait()
    return make_output(f"Killed session {held.id}, with all it had started.", _facts(held))


async def _clear(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    if held.running:
        raise ToolFailure(f"session {held.id} is running; kill it first, or use remove")
    held.seen = True
    processes.forget(held)
    return make_output(f"Cleared session {held.id}.", _facts(held))


async def _remove(processes: CommandTable, held: RunningCommand, asked: ProcessArguments) -> ToolOutput:
    if held.running:
        await _kill(processes, held, asked)
    held.seen = True
    processes.forget(held)
    return make_output(f"Removed session {held.id}.", _facts(held))


_ACTIONS: dict[str, Callable[[CommandTable, RunningCommand, ProcessArguments], Awaitable[ToolOutput]]] = {
    "poll": _poll,
    "log": _log,
    "write": _write,
    "send-keys": _send_keys,
    "submit": _submit,
    "paste": _paste,
    "kill": _kill,
    "clear": _clear,
    "remove": _remove,
}


def _state(held: RunningCommand) -> str:
    if held.outcome is None:
        return f"Session {held.id} is still running.{_waits(held)}"
    return describe_ending(held.outcome, held.job.limit) or f"Session {held.id} has ended (exit code 0)."


def _waits(held: RunningCommand) -> str:
    return f" It has been silent for {held.idle:.0f} s and may be waiting for input." if held.waiting else ""


def _label(command: str) -> str:
    return cut_line(command, 120)


def _span(ms: int) -> str:
    seconds = ms // 1000
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m{seconds % 60:02d}s"


class ProcessArguments(msgspec.Struct, frozen=True, omit_defaults=True):
    """The arguments of a call."""

    action: Annotated[str, pick_one("What to do", "list", *_ACTIONS)]
    sessionId: Annotated[str, "The session exec named; for all actions but list"] = ""
    data: Annotated[str, "write, submit: what to send"] = ""
    keys: Annotated[list[str], "send-keys: names such as Enter, Tab, Escape, C-c, M-x, Up, F5"] = []
    hex: Annotated[list[str], "send-keys: bytes in hex, sent after keys"] = []
    literal: Annotated[str, "send-keys: text, sent before keys"] = ""
    text: Annotated[str, "paste: the text"] = ""
    bracketed: Annotated[bool, "paste: mark it as a paste for the terminal program (default true)"] = True
    eof: Annotated[bool, "write: close the input afterwards"] = False
    offset: Annotated[int | None, "log: first line, counted from 0"] = None
    limit: Annotated[int | None, f"log: number of lines (the last {LINES} if left out)"] = None
    timeout: Annotated[float, f"poll: milliseconds to wait for news (at most {MAX_WAIT})"] = 0


@define_tool(
    "process",
    summary=lambda args: f"{args.get('action') or ''} {args.get('sessionId') or ''}".strip()[:80],
    aliases={"sessionId": "session_id session id"},
)
async def run_process(processes: CommandTable, /, ctx: ToolContext, args: ProcessArguments) -> ToolOutput:
    """Follow and steer commands that run in the background: list them, poll for new output, read the log, write input,
    send keys to a terminal, paste, kill; clear forgets a finished one, remove ends and forgets."""
    if args.action == "list":
        return _list(processes, ctx)
    act = _ACTIONS.get(args.action)
    if act is None:
        raise ToolFailure(f"unknown action {args.action[:40]!r}; there are list, {', '.join(_ACTIONS)}")
    if not args.sessionId.strip():
        raise ToolFailure(f"{args.action} needs a sessionId; action list shows them")
    held = processes.find(ctx.session, args.sessionId)
    if held is None:
        raise ToolFailure(f"no session {args.sessionId[:40]!r} here; action list shows those there are")
    if args.action in _TYPING:
        await _typing(ctx, held, args)
    output = await act(processes, held, args)
    if args.action in _TYPING:  # says no more than that it was typed
        return msgspec.structs.replace(output, source=SILENT)
    if held.job.spec.cell.connect == () and held.job.spec.cell.kind != "none":
        return output
    kind = classify_output(held.job.command, held.typed)
    return msgspec.structs.replace(output, source=f"{kind} {_label(held.job.command)}"[:80])
