"""/tasks: what goes on in the background, and what the agent promised without setting anything up for it."""

from __future__ import annotations

from palinurus.core import commitments
from palinurus.errors import BadRequest
from palinurus.inbox import tasks
from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.promises import OpenPromise, accept_promise, close_promise, list_open_promises

TASKS_USAGE = "/tasks [accept N | dismiss N|all]. N is the number of an open promise."


async def run_tasks(call: CommandCall) -> CommandAnswer:
    """The owner sees every session's, others their own. Only the owner makes jobs of promises."""
    desk, now = call.desk, call.desk.clock.now()
    action, _, which = call.args.strip().partition(" ")
    session = None if call.admin else str(call.key)
    items = await list_open_promises(desk.store, now, session)
    if action in ("accept", "dismiss"):
        if not call.admin:
            return CommandAnswer("⚠️ Only the owner decides about promises.")
        chosen = _meant(items, which.strip())
        if not chosen:
            return CommandAnswer(f"There is no open promise {which.strip()[:20]!r}. {TASKS_USAGE}")
        return await (_accepted(call, chosen) if action == "accept" else _dismissed(call, chosen))
    if action not in ("", "list"):
        return CommandAnswer(TASKS_USAGE)
    found = [task for task in await tasks.list_tasks(desk) if session in (None, task["sessionKey"])]
    lines = tasks.format_tasks(found, now) or ["Nothing goes on in the background."]
    if items:
        lines += ["", "Promised, but nothing is set up for it:"]
        lines += [f"{at}. “{one.text}”" for at, one in enumerate(items, 1)]
        lines += ["/tasks accept N makes it a job, /tasks dismiss N forgets it."]
    return CommandAnswer("\n".join(lines))


def _meant(items: list[OpenPromise], which: str) -> list[OpenPromise]:
    if which == "all":
        return items
    at = int(which) if which.isdecimal() and len(which) < 4 else 0
    return items[at - 1 : at] if at else []


async def _accepted(call: CommandCall, chosen: list[OpenPromise]) -> CommandAnswer:
    desk = call.desk
    if desk.schedules is None:
        return CommandAnswer("⚠️ There are no schedules here.")
    said = []
    for one in chosen:
        zone = desk.settings.agents[one.agent].user_timezone if one.agent in desk.settings.agents else ""
        due = commitments.parse_due_time(one.text, desk.clock.now(), zone)
        try:
            job = await accept_promise(desk.store, desk.schedules, one, due)
        except BadRequest as exc:
            return CommandAnswer(f"⚠️ {exc.message}")
        if job is None:
            continue
        said.append(f"⏰ {job['schedule']['at']}: “{one.text}” (job {job['id'][:8]})")
    return CommandAnswer("\n".join(said) or "⚙️ It was decided already.")


async def _dismissed(call: CommandCall, chosen: list[OpenPromise]) -> CommandAnswer:
    for one in chosen:
        await close_promise(call.desk.store, one)
    return CommandAnswer(f"⚙️ {len(chosen)} forgotten.")
