"""cron: jobs for later, made and looked at by the agent. Made for `Schedules`, which the gateway and the command line
use too. Knows no timer: what is due and what was run is the port's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput
from palinurus.errors import BadRequest, NotFound
from palinurus.tools.files.paths import shorten_path

ACTIONS = ("status", "list", "get", "add", "update", "remove", "run", "runs", "wake")

# (event name, payload): cron or heartbeat, as the gateway sends them.
SchedulerListener: TypeAlias = Callable[[str, dict[str, Any]], None]


class CronJobMaker(NamedTuple):
    """Who asks for a job: the session `current` means, where it was asked, and whose words it may hold. `ident`: the
    job's id, where asking again must not make a second one."""

    session: str = ""
    agent: str = ""
    channel: str = ""
    to: str = ""
    account: str = ""
    source: str = ""
    ident: str = ""


class SchedulerPort(Protocol):
    """Who keeps the jobs. Jobs go in and come out as JSON objects. Raises BadRequest and NotFound."""

    def status(self) -> dict[str, Any]: ...

    def jobs(self, disabled: bool = False) -> list[dict[str, Any]]:
        """Those that are due first come first."""
        ...

    def job(self, ident: str) -> dict[str, Any]: ...

    async def add(self, asked: dict[str, Any], maker: CronJobMaker) -> dict[str, Any]: ...

    async def update(self, ident: str, patch: dict[str, Any]) -> dict[str, Any]: ...

    async def remove(self, ident: str) -> bool:
        """False: there is no such job."""
        ...

    async def run(self, ident: str, *, force: bool = True) -> dict[str, Any]:
        """Now; without `force` only if it is due."""
        ...

    async def runs(self, ident: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """What became of a job's fires (of all jobs' without `ident`), the newest first."""
        ...

    async def wake(self, text: str, *, now: bool, session: str = "", source: str = "") -> None:
        """Tell a session something (the default agent's main one): now, or with its next turn. With a `source` the
        words are not the owner's: such a turn has no owner's rights."""
        ...

    def waiting(self) -> list[str]:
        """What sessions are to be told with their next turns."""
        ...

    def last_heartbeat(self) -> dict[str, Any] | None: ...

    def heartbeats(self) -> dict[str, dict[str, Any]]:
        """The heartbeats as configured and as they stand, by agent."""
        ...

    async def set_heartbeats(self, on: bool) -> None:
        """Heartbeats on (also those that stopped themselves) or off. Known to later starts when it returns."""
        ...

    def follow(self, listener: SchedulerListener) -> Callable[[], None]:
        """Be told of every change from now on. Returns the function that ends it."""
        ...


def make_cron_tool(schedules: SchedulerPort | None) -> dict[str, Tool]:
    """The tool, by its name; none where there are no schedules."""
    if schedules is None:
        return {}
    return {_TOOL.name: msgspec.structs.replace(_TOOL, run=partial(_cron, schedules))}


async def _cron(schedules: SchedulerPort, ctx: ToolContext, action: str, **args: Any) -> ToolOutput:
    """Raises ToolFailure."""
    try:
        body = await _DEEDS[action](schedules, ctx, args)
    except (BadRequest, NotFound) as exc:
        raise ToolFailure(exc.message) from None
    return ToolOutput((TextBlock(msgspec.json.encode(body).decode()),), body)


async def _status(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    return {**schedules.status(), "now": ctx.now()}


async def _list(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    return {"jobs": schedules.jobs(bool(args.get("includeDisabled")))}


async def _get(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    return schedules.job(_id(args))


async def _add(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    asked = args.get("job")
    if not isinstance(asked, dict):
        raise ToolFailure("job is missing: {name, schedule, payload, …}")
    target = ctx.inbound.target
    pushed = ctx.inbound.push
    source = ", ".join(ctx.taint)[:80]
    maker = CronJobMaker(
        ctx.session,
        ctx.agent,
        target.channel if pushed else "",
        target.to if pushed else "",
        target.account if pushed else "",
        source,
    )
    return await schedules.add(asked, maker)


async def _update(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    patch = args.get("patch") or args.get("job")
    if not isinstance(patch, dict):
        raise ToolFailure("patch is missing: what is to change of the job")
    return await schedules.update(_id(args), patch)


async def _remove(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "removed": await schedules.remove(_id(args))}


async def _run(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    return await schedules.run(_id(args), force=args.get("mode") != "due")


async def _runs(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    return {"entries": await schedules.runs(_id(args), 20)}


async def _wake(schedules: SchedulerPort, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
    text = str(args.get("text") or "").strip()
    if not text:
        raise ToolFailure("text is missing: what to tell the main session")
    await schedules.wake(text, now=args.get("mode") == "now")
    return {"ok": True}


CronAction = Callable[[SchedulerPort, ToolContext, dict[str, Any]], Awaitable[dict[str, Any]]]

_DEEDS: dict[str, CronAction] = {
    "status": _status,
    "list": _list,
    "get": _get,
    "add": _add,
    "update": _update,
    "remove": _remove,
    "run": _run,
    "runs": _runs,
    "wake": _wake,
}


def _id(args: dict[str, Any]) -> str:
    ident = str(args.get("jobId") or "").strip()
    if not ident:
        raise ToolFailure("jobId is missing; action list shows the ids")
    return ident


async def _nobody(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("nobody keeps jobs here")


def _asked(args: dict[str, Any]) -> str:
    job = args.get("job") if isinstance(args.get("job"), dict) else {}
    return shorten_path(f"{args.get('action')} {(job or {}).get('name') or args.get('jobId') or ''}".strip())


_TOOL = Tool(
    name="cron",
    description=(
        "Reminders and jobs for later or again and again. add takes job: {name, schedule, payload, sessionTarget?, "
        "delivery?, …}. schedule: {kind: at, at: ISO time}, {kind: every, everyMs} or {kind: cron, expr, tz?}. "
        "payload: {kind: systemEvent, text} tells the main session something; {kind: agentTurn, message, model?, "
        "thinking?, timeoutSeconds?, toolsAllow?} runs a turn. sessionTarget: main (systemEvent), isolated "
        "(agentTurn; the answer goes to the chat that asked, unless delivery says {mode: none | announce | webhook, "
        "channel?, to?}), current or session:<key>. misfire (skip, once, all) says what happens to times missed while "
        "the gateway was off. Times without an offset are the user's. Write the text so that it makes sense when it "
        "is read later, and tell the person what was set up and for when. wake tells the main session `text` now or "
        "with its next turn."
    ),
    parameters={
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(ACTIONS)},
            "job": {"type": "object", "description": "add: the job", "additionalProperties": True},
            "jobId": {"type": "string", "description": "get, update, remove, run, runs: which"},
            "patch": {"type": "object", "description": "update: what changes", "additionalProperties": True},
            "text": {"type": "string", "description": "wake: what to tell"},
            "mode": {
                "type": "string",
                "enum": ["now", "next-heartbeat", "force", "due"],
                "description": "wake: now or next-heartbeat; run: force or due",
            },
            "includeDisabled": {"type": "boolean", "description": "list: paused jobs too"},
        },
        "required": ["action"],
    },
    run=_nobody,
    effect="effect",
    summary=_asked,
    aliases={"id": "jobId", "job_id": "jobId"},
    owner=True,
)
