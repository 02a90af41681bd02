"""/subagents: the sub-agents of this session: list, info, log, kill, steer, send, spawn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from palinurus import late
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.messages import AssistantMessage, ToolResult
from palinurus.errors import BadRequest, StateBroken
from palinurus.inbox import tasks
from palinurus.inbox.commands.command import CommandAnswer, CommandCall
from palinurus.services.promises import OpenPromise, accept_promise, close_promise, list_open_promises
from palinurus.services.subagents import texts
from palinurus.services.subagents.control import SubagentControl
from palinurus.services.subagents.registry import SubagentRecord
from palinurus.sessions.record import SessionRecord
from palinurus.tools.program.subagents import SpawnOrder, SteeringWords

# /tasks: what goes on in the background, and what the agent promised without setting anything up for it.

TASKS_USAGE = "/tasks [accept N | dismiss N|all]. N is the number of an open promise."


async def run_tasks(call: CommandCall) -> CommandAnswer:
    """The owner sees every session's, others their own. Only the owner makes jobs of promises."""
    program, now = call.program, call.program.clock.now()
    action, _, which = call.args.strip().partition(" ")
    session = None if call.admin else str(call.key)
    items = await list_open_promises(program.store, now, session)
    if action in ("accept", "dismiss"):
        if not call.admin:
            return CommandAnswer("⚠️ Only the owner decides about promises.")
        chosen = _meant(items, which.strip())
        if not chosen:
            return CommandAnswer(f"There is no open promise {which.strip()[:20]!r}. {TASKS_USAGE}")
        return await (_accepted(call, chosen) if action == "accept" else _dismissed(call, chosen))
    if action not in ("", "list"):
        return CommandAnswer(TASKS_USAGE)
    found = [task for task in await tasks.list_tasks(program) if session in (None, task["sessionKey"])]
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
    program = call.program
    if program.schedules is None:
        return CommandAnswer("⚠️ There are no schedules here.")
    said = []
    for one in chosen:
        zone = program.settings.agents[one.agent].user_timezone if one.agent in program.settings.agents else ""
        due = late.load_part("commitments").parse_due_time(one.text, program.clock.now(), zone)
        try:
            job = await accept_promise(program.store, program.schedules, one, due)
        except BadRequest as exc:
            return CommandAnswer(f"⚠️ {exc.message}")
        if job is None:
            continue
        said.append(f"⏰ {job['schedule']['at']}: “{one.text}” (job {job['id'][:8]})")
    return CommandAnswer("\n".join(said) or "⚙️ It was decided already.")


async def _dismissed(call: CommandCall, chosen: list[OpenPromise]) -> CommandAnswer:
    for one in chosen:
        await close_promise(call.program.store, one)
    return CommandAnswer(f"⚙️ {len(chosen)} forgotten.")


LOG, LINE = 20, 400  # messages, characters of one
SUBAGENTS_USAGE = (
    "/subagents list | info WHICH | log WHICH [N] | kill WHICH|all | steer WHICH TEXT | send WHICH TEXT | "
    "spawn AGENT TASK. WHICH is a number of the list, a label or a run id."
)


async def run_subagents(call: CommandCall) -> CommandAnswer:
    """Changes nothing itself: what it does to sub-agents is on disk before it answers."""
    nest = call.program.subagents
    if nest is None:
        return CommandAnswer("There are no sub-agents here.")
    action, _, rest = call.args.strip().partition(" ")
    do = _ACTIONS.get(action.lower() or "list")
    return await do(call, nest, rest.strip()) if do else CommandAnswer(SUBAGENTS_USAGE)


async def _list(call: CommandCall, nest: SubagentControl, _: str) -> CommandAnswer:
    rows = await nest.rows(str(call.key))
    return CommandAnswer("\n".join(["Sub-agents:", *map(texts.format_list_row, rows)]) if rows else "No sub-agents.")


async def _spawn(call: CommandCall, nest: SubagentControl, rest: str) -> CommandAnswer:
    agent, _, task = rest.partition(" ")
    if not task.strip():
        return CommandAnswer("Say who is to do what: /subagents spawn AGENT TASK.")
    made = await nest.spawn(SpawnOrder(str(call.key), call.claim.id, call.inbound, task.strip(), agent=agent.lower()))
    if made["status"] != "accepted":
        return CommandAnswer(f"⚠️ Not started: {made['error']}.")
    return CommandAnswer(f"Started {made['runId'][:8]} ({made['model']}). Its result will be told here.")


async def _kill(call: CommandCall, nest: SubagentControl, rest: str) -> CommandAnswer:
    made = await nest.kill(str(call.key), rest or "all", tell=True)
    if made["status"] != "ok":
        return CommandAnswer(f"⚠️ {made['error']}.")
    return CommandAnswer(f"⚙️ {made['killed']} sub-agent{'s' if made['killed'] != 1 else ''} stopped.")


async def _steer(call: CommandCall, nest: SubagentControl, rest: str) -> CommandAnswer:
    which, _, text = rest.partition(" ")
    if not text.strip():
        return CommandAnswer("Say what it should do: /subagents steer WHICH TEXT.")
    made = await nest.steer(str(call.key), _words(call, which, text))
    return CommandAnswer(f"⚠️ {made['error']}." if made["status"] != "accepted" else f"Steering “{made['label']}”.")


async def _send(call: CommandCall, nest: SubagentControl, rest: str) -> CommandAnswer:
    which, _, text = rest.partition(" ")
    child = _one(call, nest, which)
    if isinstance(child, str) or not text.strip():
        return CommandAnswer(child if isinstance(child, str) else "Say what: /subagents send WHICH TEXT.")
    done = await nest.send(child, _words(call, which, text), f"send:{call.claim.id}")
    return CommandAnswer(f"“{child.name}”: {done}.")


def _words(call: CommandCall, which: str, text: str) -> SteeringWords:
    return SteeringWords(which, text.strip(), call.inbound.sender, call.inbound.target.channel)


async def _info(call: CommandCall, nest: SubagentControl, rest: str) -> CommandAnswer:
    child = _one(call, nest, rest)
    if isinstance(child, str):
        return CommandAnswer(child)
    cost = await nest.lives.cost(child)
    lines = [
        f"“{child.name}”: {texts.describe_status(child)}" + (f" ({child.note})" if child.note else ""),
        f"Run: {child.id}",
        f"Session: {child.session} (started by {child.parent}, depth {child.depth})",
        f"Model: {child.model}",
        texts.format_stats(child, cost).capitalize(),
        f"Task: {child.task[:LINE]}",
    ]
    return CommandAnswer("\n".join(lines))


async def _log(call: CommandCall, nest: SubagentControl, rest: str) -> CommandAnswer:
    which, _, number = rest.partition(" ")
    child = _one(call, nest, which)
    if isinstance(child, str):
        return CommandAnswer(child)
    row, key = await call.program.store.session(child.session), parse_session_key(child.session)
    if row is None or key is None:
        return CommandAnswer(f"The session of “{child.name}” is gone.")
    try:
        transcript = await call.program.transcripts.load(SessionRecord.decode(row.data).path(key.agent))
    except StateBroken as exc:
        return CommandAnswer(f"⚠️ {exc.message}")
    most = int(number) if number.strip() in _NUMBERS else LOG
    said = [m for m in transcript.messages() if not isinstance(m, ToolResult) and m.text.strip()]
    lines = [
        f"{'it' if isinstance(m, AssistantMessage) else '>'}: {' '.join(m.text.split())[:LINE]}" for m in said[-most:]
    ]
    return CommandAnswer("\n".join([f"“{child.name}”:", *lines]))


def _one(call: CommandCall, nest: SubagentControl, which: str) -> SubagentRecord | str:
    found = nest.find(str(call.key), which) if which.strip() else "say which: a number, a label or a run id"
    if isinstance(found, str):
        return f"⚠️ {found[:1].upper()}{found[1:]}."
    return found[0] if len(found) == 1 else "⚠️ One at a time."


_NUMBERS = frozenset(str(n) for n in range(1, 201))
_ACTIONS: dict[str, Callable[[CommandCall, SubagentControl, str], Awaitable[CommandAnswer]]] = {
    "list": _list,
    "info": _info,
    "log": _log,
    "kill": _kill,
    "stop": _kill,
    "steer": _steer,
    "send": _send,
    "spawn": _spawn,
}
