"""`bindings` of the config as the router needs them. Knows no messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import Free
from palinurus.core.types.keys import parse_agent_id

KINDS = {"direct": "direct", "dm": "direct", "group": "group", "channel": "channel", "room": "channel"}
_TYPES = ("", "route")


class AgentBinding(msgspec.Struct, frozen=True):
    """bindings[]: messages that have all of this go to `agent`. Empty means: not asked for."""

    agent: str
    channel: str
    account: str = "default"  # "*" = every account of the channel
    kind: str = ""  # of the peer: direct, group, channel
    peer: str = ""
    guild: str = ""
    team: str = ""
    roles: tuple[str, ...] = ()  # one of them is enough


def resolve_bindings(
    written: list[Free], channels: Mapping[str, Free], agents: Collection[str], here: ConfigPlace
) -> tuple[AgentBinding, ...]:
    """Every binding that can be used, in the order of the file. One that cannot is a finding: passing over it would
    hand its messages to another agent."""
    made = (_binding(raw, channels, agents, here.below("bindings", i)) for i, raw in enumerate(written))
    return tuple(binding for binding in made if binding is not None)


def _binding(
    raw: Free, channels: Mapping[str, Free], agents: Collection[str], here: ConfigPlace
) -> AgentBinding | None:
    if _text(raw.get("type")) not in _TYPES:
        here.odd("type", f"bindings of type {raw['type']!r} are not built yet")
        return None
    agent = parse_agent_id(_text(raw.get("agentId"))) or ""
    match = raw.get("match")
    if agent not in agents:
        hint = suggest_nearest(agent, agents) or f"configured: {', '.join(sorted(agents))}"
        here.bad("agentId", f"unknown agent {raw.get('agentId')!r}", hint)
        return None
    channel = _text(match.get("channel")).lower() if isinstance(match, Mapping) else ""
    if not isinstance(match, Mapping) or not channel:
        here.bad("match", "a binding needs match.channel", 'such as { channel: "telegram" }')
        return None
    peer = match.get("peer")
    kind = KINDS.get(_text(peer.get("kind")).lower(), "") if isinstance(peer, Mapping) else ""
    ident = _text(peer.get("id")) if isinstance(peer, Mapping) else ""
    if peer is not None and not (kind and ident):
        here.bad("match.peer", "a peer has a kind and an id", "kind is direct, group or channel")
        return None
    roles = match.get("roles")
    usual = _text((channels.get(channel) or {}).get("defaultAccount"))  # a binding that names no account means this
    return AgentBinding(
        agent=agent,
        channel=channel,
        account=_text(match.get("accountId")) or usual or "default",
        kind=kind,
        peer=ident,
        guild=_text(match.get("guildId")),
        team=_text(match.get("teamId")),
        roles=tuple(_text(role) for role in roles) if isinstance(roles, list) else (),
    )


def _text(value: Any) -> str:
    """Ids are often written as bare numbers."""
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
