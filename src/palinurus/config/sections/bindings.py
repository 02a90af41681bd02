"""`bindings` of the config as the router needs them, and which sessions may send. Knows no messages."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from palinurus.config.declare import Section, option
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import Free, Lower
from palinurus.core.channelneeds import OWN_KEYS
from palinurus.core.types.keys import parse_agent_id

KINDS = {"direct": "direct", "dm": "direct", "group": "group", "channel": "channel", "room": "channel"}
MATCHES = {"channel", "accountId", "peer", "guildId", "teamId", "roles"}
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
) -> tuple[tuple[AgentBinding, ...], frozenset[str]]:
    """Every binding that can be used, in the order of the file; and the channels that are off because one of theirs
    cannot: passing over it would hand its messages to another agent, which may have other rights."""
    found = [_binding(raw, channels, agents, here.below("bindings", i)) for i, raw in enumerate(written)]
    made = tuple(binding for binding in found if isinstance(binding, AgentBinding))
    return made, frozenset(channel for channel in found if isinstance(channel, str))


def _binding(
    raw: Free, channels: Mapping[str, Free], agents: Collection[str], here: ConfigPlace
) -> AgentBinding | str | None:
    if _text(raw.get("type")) not in _TYPES:
        here.odd("type", f"bindings of type {raw.get('type')!r} are not built yet")
        return None
    agent = parse_agent_id(_text(raw.get("agentId"))) or ""
    match = raw.get("match")
    channel = _text(match.get("channel")).lower() if isinstance(match, Mapping) else ""
    if not isinstance(match, Mapping) or not channel:
        here.bad("match", "a binding needs match.channel", 'such as { channel: "telegram" }')
        return None
    off = f"until then {channel} is off"
    if agent not in agents:
        hint = suggest_nearest(agent, agents) or f"configured: {', '.join(sorted(agents))}"
        here.bad("agentId", f"unknown agent {raw.get('agentId')!r}", f"{hint}; {off}")
        return channel
    known = {*OWN_KEYS, *channels}
    if channel not in known and (hint := suggest_nearest(channel, known)):
        here.odd("match.channel", "there is no such channel", hint)
    for key in sorted({str(one) for one in match} - MATCHES):  # it fits more chats than were meant
        here.odd(f"match.{key}", "unknown key", suggest_nearest(key, MATCHES))
    peer = match.get("peer")
    kind = KINDS.get(_text(peer.get("kind")).lower(), "") if isinstance(peer, Mapping) else ""
    ident = _text(peer.get("id")) if isinstance(peer, Mapping) else ""
    if peer is not None and not (kind and ident):
        here.bad("match.peer", "a peer has a kind and an id", f"kind is direct, group or channel; {off}")
        return channel
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


class SendMatch(Section, frozen=True):
    """What a rule of session.sendPolicy is about; what is not said matches everything."""

    ABOUT: ClassVar = """
        channel Only messages to this channel.
        chatType Only to this kind of chat: direct, group or channel.
    """
    channel: Lower = ""
    chat_type: Literal["direct", "group", "channel"] | None = None
    key_prefix: Lower = option("", "Of the session's key, without agent:ID: before it.")
    raw_key_prefix: Lower = option("", "Of the session's whole key.")


class SendRule(Section, frozen=True):
    ABOUT: ClassVar = """
        action allow or deny.
    """
    action: Literal["allow", "deny"] = option(closed="deny")
    match: SendMatch = SendMatch()


class SendPolicy(Section, frozen=True):
    """session.sendPolicy: which sessions may send what they say. Runs go on in any case."""

    default: Literal["allow", "deny"] = option("allow", "What happens where no rule matches.", closed="deny")
    rules: tuple[SendRule, ...] = option(
        (), "A deny that matches goes first, then an allow, then the default.", closed=[{"action": "deny"}]
    )

    SEALED: ClassVar = {"default": "deny"}

    def allows(self, key: str, channel: str, kind: str, own: str | None = None) -> bool:
        """May a reply of the session go out there? `own`: what the session itself says (/send)."""
        if own in ("allow", "deny"):
            return own == "allow"
        raw, bare = key.lower(), key.lower().split(":", 2)[-1]
        said = {
            rule.action
            for rule in self.rules
            if rule.match.channel in ("", channel.lower())
            and rule.match.chat_type in (None, kind)
            and bare.startswith(rule.match.key_prefix)
            and raw.startswith(rule.match.raw_key_prefix)
        }
        return "deny" not in said and ("allow" in said or self.default == "allow")
