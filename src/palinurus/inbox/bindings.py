"""Which agent a message goes to, and who its sender is across channels. Pure; reads settings, decides no session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from palinurus.config.settings import AgentBinding, Settings
from palinurus.core.types.inbound import Inbound

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
