"""Which agent and which session a message belongs to. Pure."""

from __future__ import annotations

from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound, Route
from palinurus.core.types.keys import SessionKey, escape_key_part, parse_agent_id, parse_session_key
from palinurus.inbox.bindings import bind_agent, resolve_identity


def route_inbound(inbound: Inbound, settings: Settings) -> Route | str:
    """The route, or what is wrong with the message."""
    agent = parse_agent_id(inbound.agent) if inbound.agent else bind_agent(inbound, settings)
    if agent is None or agent not in settings.agents:
        return f"unknown agent '{inbound.agent}'; configured: {', '.join(sorted(settings.agents))}"
    key = parse_session_key(inbound.session, agent) if inbound.session else _own_key(inbound, settings, agent)
    if key is None:
        return f"not a session key: {inbound.session[:80]!r}"
    if key.agent not in settings.agents:
        return f"unknown agent '{key.agent}' in session key; configured: {', '.join(sorted(settings.agents))}"
    return Route(key.agent, key, key.lane)


def _own_key(inbound: Inbound, settings: Settings, agent: str) -> SessionKey:
    """The key that a message without an explicit session gets; foreign ids are escaped, so none can collide."""
    target = inbound.target
    if inbound.kind != "direct":
        thread = f":thread:{escape_key_part(target.thread)}" if target.thread else ""
        return SessionKey(agent, f"{target.channel}:{inbound.kind}:{escape_key_part(target.to)}{thread}")
    peer = escape_key_part(resolve_identity(inbound, settings.session.identity_links))
    scopes = {
        "main": settings.session.main_key,
        "per-peer": f"direct:{peer}",
        "per-channel-peer": f"{target.channel}:direct:{peer}",
        "per-account-channel-peer": f"{target.channel}:{escape_key_part(target.account)}:direct:{peer}",
    }
    return SessionKey(agent, scopes.get(settings.session.dm_scope, settings.session.main_key))
