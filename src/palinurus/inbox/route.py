"""Which agent and which session a message belongs to, and the row that is stored of it. Called once per message, by
`message.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.bindings import AgentBinding
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound, Route
from palinurus.core.types.keys import SessionKey, escape_key_part, parse_agent_id, parse_session_key
from palinurus.errors import BadRequest
from palinurus.store.port import InboxItem, make_id

MAX_TEXT = 1_000_000  # characters
MAX_EVENT = 512
CLIENTS = "webchat"  # the channel of the gateway's clients, who choose their event ids

_encoder = msgspec.json.Encoder()


def build_item(inbound: Inbound, where: Route, clock: Clock) -> InboxItem:
    """The row to store. Raises BadRequest with what is wrong."""
    if not inbound.text.strip() and not inbound.images and not inbound.files:
        raise BadRequest("the message is empty", fix="say something")
    if len(inbound.text) > MAX_TEXT:
        raise BadRequest(
            f"the message has {len(inbound.text):,} characters; at most {MAX_TEXT:,} are taken",
            fix="send it as a file, or in parts",
        )
    if len(inbound.event) > MAX_EVENT:
        raise BadRequest(f"the event id or idempotency key is longer than {MAX_EVENT} characters")
    now = clock.now()
    ident = make_id(now)
    dedupe = make_dedupe(inbound) or f"id/{ident}"
    return InboxItem(
        ident, dedupe, str(where.key), where.lane, body=_encode(inbound), at=now, slot=inbound.options.slot
    )


def make_dedupe(inbound: Inbound) -> str:
    """What identifies a message for ever; "" if nothing does. A key that a client chose counts for that client."""
    target = inbound.target
    caller = f"{inbound.sender.id}/" if target.channel == CLIENTS else ""
    return f"{target.channel}/{target.account}/{caller}{inbound.event}" if inbound.event else ""


def _encode(inbound: Inbound) -> bytes:
    try:
        return _encoder.encode(inbound)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError) as exc:
        raise BadRequest(f"the message cannot be stored: {exc}") from exc


# Which agent a message goes to, and who its sender is across channels. Pure; reads settings, decides no session.

Tier = Callable[[AgentBinding, Inbound], bool]


def bind_agent(inbound: Inbound, settings: Settings) -> str:
    """The agent of the first binding that fits, most specific kind first; else the default agent."""
    fitting = [binding for binding in settings.bindings if _fits(binding, inbound)]
    for tier in TIERS.values() if fitting else ():
        for binding in fitting:
            if tier(binding, inbound) and binding.agent in settings.agents:
                return binding.agent
    return settings.default_agent


def resolve_identity(inbound: Inbound, links: Mapping[str, str]) -> str:
    """The person's one name if `session.identityLinks` has this sender, else the sender's id.

    A stranger whose id happens to be such a name does not become that person: the channel is put before it.
    """
    own = inbound.sender.id
    if not links:
        return own
    place = f"{inbound.target.channel}:{own}"
    name = links.get(place.lower()) or links.get(own.lower())
    if name:
        return name
    return place if own in links.values() else own


def _fits(binding: AgentBinding, inbound: Inbound) -> bool:
    """Everything the binding asks for, but the peer's place in a thread: that is the tiers' business."""
    target = inbound.target
    return (
        binding.channel == target.channel
        and binding.account in ("*", target.account)
        and (not binding.guild or binding.guild == inbound.guild)
        and (not binding.team or binding.team == inbound.team)
        and (not binding.roles or not set(binding.roles).isdisjoint(inbound.roles))
        and (not binding.peer or _peer(binding, inbound) or _parent(binding, inbound))
    )


def _peer(binding: AgentBinding, inbound: Inbound) -> bool:
    if binding.kind != inbound.kind:
        return False
    target = inbound.target
    if inbound.kind == "direct":
        return binding.peer == inbound.sender.id
    if not target.thread:
        return binding.peer == target.to
    # A thread is written as its own id, or as people know it from session keys.
    return binding.peer in (
        target.thread,
        f"{target.to}:topic:{target.thread}",
        f"{target.to}:thread:{target.thread}",
    )


def _parent(binding: AgentBinding, inbound: Inbound) -> bool:
    """The chat around a thread."""
    target = inbound.target
    return (
        bool(target.thread) and inbound.kind != "direct" and binding.kind == inbound.kind and binding.peer == target.to
    )


# In order of precedence. A binding that fits and names a peer belongs to the first two only.
TIERS: dict[str, Tier] = {
    "peer": lambda b, m: bool(b.peer) and _peer(b, m),
    "parent peer": lambda b, m: bool(b.peer) and not _peer(b, m),
    "guild and roles": lambda b, m: not b.peer and bool(b.guild) and bool(b.roles),
    "guild": lambda b, m: not b.peer and bool(b.guild) and not b.roles,
    "team": lambda b, m: not b.peer and not b.guild and bool(b.team),
    "account": lambda b, m: not b.peer and not b.guild and not b.team and b.account != "*",
    "channel": lambda b, m: not b.peer and not b.guild and not b.team and b.account == "*",
}


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
