"""What goes on beside the conversation: commands in the background, sub-agents, jobs that run or have just run. One
list for /tasks, `pal tasks` and tasks.list; read from those who keep them, nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from palinurus.core.types.keys import parse_session_key
from palinurus.inbox.commands.command import CommandContext
from palinurus.services.subagents import texts
from palinurus.services.subagents.registry import SubagentRecord
from palinurus.tools.commands.table import CommandRow

TITLE = 200
RECENT = 30  # minutes for which what is over is shown
RUNS = 50

_COMMANDS = {"running": "running", "completed": "completed", "failed": "failed", "killed": "cancelled"}
_CHILDREN = {
    "done": "completed",
    "failed": "failed",
    "timeout": "failed",
    "killed": "cancelled",
    "stopped": "cancelled",
}
_FIRES = {"ok": "completed", "error": "failed", "skipped": "cancelled"}


async def list_tasks(program: CommandContext) -> list[dict[str, Any]]:
    """Newest first."""
    now = program.clock.now()
    rows = program.processes.all() if program.processes is not None else ()
    found = [_command(row) for row in rows if row.background or row.status == "running"]
    if program.subagents is not None:
        children = program.subagents.registry.every()
        found += [_child(child) for child in children if texts.is_recent(child, now, RECENT)]
    if program.schedules is not None:
        main = program.settings.session.main_key
        jobs = {job["id"]: job for job in program.schedules.jobs(True)}
        found += [_going(job, main) for job in jobs.values() if job["state"].get("runningAtMs")]
        fires = await program.schedules.runs("", RUNS)
        found += [_fired(fire, jobs, main) for fire in fires if now - fire["ts"] <= RECENT * 60_000]
    return sorted(found, key=lambda task: -task["createdAt"])


def format_tasks(tasks: Iterable[dict[str, Any]], now: int) -> list[str]:
    """For people, one line each."""
    return [
        f"{_MARKS.get(task['status'], '•')} {task['kind']} {task['status']}, "
        f"{_span((task.get('endedAt') or now) - task['createdAt'])}: {task['title'][:100]} ({task['id'][:8]})"
        for task in tasks
    ]


_MARKS = {"running": "▶", "queued": "…", "completed": "✓", "failed": "✗", "cancelled": "–"}


def _command(row: CommandRow) -> dict[str, Any]:
    key = parse_session_key(row.session)
    made = {
        "id": row.id,
        "kind": "command",
        "runtime": "process",
        "status": _COMMANDS.get(row.status, "failed"),
        "title": row.command[:TITLE],
        "agentId": row.agent,
        "sessionKey": str(key) if key is not None else row.session,
        "createdAt": row.started,
        "startedAt": row.started,
        "updatedAt": row.started + row.ms,
        "background": row.background,
    }
    if row.status != "running":
        made |= {"endedAt": row.started + row.ms, "terminalSummary": f"exit code {row.code}"}
    return made


def _child(child: SubagentRecord) -> dict[str, Any]:
    key = parse_session_key(child.session)
    made = {
        "id": child.id,
        "kind": "subagent",
        "runtime": "agent",
        "status": _CHILDREN.get(texts.describe_status(child), "running" if child.started else "queued"),
        "title": child.name[:TITLE],
        "agentId": key.agent if key is not None else "",
        "sessionKey": child.parent,
        "childSessionKey": child.session,
        "createdAt": child.made,
    }
    if child.started:
        made["startedAt"] = child.started
    if child.ended:
        made |= {"endedAt": child.ended, "terminalSummary": child.note or child.outcome or ""}
    return made


def _going(job: dict[str, Any], main: str) -> dict[str, Any]:
    due = job["state"]["runningAtMs"]
    return {**_of_job(job, due, main), "status": "running", "startedAt": due}


def _fired(fire: dict[str, Any], jobs: dict[str, dict[str, Any]], main: str) -> dict[str, Any]:
    job = jobs.get(fire["jobId"], {"id": fire["jobId"], "name": fire.get("jobName") or fire["jobId"]})
    ran = fire.get("runAtMs") or fire["ts"]
    made = {**_of_job(job, ran, main), "status": _FIRES.get(fire["status"], "failed"), "endedAt": fire["ts"]}
    return {**made, "terminalSummary": str(fire.get("error") or fire.get("summary") or "")[:TITLE]}


def _of_job(job: dict[str, Any], due: int, main: str) -> dict[str, Any]:
    agent = job.get("agentId", "")
    target = str(job.get("sessionTarget", "isolated"))
    key = target.removeprefix("session:") if target.startswith("session:") else f"agent:{agent}:cron:{job['id']}"
    return {
        "id": f"{job['id']}:{due}",
        "kind": "cron",
        "runtime": "cron",
        "title": job["name"][:TITLE],
        "agentId": agent,
        "sessionKey": f"agent:{agent}:{main}" if target == "main" else key,
        "createdAt": due,
    }


def _span(ms: int) -> str:
    seconds = max(0, ms) // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
