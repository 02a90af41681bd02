"""The exec tool: one shell command. It is waited for a while; what takes longer goes on in the background.

The child gets the environment the settings hold and nothing of ours. What it prints is bounded; what it starts is
ended with it when time is up or, as long as the call waits for it, when the run is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from palinurus.config.sections.tools import YIELD_RANGE, clamp_between
from palinurus.core.policy import exec
from palinurus.core.policy.audience import is_owners_turn
from palinurus.core.signature import pick_one
from palinurus.core.text import cut_end
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.errors import StateError
from palinurus.late import load_part
from palinurus.patterns import compile_late
from palinurus.tools.commands import terminal
from palinurus.tools.commands.child import ChildInput, ChildSpec
from palinurus.tools.commands.environ import explain_refused_variable
from palinurus.tools.commands.guard import ExecPermit, ExecPreferences, authorize_command
from palinurus.tools.commands.look import HOME_VARIABLE, LookDoor
from palinurus.tools.commands.output import OutputBuffer
from palinurus.tools.commands.record import MARK_VARIABLE, make_mark
from palinurus.tools.commands.running import CommandJob, CommandOutcome, RunningCommand, name_signal
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.define import define_tool
from palinurus.tools.files.paths import expand_home, shorten_path

SHELL_MARK = {"OPENCLAW_SHELL": "exec"}
MAX_COMMAND = 120_000  # bytes; the kernel takes 128 KB in one argument
UPDATE = 0.25  # seconds between progress updates
TAIL = 2000
SHOWN = 32_000  # characters of output shown to the model, or half of what a result may have; the rest can be read
NO_TERMINAL = "Warning: there is no terminal here; ran without one"
HELD = "A background process still holds the output; what it prints from now on is not seen."
LEFT = (
    "What the command had left running was ended with it ({} processes). To start something that goes on, run it in "
    "the foreground of a call with background: true."
)
_REFUSED = compile_late(r"permission denied|read-only file system|operation not permitted|EACCES|EROFS|EPERM", re.I)


def explain_refusal(cell: SandboxSpec, code: int, text: str) -> str:
    """A note for a command that ran into the walls of a cell, of which programs only say "Permission denied"; "" for
    every other."""
    if cell.kind == "none" or not code or not _REFUSED.search(text):
        return ""
    if cell.kind == "docker":
        return "Note: this command ran in a container; only its mounts can be written."
    ports = "no network" if cell.connect == () else "only some TCP ports (443 and 22 among them), no Unix sockets"
    return (
        "Note: commands here can write in the workspace, ~ and $TMPDIR only, read little else besides the system, and "
        f"have {ports if cell.connect is not None else 'any TCP port'}. The owner can open more "
        "(agents.defaults.sandbox: read, write, connect)."
    )


class ExecArguments(msgspec.Struct, frozen=True):
    """The arguments of a call."""

    command: Annotated[str, "Shell command line"]
    workdir: Annotated[str, "Directory to run in, the workspace if left out"] = ""
    env: Annotated[dict[str, str], "Further environment variables"] = {}
    yieldMs: Annotated[
        int | None, "Milliseconds to wait before the command goes on in the background (10 to 120000)"
    ] = None
    background: Annotated[bool, "Do not wait at all; its input stays open for process"] = False
    timeout: Annotated[float | None, "Seconds until the command is ended; 0 for no limit"] = None
    pty: Annotated[bool, "Run in a terminal: for programs that ask questions or draw screens"] = False
    elevated: Annotated[bool, "Run outside the sandbox, if that is allowed"] = False
    host: Annotated[str, pick_one("Where to run it", "auto", "sandbox", "gateway", "node")] = "auto"
    security: Annotated[
        str, pick_one("Ask for a stricter rule than the configured one", "deny", "allowlist", "full")
    ] = ""
    ask: Annotated[str, pick_one("Ask for more questions than configured", "off", "on-miss", "always")] = ""
    node: Annotated[str, "Id or name of the node, with host=node"] = ""


class ExecSetting(msgspec.Struct, frozen=True):
    """Where a command would run: directory, whole environment, and what to warn of."""

    cwd: str
    env: Mapping[str, str]
    warnings: tuple[str, ...] = ()


async def authorize_exec(
    ctx: ToolContext,
    asked: ExecArguments,
    place: ExecSetting,
    hold: Callable[[tuple[str, ...]], object] = lambda roots: None,
) -> ExecPermit:
    """What to start, and where; waits while a person is asked. Raises ToolFailure when the command may not run."""
    host = "" if asked.host == "auto" else asked.host
    want = ExecPreferences(True if asked.elevated else None, asked.security, asked.ask, host)
    return await authorize_command(ctx, asked.command, place.cwd, asked.env, want=want, hold=hold)


def _summary(args: dict[str, Any]) -> str:
    return cut_end(str(args.get("command") or args.get("cmd") or "").strip().split("\n", 1)[0], 80)


@define_tool(
    "exec",
    summary=_summary,
    aliases={"command": "cmd script", "workdir": "cwd dir", "timeout": "timeout_seconds", "yieldMs": "yield_ms"},
)
async def run_exec(processes: CommandTable, /, ctx: ToolContext, args: ExecArguments) -> ToolOutput:
    """Run a shell command and return what it prints (stdout and stderr together, beginning and end if long) and its
    exit code. A command that takes longer than yieldMs goes on in the background; follow it with process. Without pty
    or background there is no input."""
    _check(args)
    if exec.wants_node(args.host, args.node, ctx.settings.rules.host):
        if processes.nodes is None:
            raise ToolFailure("host=node: there are no nodes here; leave host and node out to run the command here")
        output: ToolOutput = await load_part("nodes-exec")(await processes.nodes(), ctx, args, ctx.settings.rules.node)
        return output
    with contextlib.ExitStack() as still:
        return await _run(processes, ctx, args, still)


async def _run(
    processes: CommandTable, ctx: ToolContext, args: ExecArguments, still: contextlib.ExitStack
) -> ToolOutput:
    limit = _limit(ctx, args.timeout)
    place = _place(ctx, args)
    given = await authorize_exec(ctx, args, place, lambda roots: still.enter_context(processes.hold_still(roots)))
    background = args.background and ctx.settings.background
    editor = ctx.settings.editor
    if not given.contained and not background and not args.pty and editor and editor.offers(ctx.session, "terminal"):
        env = {**place.env, **given.env}
        shown: ToolOutput | None = await load_part("editor-exec")(
            editor, ctx, given, env, started=still.close, limit=limit
        )
        if shown is not None:
            return shown
    pty = args.pty and terminal.has_terminals()
    source: ChildInput = "pty" if pty else "pipe" if background else "none"
    cell, env = (ctx.settings.cell if given.contained else SandboxSpec()), {**place.env, **given.env}
    try:
        with _show_program(processes.door, ctx, cell) as (handles, known):
            spec = ChildSpec(
                *(given.argv, place.cwd, {**env, **known}),
                pass_fds=handles,
                cell=cell,
                input=source,
                mark=env[MARK_VARIABLE],
            )
            job = CommandJob(
                *(args.command, spec, limit, ctx.session),
                agent=ctx.agent,
                asker=ctx.inbound,
                at=ctx.now(),
                check=given.check,
                secrets=ctx.settings.secrets,
            )
            held = await processes.start(job, background=background)
    except OSError as exc:
        raise ToolFailure(f"the command could not be started: {exc.strerror or exc}") from None
    except StateError as exc:
        raise ToolFailure(f"the command was not started, because it could not be written down: {exc.message}") from None
    warnings = place.warnings if pty or not args.pty else (*place.warnings, NO_TERMINAL)
    if background or not await _waited(processes, ctx, held, args):
        return _going(held, place, warnings)
    assert held.outcome is not None
    facts = {"durationMs": held.outcome.ms, "cwd": place.cwd}
    note = explain_refusal(cell, held.outcome.code, held.kept.tail(TAIL))
    output = _output(held.kept, held.outcome, limit, facts, warnings=(*warnings, note))
    return msgspec.structs.replace(output, chars=max(SHOWN, ctx.settings.result_chars // 2))


def _show_program(
    door: LookDoor | None, ctx: ToolContext, cell: SandboxSpec
) -> contextlib.AbstractContextManager[tuple[tuple[int, ...], Mapping[str, str]]]:
    """What `pal` inside the command needs to know this program: a handle to look through, or, where nothing holds the
    command anyway, the home. Only turns of the owner get either."""
    if door is None or cell.kind == "docker" or not is_owners_turn(ctx.inbound):
        return contextlib.nullcontext(((), {}))
    return contextlib.nullcontext(((), {HOME_VARIABLE: door.home})) if cell.kind == "none" else door.lend()


def _check(asked: ExecArguments) -> None:
    if not asked.command.strip():
        raise ToolFailure("command is empty")
    if "\x00" in asked.command:
        raise ToolFailure("command contains a NUL character")
    if len(asked.command.encode("utf-8", "replace")) > MAX_COMMAND:
        raise ToolFailure(f"command is over {MAX_COMMAND} bytes; write it to a file and run that")


async def _waited(processes: CommandTable, ctx: ToolContext, held: RunningCommand, asked: ExecArguments) -> bool:
    """True if it ended while it was waited for; else it goes on in the background."""
    progress = _Progress(ctx, held)
    wait = processes.settings.yield_ms if asked.yieldMs is None else clamp_between(asked.yieldMs, YIELD_RANGE)
    try:
        if await held.wait(wait / 1000 if ctx.settings.background else None):
            return True
        await processes.release(held)
    except BaseException:
        held.background = False  # nobody is told of its end but who stopped it
        await held.stop()
        raise
    finally:
        progress.stop()
    return False


def _limit(ctx: ToolContext, timeout: float | None) -> float | None:
    seconds = ctx.settings.exec_timeout if timeout is None else timeout
    if seconds < 0:
        raise ToolFailure("timeout must be 0 (none) or a number of seconds")
    return seconds or None


def _place(ctx: ToolContext, asked: ExecArguments) -> ExecSetting:
    cwd, warning = _folder(ctx, asked.workdir)
    term = {"TERM": terminal.TERM} if asked.pty else {}
    # keys of a skill are for whoever follows it: its SKILL.md was read in this conversation
    skills = {name: value for one in ctx.settings.skills if ctx.has_read(one.path) for name, value in one.env.items()}
    env = {**skills, **ctx.settings.exec_env, **term, **_declared(asked.env), **SHELL_MARK, MARK_VARIABLE: make_mark()}
    return ExecSetting(cwd, env, (warning,) if warning else ())


def _declared(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        reason = explain_refused_variable(name, value)
        if reason:
            raise ToolFailure(reason)
    return env


def _folder(ctx: ToolContext, workdir: str) -> tuple[str, str]:
    """Where to run, and a warning if that is not where it was asked for."""
    asked = os.path.join(ctx.workspace, expand_home(workdir, ctx)) if workdir else ctx.workspace
    for folder in (asked, ctx.workspace, ctx.settings.exec_env.get("HOME", "/"), "/"):
        if "\x00" not in folder and os.path.isdir(folder):
            moved = f"Warning: {shorten_path(workdir or asked)} is no directory; ran in {folder}"
            return folder, "" if folder == asked else moved
    raise ToolFailure("there is no directory to run in")


class _Progress:
    """Hands the tail on, at most every UPDATE seconds and never after the end."""

    def __init__(self, ctx: ToolContext, held: RunningCommand) -> None:
        self._ctx = ctx
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        held.show = self._came
        if held.kept.total:  # it was faster than we
            self._came()

    def _came(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(UPDATE, self._show)

    def _show(self) -> None:
        self._timer = None
        self._ctx.update(self._held.kept.tail(TAIL))

    def stop(self) -> None:
        self._held.show = None
        if self._timer is not None:
            self._timer.cancel()


def _going(held: RunningCommand, place: ExecSetting, warnings: tuple[str, ...]) -> ToolOutput:
    tail = held.pending.take()[-TAIL:].rstrip()
    says = (
        f"Command still running (session {held.id}, pid {held.child.pid}); it goes on in the background. "
        f"Use process with sessionId {held.id} (poll, log, write, send-keys, kill) to follow it."
    )
    details = {
        "status": "running",
        "sessionId": held.id,
        "pid": held.child.pid,
        "startedAt": held.job.at,
        "cwd": place.cwd,
        "tail": tail,
    }
    return make_output("\n\n".join(part for part in (*warnings, tail, says) if part), details)


def _output(
    kept: OutputBuffer, outcome: CommandOutcome, limit: float | None, details: dict[str, Any], warnings: tuple[str, ...]
) -> ToolOutput:
    text = kept.text().rstrip()
    notes = [note for note in (describe_ending(outcome, limit), _held(outcome)) if note]
    body = "\n\n".join(part for part in (*warnings, text or "(no output)", *notes) if part)
    facts = {
        "status": "failed" if outcome.failed else "completed",
        "exitCode": None if outcome.failed else outcome.code,
        "aggregated": kept.tail(TAIL),
        **details,
    }
    if outcome.failed:
        facts["reason"] = outcome.reason
    return make_output(body, facts, error=outcome.failed)


def describe_ending(outcome: CommandOutcome, limit: float | None) -> str:
    """How it ended, in words; "" if it simply succeeded."""
    if outcome.reason == "exit":
        return f"(exit code {outcome.code})" if outcome.code else ""
    by_signal = f"Command was ended by signal {name_signal(-outcome.code)}."
    return {
        "timeout": f"Command timed out after {limit or 0:g} seconds and was ended, with all it had started.",
        "killed": "Command was killed, with all it had started.",
        "stopped": "Command was stopped, with all it had started.",
    }.get(outcome.reason, by_signal)


def _held(outcome: CommandOutcome) -> str:
    if outcome.reason not in ("exit", "signal"):
        return ""
    if outcome.left:
        return f"[{LEFT.format(outcome.left)}]"
    return f"[{HELD}]" if outcome.held else ""
