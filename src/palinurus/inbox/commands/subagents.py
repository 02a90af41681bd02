"""/subagents: the sub-agents of this session: list, info, log, kill, steer, send, spawn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.messages import AssistantMessage, ToolResult
from palinurus.errors import StateBroken
from palinurus.inbox.children import views, words
from palinurus.inbox.children.nest import Nest
from palinurus.inbox.children.record import Child
from palinurus.inbox.commands.desk import Answer, Call
from palinurus.sessions.record import Record
from palinurus.tools.spawn import Order

LOG, LINE = 20, 400  # messages, characters of one
USAGE = (
    "/subagents list | info WHICH | log WHICH [N] | kill WHICH|all | steer WHICH TEXT | send WHICH TEXT | "
    "spawn AGENT TASK. WHICH is a number of the list, a label or a run id."
)


async def run(call: Call) -> Answer:
    """Changes nothing itself: what it does to sub-agents is on disk before it answers."""
    nest = call.desk.nest
    if nest is None:
        return Answer("There are no sub-agents here.")
    action, _, rest = call.args.strip().partition(" ")
    do = _ACTIONS.get(action.lower() or "list")
    return await do(call, nest, rest.strip()) if do else Answer(USAGE)


async def _list(call: Call, nest: Nest, _: str) -> Answer:
    rows = await nest.rows(str(call.key))
    return Answer("\n".join(["Sub-agents:", *map(views.line, rows)]) if rows else "No sub-agents.")


async def _spawn(call: Call, nest: Nest, rest: str) -> Answer:
    agent, _, task = rest.partition(" ")
    if not task.strip():
        return Answer("Say who is to do what: /subagents spawn AGENT TASK.")
    made = await nest.spawn(Order(str(call.key), call.claim.id, call.inbound, task.strip(), agent=agent.lower()))
    if made["status"] != "accepted":
        return Answer(f"⚠️ Not started: {made['error']}.")
    return Answer(f"Started {made['runId'][:8]} ({made['model']}). Its result will be told here.")


async def _kill(call: Call, nest: Nest, rest: str) -> Answer:
    made = await nest.kill(str(call.key), rest or "all", tell=True)
    if made["status"] != "ok":
        return Answer(f"⚠️ {made['error']}.")
    return Answer(f"⚙️ {made['killed']} sub-agent{'s' if made['killed'] != 1 else ''} stopped.")


async def _steer(call: Call, nest: Nest, rest: str) -> Answer:
    which, _, text = rest.partition(" ")
    if not text.strip():
        return Answer("Say what it should do: /subagents steer WHICH TEXT.")
    made = await nest.steer(str(call.key), which, text.strip())
    return Answer(f"⚠️ {made['error']}." if made["status"] != "accepted" else f"Steering “{made['label']}”.")


async def _send(call: Call, nest: Nest, rest: str) -> Answer:
    which, _, text = rest.partition(" ")
    child = _one(call, nest, which)
    if isinstance(child, str) or not text.strip():
        return Answer(child if isinstance(child, str) else "Say what: /subagents send WHICH TEXT.")
    return Answer(f"“{child.name}”: {await nest.send(child, text.strip(), f'send:{call.claim.id}')}.")


async def _info(call: Call, nest: Nest, rest: str) -> Answer:
    child = _one(call, nest, rest)
    if isinstance(child, str):
        return Answer(child)
    cost = await nest.lives.cost(child)
    lines = [
        f"“{child.name}”: {views.status(child)}" + (f" ({child.note})" if child.note else ""),
        f"Run: {child.id}",
        f"Session: {child.session} (started by {child.parent}, depth {child.depth})",
        f"Model: {child.model}",
        words.stats(child, cost).capitalize(),
        f"Task: {child.task[:LINE]}",
    ]
    return Answer("\n".join(lines))


async def _log(call: Call, nest: Nest, rest: str) -> Answer:
    which, _, number = rest.partition(" ")
    child = _one(call, nest, which)
    if isinstance(child, str):
        return Answer(child)
    row, key = await call.desk.store.session(child.session), parse_session_key(child.session)
    if row is None or key is None:
        return Answer(f"The session of “{child.name}” is gone.")
    try:
        transcript = await call.desk.transcripts.load(Record.decode(row.data).path(key.agent))
    except StateBroken as exc:
        return Answer(f"⚠️ {exc.message}")
    most = int(number) if number.strip() in _NUMBERS else LOG
    said = [m for m in transcript.messages() if not isinstance(m, ToolResult) and m.text.strip()]
    lines = [
        f"{'it' if isinstance(m, AssistantMessage) else '>'}: {' '.join(m.text.split())[:LINE]}" for m in said[-most:]
    ]
    return Answer("\n".join([f"“{child.name}”:", *lines]))


def _one(call: Call, nest: Nest, which: str) -> Child | str:
    found = nest.find(str(call.key), which) if which.strip() else "say which: a number, a label or a run id"
    if isinstance(found, str):
        return f"⚠️ {found[:1].upper()}{found[1:]}."
    return found[0] if len(found) == 1 else "⚠️ One at a time."


_NUMBERS = frozenset(str(n) for n in range(1, 201))
_ACTIONS: dict[str, Callable[[Call, Nest, str], Awaitable[Answer]]] = {
    "list": _list,
    "info": _info,
    "log": _log,
    "kill": _kill,
    "stop": _kill,
    "steer": _steer,
    "send": _send,
    "spawn": _spawn,
}
