"""`pal cron`: jobs for later. Asks the running gateway; without one it reads and changes the jobs on disk, which run
when the gateway is started again. Not by `reach_program`: to list jobs, the whole program need not be loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from itertools import islice
from typing import Any, cast

from palinurus.cli.args import JSON, CommandParser, Verb, load_settings, make_arg, make_verb_parser, to_json
from palinurus.cli.reach.gateway import reach_gateway
from palinurus.cli.reach.http import is_gateway_running
from palinurus.cli.render import strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.settings import Settings
from palinurus.config.zones import detect_timezone
from palinurus.core import durations
from palinurus.core.schedule.fire import unfold_history
from palinurus.errors import BadRequest, GatewayUnreachable
from palinurus.services.inbox import InboxPort
from palinurus.store.factory import open_store
from palinurus.tools.program.cron import CronJobMaker, SchedulerPort
from palinurus.triggers.events import SystemEvents
from palinurus.triggers.ports import TriggerPort
from palinurus.triggers.scheduler import Scheduler

HISTORY = 10_000
PAGE = 500  # lines the gateway gives at once

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]


def run_cron(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError for what a person has to know."""
    options = make_cron_parser().parse_args(argv or ["list"])
    settings = load_settings(dict(os.environ)).settings
    sys.stdout.write(strip_controls(asyncio.run(perform_cron_command(settings, SystemClock(), options))) + "\n")
    return 0


async def perform_cron_command(settings: Settings, clock: Clock, options: argparse.Namespace) -> str:
    """Do it; what to print."""
    if await is_gateway_running(settings):
        async with reach_gateway(settings, clock) as gateway:
            return str(await options.run(gateway.call, options))
    store = await open_store(settings.home, clock)
    try:
        zone = detect_timezone(os.environ)
        idle = TriggerPort(settings, store, clock, cast(InboxPort, None), zone=zone)  # nothing starts without a gateway
        work = Scheduler(idle, SystemEvents(store))
        await work.load()
        return str(await options.run(_local(work, settings), options))
    finally:
        await store.close()


def _local(work: SchedulerPort, settings: Settings) -> Ask:
    """The gateway's methods on the jobs as they are on disk."""

    async def ask(method: str, params: dict[str, Any]) -> Any:
        ident = params.get("id", "")
        match method:
            case "cron.add":
                return await work.add(params, CronJobMaker(agent=settings.default_agent))
            case "cron.list":
                return {"jobs": work.jobs(True)}
            case "cron.get":
                return work.job(ident)
            case "cron.update":
                return await work.update(ident, params["patch"])
            case "cron.remove":
                return {"removed": await work.remove(ident)}
            case "cron.runs":
                found = await work.runs(ident, HISTORY)
                lines = unfold_history(found) if params["slots"] else iter(found)
                start = params["offset"]
                return {"entries": list(islice(lines, start, start + params["limit"]))}
        raise GatewayUnreachable("jobs run in the gateway, and none is running", fix="`pal gateway` starts it")

    return ask


# --- the line


def build_job_body(options: argparse.Namespace, now: int) -> dict[str, Any]:
    """What the options say of a job. Raises BadRequest."""
    made: dict[str, Any] = {}
    schedule = _schedule(options, now)
    payload = _payload(options)
    delivery = _delivery(options)
    made |= {"name": options.name, "agentId": options.agent, "sessionTarget": options.session}
    made |= {"misfire": options.misfire, "schedule": schedule, "payload": payload, "delivery": delivery}
    made |= {"wakeMode": options.wake, "misfireWindowMs": int(_seconds(options.window) * 1000) if options.window else 0}
    made = {key: value for key, value in made.items() if value}
    return {**made, "deleteAfterRun": False} if options.keep else made


def _schedule(options: argparse.Namespace, now: int) -> dict[str, Any]:
    if options.at:
        ahead = durations.parse_duration(options.at.removeprefix("in ").removeprefix("+"), "m")
        if ahead is None and not _is_date(options.at):
            raise BadRequest(
                f"--at {options.at[:40]!r} is no time", fix="write 2026-02-01T09:00, or 20m, 2h, 1d from now"
            )
        return {"kind": "at", "at": options.at if ahead is None or options.at.isdecimal() else now + int(ahead * 1000)}
    if options.every:
        return {"kind": "every", "everyMs": int(_seconds(options.every) * 1000)}
    if options.cron:
        made = {"kind": "cron", "expr": options.cron, **({"tz": options.tz} if options.tz else {})}
        return {**made, "staggerMs": int(_seconds(options.stagger) * 1000)} if options.stagger else made
    return {}


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def _seconds(text: str) -> float:
    found = durations.parse_duration(text, "m")
    if found is None:
        raise BadRequest(f"{text!r} is not a duration", fix="write it as 30s, 15m, 2h or 7d")
    return found


def _payload(options: argparse.Namespace) -> dict[str, Any]:
    if options.event:
        return {"kind": "systemEvent", "text": options.event}
    tools = [name.strip() for name in options.tools.split(",") if name.strip()]
    given: dict[str, Any] = {"lightContext": options.light}
    given |= {"message": options.message, "model": options.model, "thinking": options.thinking, "toolsAllow": tools}
    made = {key: value for key, value in {**given, "timeoutSeconds": options.timeout}.items() if value}
    return {"kind": "agentTurn", **made} if made else {}


def _delivery(options: argparse.Namespace) -> dict[str, Any]:
    if options.silent:
        return {"mode": "none"}
    if options.webhook:
        return {"mode": "webhook", "to": options.webhook}
    place = {"channel": options.channel, "to": options.to, "accountId": options.account, "threadId": options.thread}
    return {"mode": "announce", **{key: value for key, value in place.items() if value}} if options.channel else {}


# --- what it does


async def _add(ask: Ask, options: argparse.Namespace) -> str:
    asked = build_job_body(options, SystemClock().now())
    if "schedule" not in asked:
        raise BadRequest("when? --at, --every or --cron", fix="`pal cron add --help`")
    if not (options.message or options.event):
        raise BadRequest("what? --message or --event", fix="`pal cron add --help`")
    job = await ask("cron.add", asked)
    return to_json(job, pretty=True) if options.json else f"added {format_job(job)}"


async def _edit(ask: Ask, options: argparse.Namespace) -> str:
    patch = build_job_body(options, SystemClock().now())
    if not patch:
        raise BadRequest("nothing is to change", fix="`pal cron edit --help`")
    job = await _patched(ask, options.id, patch)
    return to_json(job, pretty=True) if options.json else f"changed {format_job(job)}"


async def _list(ask: Ask, options: argparse.Namespace) -> str:
    jobs = (await ask("cron.list", {"includeDisabled": True, "limit": 500}))["jobs"]
    if options.json:
        return to_json(jobs, pretty=True)
    return "\n".join(map(format_job, jobs)) or "no jobs"


async def _run(ask: Ask, options: argparse.Namespace) -> str:
    done = await ask("cron.run", {"id": await _id(ask, options.id), "mode": "force"})
    return f"started: {done['runId']}" if done.get("enqueued") else f"not started: {done.get('reason')}"


async def _pause(ask: Ask, options: argparse.Namespace) -> str:
    return f"paused {format_job(await _patched(ask, options.id, {'enabled': False}))}"


async def _resume(ask: Ask, options: argparse.Namespace) -> str:
    return f"goes on: {format_job(await _patched(ask, options.id, {'enabled': True}))}"


async def _rm(ask: Ask, options: argparse.Namespace) -> str:
    ident = await _id(ask, options.id)
    await ask("cron.remove", {"id": ident})
    return f"removed {ident}"


async def _runs(ask: Ask, options: argparse.Namespace) -> str:
    entries = await _entries(ask, options.id, options.limit, slots=options.slots)
    if options.json:
        return to_json(entries, pretty=True)
    return "\n".join(map(_ran, entries)) or ("this job has not run yet" if options.id else "no job has run yet")


async def _why(ask: Ask, options: argparse.Namespace) -> str:
    job = await ask("cron.get", {"id": options.id})
    state, entries = job["state"], await _entries(ask, job["id"], 5)
    if options.json:
        return to_json({"job": job, "runs": entries}, pretty=True)
    lines = [format_job(job)]
    if not job["enabled"]:
        lines.append("It does not run: it is paused, or was for one time that is over (`pal cron resume`).")
    elif state.get("runningAtMs"):
        lines.append(f"It runs now, since {format_local_time(state['runningAtMs'])}; it never runs beside itself.")
    elif state.get("nextRunAtMs"):
        lines.append(f"It runs next at {format_local_time(state['nextRunAtMs'])}, if the gateway runs then.")
    lines.append(f"Times missed while the gateway is off: {job.get('misfire', 'once')}.")
    return "\n".join([*lines, *map(_ran, entries)] if entries else [*lines, "It has not run yet."])


async def _entries(ask: Ask, ident: str, limit: int, *, slots: bool = False) -> list[dict[str, Any]]:
    """As many lines of the history as are wanted and there."""
    asked = {**({"id": ident} if ident else {}), "slots": slots}
    found: list[dict[str, Any]] = []
    while (size := min(PAGE, limit - len(found))) > 0:
        page = (await ask("cron.runs", {**asked, "limit": size, "offset": len(found)}))["entries"]
        found += page
        if len(page) < size:
            break
    return found


async def _id(ask: Ask, typed: str) -> str:
    return str((await ask("cron.get", {"id": typed}))["id"])


async def _patched(ask: Ask, typed: str, patch: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = await ask("cron.update", {"id": await _id(ask, typed), "patch": patch})
    return found


_JOB = make_arg("id", help="its id, the beginning of it, or its name")
_FIELDS = (
    *(
        make_arg(flag, default="", help=about)
        for flag, about in {
            "--name": "what to call it",
            "--at": "once: 2026-02-01T09:00, or in a while: 20m",
            "--every": "again and again: 30m, 2h, 1d",
            "--cron": "a cron line: '0 9 * * 1-5'",
            "--tz": "the zone of --cron, e.g. Europe/Berlin",
            "--message": "ask the agent this, in a session of its own",
            "--event": "tell the main session this",
            "--session": "main, isolated or session:<key>",
            "--agent": "which agent",
            "--model": "for --message: with this model",
            "--thinking": "for --message: with this thinking level",
            "--tools": "for --message: only these tools, comma-separated",
            "--channel": "announce the answer on this channel",
            "--to": "… to this chat",
            "--account": "… through this account of ours",
            "--thread": "… in this thread",
            "--webhook": "post the answer to this address instead",
            "--misfire": "times missed while the gateway was off: skip, once (default) or all",
            "--window": "how late a missed time may still run, e.g. 6h (a day)",
            "--wake": "for --event: now (default) or next-heartbeat, with the session's next turn",
            "--stagger": "with --cron: a delay of its own up to this, e.g. 5m",
        }.items()
    ),
    make_arg("--timeout", type=float, default=0.0, help="for --message: seconds it may take"),
    make_arg("--light", action="store_true", help="for --message: with the small prompt"),
    make_arg("--silent", action="store_true", help="the answer is sent to nobody"),
    make_arg("--keep", action="store_true", help="with --at: keep the job after it ran"),
    JSON,
)
VERBS = {
    "list": Verb(_list, "list all jobs, the next one first", (JSON,)),
    "add": Verb(_add, "make a job: one of --at, --every, --cron, and --message or --event", _FIELDS),
    "edit": Verb(_edit, "change a job: the options of add", (_JOB, *_FIELDS)),
    "run": Verb(_run, "run a job now, whatever its schedule says", (_JOB,)),
    "pause": Verb(_pause, "stop a job until `pal cron resume`", (_JOB,)),
    "resume": Verb(_resume, "let a paused job run again", (_JOB,)),
    "rm": Verb(_rm, "delete a job", (_JOB,)),
    "why": Verb(_why, "when it runs next, and why it did or did not run", (_JOB, JSON)),
    "runs": Verb(
        _runs,
        "list past runs",
        (
            make_arg("id", nargs="?", default="", help="which job; all if left out"),
            make_arg("--limit", type=int, default=20),
            make_arg("--slots", action="store_true", help="a line for each missed time, not one for a row of them"),
            JSON,
        ),
    ),
}


def make_cron_parser() -> CommandParser:
    """The command line of `pal cron`."""
    return make_verb_parser("cron", "Jobs for later: reminders, and work that comes again and again.", VERBS)


# --- how it looks


def format_job(job: dict[str, Any]) -> str:
    """One job."""
    schedule, state = job["schedule"], job["state"]
    words = {
        "at": lambda: f"at {schedule['at']}",
        "every": lambda: f"every {schedule['everyMs'] / 60_000:g} min",
        "cron": lambda: f"{schedule['expr']} {schedule.get('tz', '')}".strip(),
    }[schedule["kind"]]()
    due = (
        format_local_time(state["nextRunAtMs"])
        if state.get("nextRunAtMs")
        else "paused"
        if not job["enabled"]
        else "never"
    )
    last = f"  last: {state['lastRunStatus']}" if state.get("lastRunStatus") else ""
    return f"{job['id'][:8]}  {job['name']}  ({words})  next: {due}{last}"


def _ran(entry: dict[str, Any]) -> str:
    cost = f"  ${entry['costUsd']:.4f}" if entry.get("costUsd") else ""
    text = " ".join(str(entry.get("summary") or "").split())[:90]
    return f"{format_local_time(entry['runAtMs'])}  {entry['status']}  {entry['jobName']}: {text}{cost}"


def format_local_time(ms: int) -> str:
    """In this machine's zone."""
    return f"{datetime.fromtimestamp(ms / 1000):%Y-%m-%d %H:%M}"
