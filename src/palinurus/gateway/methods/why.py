"""chat.why and runs.trace: why an answer is as it is, and what happened on the way to it. Ours."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.keys import parse_session_key
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.scene import MethodContext, get_context
from palinurus.gateway.why import explain_message, trace_message
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import InboxRow


class ChatWhyParams(MethodParams, frozen=True):
    session_key: NonEmpty
    message_id: NonEmpty | None = None
    item: NonEmpty | None = None
    agent_id: NonEmpty | None = None


class RunTraceParams(MethodParams, frozen=True):
    item: NonEmpty  # or what its client calls the run


async def explain_chat(call: MethodCall, asked: ChatWhyParams) -> dict[str, Any]:
    """All about one message of a session; without a name, about the last one."""
    here = get_context(call)
    seen = await here.rows.load(here.rows.key(asked.session_key, asked.agent_id))
    transcript = await here.rows.transcript(seen)
    if transcript is None:
        raise MethodError("session not found")
    ident = asked.item or _item(transcript, asked.message_id)
    row = await here.desk.store.item(ident) if ident else None
    if row is None or not transcript.entries_of(row.id):
        raise MethodError("nothing is on file about this message")
    return await explain_message(here.desk, seen, transcript, row, admin=call.client.may(ADMIN))


def _item(transcript: Transcript, message: str | None) -> str:
    if message is not None:
        entry = transcript.entry(message)
        return entry.item if entry is not None else ""
    return next((entry.item for entry in reversed(transcript.path_to_leaf()) if entry.item), "")


async def trace_run(call: MethodCall, asked: RunTraceParams) -> dict[str, Any]:
    """The timeline of one message."""
    here = get_context(call)
    run = here.stage.run(asked.item)
    ended = here.stage.end(asked.item)
    ident = run.item if run is not None else ended[0].item if ended is not None else asked.item
    row = await here.desk.store.item(ident)
    if row is None:
        raise MethodError(f"no message {asked.item[:64]}")
    return await trace_message(here.desk, await _transcript(here, row), row)


async def _transcript(here: MethodContext, row: InboxRow) -> Transcript | None:
    key = parse_session_key(row.session)
    if key is None or key.agent not in here.desk.settings.agents:
        return None
    return await here.rows.transcript(await here.rows.load(key))


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("chat.why", READ, ChatWhyParams, explain_chat),
    GatewayMethod("runs.trace", READ, RunTraceParams, trace_run),
)
