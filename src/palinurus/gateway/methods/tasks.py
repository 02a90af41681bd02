"""tasks.*: what goes on now or has just ended: runs, commands, sub-agents, jobs; and promises that are open.

subagents.* (ours): seeing, ending and steering what a session has started, as the agent's own tool does.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from palinurus.gateway.context import SessionParams, cut_page, require
from palinurus.gateway.methods.chat import CHANNEL
from palinurus.gateway.rpc import READ, WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.runs import RunView
from palinurus.gateway.views import extract_text, project_history
from palinurus.inbox import tasks
from palinurus.inbox.tasks import TITLE
from palinurus.services.promises import OpenPromise, list_open_promises
from palinurus.services.subagents.control import SubagentControl
from palinurus.services.subagents.texts import RECENT
from palinurus.tools.program.subagents import SteeringWords

LOGGED = 40  # messages of a sub-agent's session that are told


class SubagentListParams(SessionParams, frozen=True):
    minutes: Annotated[int, Meta(ge=1)] = RECENT


class SubagentKillParams(SessionParams, frozen=True, kw_only=True):
    target: NonEmpty  # a number of the list, a name, an id, or all


class SubagentSteerParams(SubagentKillParams, frozen=True, kw_only=True):
    message: NonEmpty


async def list_subagents(call: MethodCall, asked: SubagentListParams) -> dict[str, Any]:
    """Those of a session, in the order of their numbers."""
    key = str(asked.resolve(call))
    return {"sessionKey": key, "subagents": await _subagents(call).rows(key, asked.minutes)}


async def kill_subagent(call: MethodCall, asked: SubagentKillParams) -> dict[str, Any]:
    """End one, with all it started. The session is told."""
    return _done(await _subagents(call).kill(str(asked.resolve(call)), asked.target, tell=True))


async def steer_subagent(call: MethodCall, asked: SubagentSteerParams) -> dict[str, Any]:
    """Interrupt one and have it go on with a message."""
    words = SteeringWords(asked.target, asked.message, call.sender, CHANNEL)
    return _done(await _subagents(call).steer(str(asked.resolve(call)), words))


def _subagents(call: MethodCall) -> SubagentControl:
    return require(call.program.subagents, "there are no sub-agents here")


def _done(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.get("status") not in ("ok", "accepted"):
        raise MethodError(str(answer.get("error") or "that cannot be done"))
    return {"ok": True, **answer}


class TaskListParams(MethodParams, frozen=True):
    status: str | tuple[str, ...] = ()
    agent_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    cursor: str | None = None


class TaskGetParams(MethodParams, frozen=True):
    task_id: NonEmpty


class TaskCancelParams(TaskGetParams, frozen=True):
    reason: Annotated[str, Meta(max_length=200)] | None = None


async def list_tasks(call: MethodCall, asked: TaskListParams) -> dict[str, Any]:
    """Newest first."""
    here = call.context
    wanted = {asked.status} if isinstance(asked.status, str) else set(asked.status)
    key = str(here.reader.key(asked.session_key, asked.agent_id)) if asked.session_key else None
    found = [
        task
        for task in await _every(call)
        if (not wanted or task["status"] in wanted)
        and asked.agent_id in (None, task["agentId"])
        and key in (None, task["sessionKey"])
    ]
    start = int(asked.cursor) if asked.cursor and asked.cursor.isdecimal() else 0
    page, after = cut_page(found, start, asked.limit)
    return {"tasks": page, **({} if after is None else {"nextCursor": str(after)})}


async def get_task(call: MethodCall, asked: TaskGetParams) -> dict[str, Any]:
    """One."""
    task = await _find(call, asked.task_id)
    if task is None:
        raise MethodError(f"task not found: {asked.task_id[:64]}")
    return {"task": task}


async def cancel_task(call: MethodCall, asked: TaskCancelParams) -> dict[str, Any]:
    """Stop a run, a sub-agent or a command, with all it has started; a promise is decided about with /tasks."""
    here = call.context
    task = await _find(call, asked.task_id)
    if task is None:
        return {"found": False, "cancelled": False}
    if task["kind"] == "subagent" and here.program.subagents is not None and "endedAt" not in task:
        made = await here.program.subagents.kill(task["sessionKey"], task["id"], tell=True)
        return {"found": True, "cancelled": bool(made.get("killed")), "task": task}
    if task["kind"] == "command" and here.program.processes is not None:
        return {"found": True, "cancelled": here.program.processes.end(task["id"]), "task": task}
    if task["kind"] != "run" or task["status"] != "running":
        why = "it has not begun" if task["kind"] == "run" else "ask its session to end it"
        return {"found": True, "cancelled": False, "reason": why, "task": task}
    stopped = await here.program.inbox.stop(task["sessionKey"], asked.reason or "rpc")
    return {"found": True, "cancelled": stopped.ran, "task": task}


async def read_task_log(call: MethodCall, asked: TaskGetParams) -> dict[str, Any]:
    """The end of what a command has printed, or of what a sub-agent's session says. Ours."""
    task = (await get_task(call, asked))["task"]
    if task["kind"] == "command" and call.program.processes is not None:
        return {"task": task, "text": call.program.processes.read_end(task["id"])}
    _, transcript = await call.context.reader.open(
        call.context.reader.key(task.get("childSessionKey") or task["sessionKey"])
    )
    told = project_history(transcript, LOGGED) if transcript is not None else []
    lines = [f"{message['role']}: {text}" for message in told if (text := extract_text(message).strip())]
    return {"task": task, "text": "\n\n".join(lines)}


async def _find(call: MethodCall, ident: str) -> dict[str, Any] | None:
    return next((task for task in await _every(call) if task["id"] == ident), None)


async def _every(call: MethodCall) -> list[dict[str, Any]]:
    here = call.context
    found = await tasks.list_tasks(here.program)
    # The runs of sub-agents and jobs are theirs.
    theirs = tuple(task.get("childSessionKey") or f"{task['sessionKey']}:run:" for task in found)
    found += [_run(run) for run in here.broadcaster.all_runs() if not run.session.startswith(theirs)]
    found += [_open(one) for one in await list_open_promises(here.program.store, here.program.clock.now())]
    return sorted(found, key=lambda task: -task["createdAt"])


def _open(one: OpenPromise) -> dict[str, Any]:
    return _task(one.id, "promise", "open", one.text[:TITLE]) | _place(one.agent, one.session, one.at)


def _run(run: RunView) -> dict[str, Any]:
    title = " ".join(run.inbound.text.split())[:TITLE]
    made = _task(run.item, "run", "running" if run.started else "queued", title) | {"runId": run.id}
    made |= _place(run.agent, run.session, run.inbound.at)
    return {**made, "startedAt": run.started} if run.started else made


def _task(ident: str, kind: str, status: str, title: str) -> dict[str, Any]:
    return {"id": ident, "kind": kind, "runtime": "agent", "status": status, "title": title}


def _place(agent: str, session: str, at: int) -> dict[str, Any]:
    return {"agentId": agent, "sessionKey": session, "createdAt": at}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("tasks.list", READ, TaskListParams, list_tasks),
    GatewayMethod("tasks.get", READ, TaskGetParams, get_task),
    GatewayMethod("tasks.cancel", WRITE, TaskCancelParams, cancel_task),
    GatewayMethod("tasks.log", READ, TaskGetParams, read_task_log),
    GatewayMethod("subagents.list", READ, SubagentListParams, list_subagents),
    GatewayMethod("subagents.kill", WRITE, SubagentKillParams, kill_subagent),
    GatewayMethod("subagents.steer", WRITE, SubagentSteerParams, steer_subagent),
)
