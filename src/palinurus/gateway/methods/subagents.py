"""subagents.*: seeing, ending and steering what a session has started. Ours; the agent's own tool does the same."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from palinurus.gateway.rpc import READ, WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.scene import get_context
from palinurus.inbox.children.nest import SubagentControl
from palinurus.inbox.children.views import RECENT


class SubagentListParams(MethodParams, frozen=True):
    session_key: NonEmpty
    agent_id: NonEmpty | None = None
    minutes: Annotated[int, Meta(ge=1)] = RECENT


class SubagentKillParams(MethodParams, frozen=True):
    session_key: NonEmpty
    target: NonEmpty  # a number of the list, a name, an id, or all
    agent_id: NonEmpty | None = None


class SubagentSteerParams(MethodParams, frozen=True):
    session_key: NonEmpty
    target: NonEmpty
    message: NonEmpty
    agent_id: NonEmpty | None = None


async def list_subagents(call: MethodCall, asked: SubagentListParams) -> dict[str, Any]:
    """Those of a session, in the order of their numbers."""
    key = str(get_context(call).rows.key(asked.session_key, asked.agent_id))
    return {"sessionKey": key, "subagents": await _nest(call).rows(key, asked.minutes)}


async def kill_subagent(call: MethodCall, asked: SubagentKillParams) -> dict[str, Any]:
    """End one, with all it started. The session is told."""
    key = str(get_context(call).rows.key(asked.session_key, asked.agent_id))
    return _done(await _nest(call).kill(key, asked.target, tell=True))


async def steer_subagent(call: MethodCall, asked: SubagentSteerParams) -> dict[str, Any]:
    """Interrupt one and have it go on with a message."""
    key = str(get_context(call).rows.key(asked.session_key, asked.agent_id))
    return _done(await _nest(call).steer(key, asked.target, asked.message))


def _nest(call: MethodCall) -> SubagentControl:
    nest = get_context(call).desk.nest
    if nest is None:
        raise MethodError("there are no sub-agents here", code="UNAVAILABLE")
    return nest


def _done(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.get("status") not in ("ok", "accepted"):
        raise MethodError(str(answer.get("error") or "that cannot be done"))
    return {"ok": True, **answer}


SUBAGENT_METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("subagents.list", READ, SubagentListParams, list_subagents),
    GatewayMethod("subagents.kill", WRITE, SubagentKillParams, kill_subagent),
    GatewayMethod("subagents.steer", WRITE, SubagentSteerParams, steer_subagent),
)
