"""subagents.*: seeing, ending and steering what a session has started. Ours; the agent's own tool does the same."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from palinurus.gateway.rpc import READ, WRITE, Call, Method, Params, RpcError, Word
from palinurus.gateway.scene import scene
from palinurus.inbox.children.nest import SubagentControl
from palinurus.inbox.children.views import RECENT


class List(Params, frozen=True):
    session_key: Word
    agent_id: Word | None = None
    minutes: Annotated[int, Meta(ge=1)] = RECENT


class Kill(Params, frozen=True):
    session_key: Word
    target: Word  # a number of the list, a name, an id, or all
    agent_id: Word | None = None


class Steer(Params, frozen=True):
    session_key: Word
    target: Word
    message: Word
    agent_id: Word | None = None


async def listed(call: Call, asked: List) -> dict[str, Any]:
    """Those of a session, in the order of their numbers."""
    key = str(scene(call).rows.key(asked.session_key, asked.agent_id))
    return {"sessionKey": key, "subagents": await _nest(call).rows(key, asked.minutes)}


async def kill(call: Call, asked: Kill) -> dict[str, Any]:
    """End one, with all it started. The session is told."""
    key = str(scene(call).rows.key(asked.session_key, asked.agent_id))
    return _done(await _nest(call).kill(key, asked.target, tell=True))


async def steer(call: Call, asked: Steer) -> dict[str, Any]:
    """Interrupt one and have it go on with a message."""
    key = str(scene(call).rows.key(asked.session_key, asked.agent_id))
    return _done(await _nest(call).steer(key, asked.target, asked.message))


def _nest(call: Call) -> SubagentControl:
    nest = scene(call).desk.nest
    if nest is None:
        raise RpcError("there are no sub-agents here", code="UNAVAILABLE")
    return nest


def _done(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.get("status") not in ("ok", "accepted"):
        raise RpcError(str(answer.get("error") or "that cannot be done"))
    return {"ok": True, **answer}


METHODS: tuple[Method, ...] = (
    Method("subagents.list", READ, List, listed),
    Method("subagents.kill", WRITE, Kill, kill),
    Method("subagents.steer", WRITE, Steer, steer),
)
