"""Which agent and session a message goes to."""

from __future__ import annotations

import pytest

from palinurus.config.sections.bindings import AgentBinding
from palinurus.config.sections.session import SessionSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.inbound import Route, Sender, Target
from palinurus.inbox.route import route_inbound
from support import inbound

AGENTS = {n: AgentSettings(n, n, "/w") for n in ("main", "work")}


def settings(dm_scope: str = "main") -> Settings:
    return Settings("/h", AGENTS, "main", session=SessionSettings(dm_scope=dm_scope))


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("main", "agent:main:main"),
        ("per-peer", "agent:main:direct:7"),
        ("per-channel-peer", "agent:main:telegram:direct:7"),
        ("per-account-channel-peer", "agent:main:telegram:bot2:direct:7"),
    ],
)
def test_direct_messages_by_scope(scope: str, key: str) -> None:
    message = inbound(target=Target("telegram", "7", "bot2"), sender=Sender("7"))
    found = route_inbound(message, settings(scope))
    assert isinstance(found, Route) and str(found.key) == key and found.lane == "main"


def test_groups_and_threads_have_their_own_session() -> None:
    message = inbound(target=Target("telegram", "-100", thread="5"), kind="group")
    found = route_inbound(message, settings())
    assert isinstance(found, Route) and str(found.key) == "agent:main:telegram:group:-100:thread:5"


def test_a_peer_id_cannot_reach_into_another_session() -> None:
    message = inbound(target=Target("x", "y"), sender=Sender("1:direct:2"))
    found = route_inbound(message, settings("per-channel-peer"))
    assert isinstance(found, Route) and str(found.key) != "agent:main:x:direct:1:direct:2"


def test_explicit_sessions_and_agents() -> None:
    found = route_inbound(inbound(session="agent:work:notes"), settings())
    assert isinstance(found, Route) and found.agent == "work"
    found = route_inbound(inbound(agent="work"), settings())
    assert isinstance(found, Route) and str(found.key) == "agent:work:main"
    assert "unknown agent 'nobody'" in str(route_inbound(inbound(agent="nobody"), settings()))
    assert "unknown agent 'nobody'" in str(route_inbound(inbound(session="agent:nobody:main"), settings()))
    assert "not a session key" in str(route_inbound(inbound(session="../etc"), settings()))


@pytest.mark.seed(371)
def test_bindings_choose_the_agent_of_a_message_that_names_none() -> None:
    bound = Settings("/h", AGENTS, "main", bindings=(AgentBinding("work", "telegram", "*"),))
    found = route_inbound(inbound(target=Target("telegram", "7")), bound)
    assert isinstance(found, Route) and str(found.key) == "agent:work:main"
    found = route_inbound(inbound(target=Target("telegram", "7"), agent="main"), bound)
    assert isinstance(found, Route) and found.agent == "main"
    found = route_inbound(inbound(target=Target("fake", "7")), bound)
    assert isinstance(found, Route) and found.agent == "main"


def test_one_person_on_two_channels_has_one_session() -> None:
    links = {"telegram:7": "ann", "fake:8": "ann"}
    linked = Settings("/h", AGENTS, "main", session=SessionSettings(dm_scope="per-peer", identity_links=links))
    keys = {
        str(found.key)
        for channel, sender in (("telegram", "7"), ("fake", "8"))
        if isinstance(
            found := route_inbound(inbound(target=Target(channel, sender), sender=Sender(sender)), linked), Route
        )
    }
    assert keys == {"agent:main:direct:ann"}
