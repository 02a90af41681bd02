"""chat.why and runs.trace: why an answer is as it is, and what happened on the way to it. Ours."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.keys import parse_session_key
from palinurus.gateway.rpc import ADMIN, READ, Call, Method, Params, RpcError, Word
from palinurus.gateway.scene import Scene, scene
from palinurus.gateway.why import trace, why
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import ItemRow


class Why(Params, frozen=True):
    session_key: Word
    message_id: Word | None = None
    item: Word | None = None
    agent_id: Word | None = None


class Trace(Params, frozen=True):
    item: Word  # or what its client calls the run


async def explain(call: Call, asked: Why) -> dict[str, Any]:
    """All about one message of a session; without a name, about the last one."""
    here = scene(call)
    seen = await here.rows.load(here.rows.key(asked.session_key, asked.agent_id))
    transcript = await here.rows.transcript(seen)
    if transcript is None:
        raise RpcError("session not found")
    ident = asked.item or _item(transcript, asked.message_id)
    row = await here.desk.store.item(ident) if ident else None
    if row is None or not transcript.entries_of(row.id):
        raise RpcError("nothing is on file about this message")
    return await why(here.desk, seen, transcript, row, admin=call.client.may(ADMIN))


def _item(transcript: Transcript, message: str | None) -> str:
    if message is not None:
        entry = transcript.entry(message)
        return entry.item if entry is not None else ""
    return next((entry.item for entry in reversed(transcript.path_to_leaf()) if entry.item), "")


async def followed(call: Call, asked: Trace) -> dict[str, Any]:
    """The timeline of one message."""
    here = scene(call)
    run = here.stage.run(asked.item)
    ended = here.stage.end(asked.item)
    ident = run.item if run is not None else ended[0].item if ended is not None else asked.item
    row = await here.desk.store.item(ident)
    if row is None:
        raise RpcError(f"no message {asked.item[:64]}")
    return await trace(here.desk, await _transcript(here, row), row)


async def _transcript(here: Scene, row: ItemRow) -> Transcript | None:
    key = parse_session_key(row.session)
    if key is None or key.agent not in here.desk.settings.agents:
        return None
    return await here.rows.transcript(await here.rows.load(key))


METHODS: tuple[Method, ...] = (
    Method("chat.why", READ, Why, explain),
    Method("runs.trace", READ, Trace, followed),
)
