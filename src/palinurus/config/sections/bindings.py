"""`bindings` and `session.identityLinks` of the config as the router needs them. Pure; knows no messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.settings import AgentBinding
from palinurus.core.types.keys import parse_agent_id

KINDS = {"direct": "direct", "dm": "direct", "group": "group", "channel": "channel", "room": "channel"}
_TYPES = ("", "route")


def resolve_bindings(
    config: Config, agents: Collection[str], findings: list[ConfigFinding]
) -> tuple[AgentBinding, ...]:
    """Every binding that can be used, in the order of the file. One that cannot is a finding: passing over it would
    hand its messages to another agent."""
    made = (_binding(raw, ("bindings", i), config, agents, findings) for i, raw in enumerate(config.bindings or ()))
    return tuple(binding for binding in made if binding is not None)


def map_identity_links(section: Mapping[str, list[str]]) -> dict[str, str]:
    """`channel:peer` (or a bare peer) in lower case -> the name of the person."""
    return {
        peer.strip().lower(): name.strip()
        for name, peers in section.items()
        for peer in peers
        if name.strip() and peer.strip()
    }


def _binding(
    raw: Mapping[str, Any], path: Path, config: Config, agents: Collection[str], findings: list[ConfigFinding]
) -> AgentBinding | None:
    if _text(raw.get("type")) not in _TYPES:
        findings.append(
            ConfigFinding((*path, "type"), f"bindings of type {raw['type']!r} are not built yet", fatal=False)
        )
        return None
    agent = parse_agent_id(_text(raw.get("agentId"))) or ""
    match = raw.get("match")
    if agent not in agents:
        hint = suggest_nearest(agent, agents) or f"configured: {', '.join(sorted(agents))}"
        findings.append(ConfigFinding((*path, "agentId"), f"unknown agent {raw.get('agentId')!r}", hint))
        return None
    channel = _text(match.get("channel")).lower() if isinstance(match, Mapping) else ""
    if not isinstance(match, Mapping) or not channel:
        findings.append(
            ConfigFinding((*path, "match"), "a binding needs match.channel", 'such as { channel: "telegram" }')
        )
        return None
    peer = match.get("peer")
    kind = KINDS.get(_text(peer.get("kind")).lower(), "") if isinstance(peer, Mapping) else ""
    ident = _text(peer.get("id")) if isinstance(peer, Mapping) else ""
    if peer is not None and not (kind and ident):
        findings.append(
            ConfigFinding((*path, "match", "peer"), "a peer has a kind and an id", "kind is direct, group or channel")
        )
        return None
    roles = match.get("roles")
    return AgentBinding(
        agent=agent,
        channel=channel,
        account=_text(match.get("accountId")) or _account(config, channel),
        kind=kind,
        peer=ident,
        guild=_text(match.get("guildId")),
        team=_text(match.get("teamId")),
        roles=tuple(_text(role) for role in roles) if isinstance(roles, list) else (),
    )


def _account(config: Config, channel: str) -> str:
    """A binding that names no account means the channel's own."""
    section = (config.channels or {}).get(channel) or {}
    return _text(section.get("defaultAccount")) or "default"


def _text(value: Any) -> str:
    """Ids are often written as bare numbers."""
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
