"""cron: jobs for later, made and looked at by the agent. Made for a `SchedulerPort`, which the gateway and the command
line use too. Knows no timer: what is due and what was run is the port's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol, TypeAlias

import msgspec

from palinurus.core.policy.spoken import AGREED
from palinurus.core.policy.taint import SEPARATOR, write_sources
from palinurus.core.signature import OPEN_OBJECT, pick_one
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_json_output
from palinurus.errors import BadRequest, NotFound
from palinurus.tools.define import bind_tools, define_tool
from palinurus.tools.files.paths import shorten_path

ACTIONS = ("status", "list", "get", "add", "update", "remove", "run", "runs", "wake")

# (event name, payload): cron or heartbeat, as the gateway sends them.
SchedulerListener: TypeAlias = Callable[[str, dict[str, Any]], None]


class CronJobMaker(msgspec.Struct, frozen=True):
    """Who asks for a job: the session `current` means, where it was asked, and whose words it may hold. `ident`: the
    job's id, where asking again must not make a second one. `turn`: a session's turn asks, and reaches no further than
    that session; `shared`: others read along there."""

    session: str = ""
    agent: str = ""
    channel: str = ""
    to: str = ""
    account: str = ""
    source: str = ""
    ident: str = ""
    turn: bool = False
    shared: bool = False


PERSON = CronJobMaker()  # the owner, at a terminal or a page


class SchedulerPort(Protocol):
    """Who keeps the jobs. Jobs go in and come out as JSON objects. Raises BadRequest and NotFound."""

    def status(self) -> dict[str, Any]: ...

    def jobs(self, disabled: bool = False) -> list[dict[str, Any]]:
        """Those that are due first come first."""

    def job(self, ident: str) -> dict[str, Any]: ...

    async def add(self, asked: dict[str, Any], maker: CronJobMaker) -> dict[str, Any]: ...

    async def update(self, ident: str, patch: dict[str, Any], maker: CronJobMaker = PERSON) -> dict[str, Any]: ...

    def explain_barred(self, ident: str, maker: CronJobMaker) -> str:
        """Why this job is out of the maker's reach; "" if it is not."""

    async def remove(self, ident: str) -> bool:
        """False: there is no such job."""

    async def run(self, ident: str, *, force: bool = True) -> dict[str, Any]:
        """Now; without `force` only if it is due."""

    async def runs(self, ident: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """What became of a job's fires (of all jobs' without `ident`), the newest first."""

    async def wake(self, text: str, *, now: bool, session: str = "", maker: CronJobMaker = PERSON) -> None:
        """Tell a session something (the agent's main one): now, or with its next turn. Words with a source are not the
        owner's, unless the owner agreed to them: such a turn has no owner's rights."""

    def waiting(self) -> list[str]:
        """What sessions are to be told with their next turns."""

    def last_heartbeat(self) -> dict[str, Any] | None: ...

    def heartbeats(self) -> dict[str, dict[str, Any]]:
        """The heartbeats as configured and as they stand, by agent."""

    async def set_heartbeats(self, on: bool) -> None:
        """Heartbeats on (also those that stopped themselves) or off. Known to later starts when it returns."""

    def follow(self, listener: SchedulerListener) -> Callable[[], None]:
        """Be told of every change from now on. Returns the function that ends it."""


class CronArguments(msgspec.Struct, frozen=True):
    """The arguments of a call."""

    action: Annotated[str, pick_one("", *ACTIONS)]
    job: Annotated[dict[str, Any] | None, OPEN_OBJECT, "add: the job"] = None
    jobId: Annotated[str, "get, update, remove, run, runs: which"] = ""
    patch: Annotated[dict[str, Any] | None, OPEN_OBJECT, "update: what changes"] = None
    text: Annotated[str, "wake: what to tell"] = ""
    mode: Annotated[
        str, pick_one("wake: now or next-heartbeat; run: force or due", "now", "next-heartbeat", "force", "due")
    ] = ""
    includeDisabled: Annotated[bool, "list: paused jobs too"] = False


def _summary(args: dict[str, Any]) -> str:
    job = args.get("job") if isinstance(args.get("job"), dict) else {}
    return shorten_path(f"{args.get('action')} {(job or {}).get('name') or args.get('jobId') or ''}".strip())


@define_tool("cron", summary=_summary, aliases={"jobId": "id job_id"}, owner=True)
async def _cron(schedules: SchedulerPort, /, ctx: ToolContext, args: CronArguments) -> ToolOutput:
    """Reminders and jobs for later or again and again. add takes job: {name, schedule, payload, sessionTarget?,
    delivery?, …}. schedule: {kind: at, at: ISO time}, {kind: every, everyMs} or {kind: cron, expr, tz?}. payload:
    {kind: systemEvent, text} tells the main session something; {kind: agentTurn, message, model?, thinking?,
    timeoutSeconds?, toolsAllow?} runs a turn. sessionTarget: main (systemEvent), isolated (agentTurn; the answer goes
    to the chat that asked, unless delivery says {mode: none | announce | webhook, channel?, to?}), current or
    session:<key>. misfire (skip, once, all) says what happens to times missed while the gateway was off. Times without
    an offset are the user's. Write the text so that it makes sense when it is read later, and tell the person what was
    set up and for when. wake tells the main session `text` now or with its next turn."""
    try:
        told = await _done(schedules, ctx, args)
        return make_json_output(told, source=_find_source(told))
    except (BadRequest, NotFound) as exc:
        raise ToolFailure(f"{exc.message}; {exc.fix}" if exc.fix else exc.message) from None


def _find_source(told: dict[str, Any]) -> str:
    """Whose words the answer holds (taint): those of jobs, and what was said in their runs."""
    listed = told.get("jobs")  # of the status: how many
    jobs = [job.get("source", "") for job in (listed if isinstance(listed, list) else [told])]
    said = "session" if any(one.get("summary") for one in told.get("entries", ())) else ""
    return write_sources((*(one for text in jobs for one in text.split(SEPARATOR) if one != AGREED), said))


async def _done(schedules: SchedulerPort, ctx: ToolContext, args: CronArguments) -> dict[str, Any]:
    """The answer to a call. Raises ToolFailure, BadRequest, NotFound."""
    ident = args.jobId.strip()
    if args.action in ("get", "update", "remove", "run", "runs") and not ident:
        raise ToolFailure("jobId is missing; action list shows the ids")
    maker = _describe_maker(ctx)
    if ident and (barred := schedules.explain_barred(ident, maker)):
        raise ToolFailure(barred)
    match args.action:
        case "status":
            return {**schedules.status(), "now": ctx.now()}
        case "list":
            found = schedules.jobs(args.includeDisabled)
            return {"jobs": [job for job in found if not schedules.explain_barred(job["id"], maker)]}
        case "get":
            return schedules.job(ident)
        case "add":
            if args.job is None:
                raise ToolFailure("job is missing: {name, schedule, payload, …}")
            return await schedules.add(args.job, maker)
        case "update":
            patch = args.patch or args.job
            if patch is None:
                raise ToolFailure("patch is missing: what is to change of the job")
            return await schedules.update(ident, patch, maker)
        case "remove":
            return {"ok": True, "removed": await schedules.remove(ident)}
        case "run":
            return await schedules.run(ident, force=args.mode != "due")
        case "runs":
            return {"entries": await schedules.runs(ident, 20)}
        case _:
            if not args.text.strip():
                raise ToolFailure("text is missing: what to tell the main session")
            await schedules.wake(args.text.strip(), now=args.mode == "now", maker=maker)
            return {"ok": True}


def _describe_maker(ctx: ToolContext) -> CronJobMaker:
    target = ctx.inbound.target
    asked = (target.channel, target.to, target.account) if ctx.inbound.push else ("", "", "")
    source, shared = write_sources(ctx.taint), ctx.inbound.shared
    return CronJobMaker(ctx.session, ctx.agent, *asked, source=source, turn=True, shared=shared)


def make_cron_tool(schedules: SchedulerPort | None) -> dict[str, Tool]:
    """The tool, by its name; none where there are no schedules."""
    return bind_tools((_cron,), schedules) if schedules is not None else {}
