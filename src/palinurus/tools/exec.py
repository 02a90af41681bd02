"""The exec tool: one shell command, in the foreground, with a time limit.

The child gets the environment the settings hold and nothing of ours. What it prints is bounded; what it
starts is ended with it when time is up or the run is stopped.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from palinurus.core.types.tool import Output, Tool, ToolContext, ToolFailure, said
from palinurus.tools import child
from palinurus.tools.environ import refused
from palinurus.tools.output import Kept
from palinurus.tools.paths import brief

SHELL_MARK = {"OPENCLAW_SHELL": "exec"}
MAX_COMMAND = 120_000  # bytes; the kernel takes 128 KB in one argument
UPDATE = 0.25  # seconds between progress updates
_TAIL = 2000


async def run(
    ctx: ToolContext,
    command: str,
    workdir: str = "",
    env: dict[str, str] | None = None,
    timeout: float | None = None,
) -> Output:
    """Raises ToolFailure when nothing could be started."""
    if not command.strip():
        raise ToolFailure("command is empty")
    if "\x00" in command:
        raise ToolFailure("command contains a NUL character")
    if len(command.encode()) > MAX_COMMAND:
        raise ToolFailure(f"command is over {MAX_COMMAND} bytes; write it to a file and run that")
    limit = _limit(ctx, timeout)
    cwd, warning = _folder(ctx, workdir)
    spec = child.Spec((_shell(ctx), "-c", command), cwd, {**ctx.settings.exec_env, **_declared(env), **SHELL_MARK})
    kept = Kept()
    clock = asyncio.get_running_loop().time
    started = clock()
    progress = _Progress(ctx, kept)
    try:
        ended = await child.run(spec, progress.feed, limit)
    except OSError as exc:
        raise ToolFailure(f"the command could not be started: {exc.strerror or exc}") from None
    finally:
        progress.stop()
    return _output(kept, ended, limit, {"durationMs": round((clock() - started) * 1000), "cwd": cwd}, warning)


def _limit(ctx: ToolContext, timeout: float | None) -> float | None:
    seconds = ctx.settings.exec_timeout if timeout is None else timeout
    if seconds < 0:
        raise ToolFailure("timeout must be 0 (none) or a number of seconds")
    return seconds or None


def _declared(env: dict[str, str] | None) -> dict[str, str]:
    for name, value in (env or {}).items():
        reason = refused(name, value)
        if reason:
            raise ToolFailure(reason)
    return env or {}


def _shell(ctx: ToolContext) -> str:
    """fish reads another language than the one models write."""
    return "/bin/sh" if os.path.basename(ctx.settings.shell) == "fish" else ctx.settings.shell


def _folder(ctx: ToolContext, workdir: str) -> tuple[str, str]:
    """Where to run, and a warning if that is not where it was asked for."""
    home = ctx.settings.exec_env.get("HOME", "/")
    wanted = home + workdir[1:] if workdir == "~" or workdir.startswith("~/") else workdir
    asked = os.path.join(ctx.workspace, wanted) if wanted else ctx.workspace
    for folder in (asked, ctx.workspace, home, "/"):
        if "\x00" not in folder and os.path.isdir(folder):
            return (
                folder,
                "" if folder == asked else f"Warning: {brief(workdir or asked)} is no directory; ran in {folder}",
            )
    raise ToolFailure("there is no directory to run in")


class _Progress:
    """Hands the tail on, at most every UPDATE seconds and never after the end."""

    def __init__(self, ctx: ToolContext, kept: Kept) -> None:
        self._ctx = ctx
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        self._kept.feed(data)
        if self._timer is None:
            self._timer = self._loop.call_later(UPDATE, self._show)

    def _show(self) -> None:
        self._timer = None
        self._ctx.update(self._kept.tail(_TAIL))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _output(kept: Kept, ended: child.Ended, limit: float | None, details: dict[str, Any], warning: str) -> Output:
    text = kept.text().rstrip()
    notes = []
    if ended.timed_out:
        notes.append(f"Command timed out after {limit:g} seconds and was ended, with all it had started.")
    elif ended.code < 0:
        notes.append(f"Command was ended by signal {_signal(-ended.code)}.")
    elif ended.code:
        notes.append(f"(exit code {ended.code})")
    if ended.held and not ended.timed_out:
        notes.append("[A background process still holds the output; what it prints from now on is not seen.]")
    failed = ended.timed_out or ended.code < 0
    body = "\n\n".join(part for part in (warning, text or "(no output)", *notes) if part)
    facts = {
        "status": "failed" if failed else "completed",
        "exitCode": None if failed else ended.code,
        "aggregated": kept.tail(_TAIL),
        **details,
    }
    if failed:
        facts["reason"] = "timeout" if ended.timed_out else "signal"
    return said(body, facts, error=failed)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _summary(args: dict[str, Any]) -> str:
    first = str(args.get("command") or args.get("cmd") or "").strip().split("\n", 1)[0]
    return first if len(first) <= 80 else f"{first[:79]}…"


TOOL = Tool(
    name="exec",
    description=(
        "Run a shell command and return what it prints (stdout and stderr together, beginning and end if long) and its "
        "exit code. There is no terminal and no input."
    ),
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Shell command line"},
            "workdir": {"type": "string", "description": "Directory to run in, the workspace if left out"},
            "env": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Further environment variables",
            },
            "timeout": {"type": "number", "description": "Seconds until the command is ended; 0 for no limit"},
        },
        "required": ["command"],
    },
    run=run,
    effect="effect",
    summary=_summary,
    aliases={"cmd": "command", "script": "command", "cwd": "workdir", "dir": "workdir", "timeout_seconds": "timeout"},
)
