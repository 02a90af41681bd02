"""Which agent answers, and who is who across channels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.sections.bindings import AgentBinding
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.inbox.route import TIERS, bind_agent, resolve_identity
from support import inbound

# One binding per tier, each to an agent of its name, all of which fit MESSAGE.
LADDER = {
    "peer": AgentBinding("peer", "discord", "*", kind="channel", peer="thread9"),
    "parent": AgentBinding("parent", "discord", "*", kind="channel", peer="room1"),
    "roles": AgentBinding("roles", "discord", "*", guild="g1", roles=("admin", "mod")),
    "guild": AgentBinding("guild", "discord", "*", guild="g1"),
    "team": AgentBinding("team", "discord", "*", team="t1"),
    "account": AgentBinding("account", "discord", "bot2"),
    "channel": AgentBinding("channel", "discord", "*"),
}
AGENTS = {n: AgentSettings(n, n, "/w") for n in ("main", *LADDER)}


def message(**changes: Any) -> Inbound:
    base: dict[str, Any] = {
        "target": Target("discord", "room1", "bot2", "thread9"),
        "sender": Sender("7"),
        "kind": "channel",
        "guild": "g1",
        "team": "t1",
        "roles": ("mod",),
    }
    return inbound(**{**base, **changes})


def settings(*bindings: AgentBinding) -> Settings:
    return Settings("/h", AGENTS, "main", bindings=bindings)


def test_the_most_specific_binding_wins_whatever_the_order_of_the_file() -> None:
    order = list(LADDER)
    for n in range(len(order)):
        left = [LADDER[name] for name in order[n:]]
        assert bind_agent(message(), settings(*left)) == order[n]
        assert bind_agent(message(), settings(*reversed(left))) == order[n]
    assert bind_agent(message(), settings()) == "main"
    assert len(TIERS) == len(LADDER)


def test_in_one_tier_the_first_of_the_file_wins() -> None:
    one, two = AgentBinding("guild", "discord", "*"), AgentBinding("team", "discord", "*")
    assert bind_agent(message(), settings(one, two)) == "guild"
    assert bind_agent(message(), settings(two, one)) == "team"


@pytest.mark.parametrize(
    ("binding", "changes"),
    [
        (AgentBinding("peer", "telegram", "*"), {}),
        (AgentBinding("peer", "discord"), {}),  # the default account only
        (AgentBinding("peer", "discord", "*", kind="group", peer="room1"), {}),
        (AgentBinding("peer", "discord", "*", kind="channel", peer="other"), {}),
        (AgentBinding("peer", "discord", "*", kind="channel", peer="thread9", guild="g2"), {}),
        (AgentBinding("peer", "discord", "*", kind="channel", peer="room1", team="t2"), {}),
        (AgentBinding("peer", "discord", "*", guild="g1", roles=("admin",)), {}),
        (AgentBinding("peer", "discord", "*", guild="g1", team="t2"), {}),
        (AgentBinding("peer", "discord", "*", kind="direct", peer="room1"), {"kind": "direct"}),
        (AgentBinding("peer", "discord", "*", guild="g1"), {"guild": ""}),
        (AgentBinding("nobody", "discord", "*"), {}),  # an agent that is gone
    ],
)
def test_everything_a_binding_names_must_fit(binding: AgentBinding, changes: dict[str, Any]) -> None:
    assert bind_agent(message(**changes), settings(binding)) == "main"


def test_peers() -> None:
    direct = message(kind="direct", target=Target("discord", "dm5"))
    assert bind_agent(direct, settings(AgentBinding("peer", "discord", kind="direct", peer="7"))) == "peer"
    topic = message(target=Target("telegram", "-100", thread="5"), kind="group")
    for written in ("5", "-100:topic:5", "-100:thread:5"):
        assert bind_agent(topic, settings(AgentBinding("peer", "telegram", kind="group", peer=written))) == "peer"
    assert bind_agent(topic, settings(AgentBinding("parent", "telegram", kind="group", peer="-100"))) == "parent"


LINKS = {"telegram:123": "alice", "discord:abc": "alice", "77": "bob"}


@pytest.mark.parametrize(
    ("channel", "sender", "name"),
    [
        ("telegram", "123", "alice"),
        ("discord", "ABC", "alice"),
        ("discord", "123", "123"),
        ("signal", "77", "bob"),
        ("irc", "alice", "irc:alice"),  # nobody becomes alice by being called so
        ("irc", "carol", "carol"),
    ],
)
def test_identity(channel: str, sender: str, name: str) -> None:
    assert resolve_identity(message(target=Target(channel), sender=Sender(sender)), LINKS) == name
    assert resolve_identity(message(target=Target(channel), sender=Sender(sender)), {}) == sender


@given(st.sampled_from(["a", "b"]), st.text(max_size=6))
def test_only_linked_senders_get_a_linked_name(channel: str, sender: str) -> None:
    links = {"a:x": "alice", "b:y": "bob"}
    found = resolve_identity(message(target=Target(channel), sender=Sender(sender)), links)
    linked = f"{channel}:{sender.lower()}" in links
    assert (found in links.values()) == linked
