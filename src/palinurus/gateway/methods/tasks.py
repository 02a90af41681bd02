"""tasks.*: what goes on now or has just ended: runs, commands, sub-agents, jobs; and promises that are open."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from palinurus.gateway.rpc import READ, WRITE, Call, Method, Params, RpcError, Word
from palinurus.gateway.runs import Run
from palinurus.gateway.scene import scene
from palinurus.inbox import tasks
from palinurus.inbox.promises import OpenPromise, list_open_promises
from palinurus.inbox.tasks import TITLE


class List(Params, frozen=True):
    status: str | tuple[str, ...] = ()
    agent_id: Word | None = None
    session_key: Word | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    cursor: str | None = None


class Get(Params, frozen=True):
    task_id: Word


class Cancel(Params, frozen=True):
    task_id: Word
    reason: Annotated[str, Meta(max_length=200)] | None = None


async def listed(call: Call, asked: List) -> dict[str, Any]:
    """Newest first."""
    here = scene(call)
    wanted = {asked.status} if isinstance(asked.status, str) else set(asked.status)
    key = str(here.rows.key(asked.session_key, asked.agent_id)) if asked.session_key else None
    found = [
        task
        for task in await _every(call)
        if (not wanted or task["status"] in wanted)
        and asked.agent_id in (None, task["agentId"])
        and key in (None, task["sessionKey"])
    ]
    start = int(asked.cursor) if asked.cursor and asked.cursor.isdecimal() else 0
    page = found[start : start + asked.limit]
    more = start + len(page) < len(found)
    return {"tasks": page, **({"nextCursor": str(start + len(page))} if more else {})}


async def get(call: Call, asked: Get) -> dict[str, Any]:
    """One."""
    for task in await _every(call):
        if task["id"] == asked.task_id:
            return {"task": task}
    raise RpcError(f"task not found: {asked.task_id[:64]}")


async def cancel(call: Call, asked: Cancel) -> dict[str, Any]:
    """Stop a run or a sub-agent. A command belongs to the session that started it, which ends it with its process
    tool; a promise is decided about with /tasks."""
    here = scene(call)
    task = next((task for task in await _every(call) if task["id"] == asked.task_id), None)
    if task is None:
        return {"found": False, "cancelled": False}
    if task["kind"] == "subagent" and here.desk.nest is not None and "endedAt" not in task:
        made = await here.desk.nest.kill(task["sessionKey"], task["id"], tell=True)
        return {"found": True, "cancelled": bool(made.get("killed")), "task": task}
    if task["kind"] != "run" or task["status"] != "running":
        why = "it has not begun" if task["kind"] == "run" else "ask its session to end it"
        return {"found": True, "cancelled": False, "reason": why, "task": task}
    stopped = here.desk.abort(task["sessionKey"], asked.reason or "rpc")
    return {"found": True, "cancelled": stopped, "task": task}


async def _every(call: Call) -> list[dict[str, Any]]:
    here = scene(call)
    found = await tasks.list_tasks(here.desk)
    # The runs of sub-agents and jobs are theirs.
    theirs = tuple(task.get("childSessionKey") or f"{task['sessionKey']}:run:" for task in found)
    found += [_run(run) for run in here.stage.all_runs() if not run.session.startswith(theirs)]
    found += [_open(one) for one in await list_open_promises(here.desk.store, here.desk.clock.now())]
    return sorted(found, key=lambda task: -task["createdAt"])


def _open(one: OpenPromise) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": "promise",
        "runtime": "agent",
        "status": "open",
        "title": one.text[:TITLE],
        "agentId": one.agent,
        "sessionKey": one.session,
        "createdAt": one.at,
    }


def _run(run: Run) -> dict[str, Any]:
    made = {
        "id": run.item,
        "kind": "run",
        "runtime": "agent",
        "status": "running" if run.started else "queued",
        "title": " ".join(run.inbound.text.split())[:TITLE],
        "agentId": run.agent,
        "sessionKey": run.session,
        "runId": run.id,
        "createdAt": run.inbound.at,
    }
    return {**made, "startedAt": run.started} if run.started else made


METHODS: tuple[Method, ...] = (
    Method("tasks.list", READ, List, listed),
    Method("tasks.get", READ, Get, get),
    Method("tasks.cancel", WRITE, Cancel, cancel),
)
