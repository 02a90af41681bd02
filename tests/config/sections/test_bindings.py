"""`bindings` and `session.identityLinks`: what is taken, what is refused and where."""

from __future__ import annotations

from typing import Any

import pytest

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.bindings import AgentBinding
from palinurus.config.sections.session import map_identity_links

AGENTS = ("main", "work")


def made(*raw: dict[str, Any], **config: Any) -> tuple[tuple[AgentBinding, ...], list[ConfigFinding]]:
    agents = {"list": [{"id": name} for name in AGENTS]}
    settings, findings = read_settings({"agents": agents, "bindings": list(raw), **config})
    return settings.bindings, findings


def test_everything_a_binding_can_say() -> None:
    full = {
        "agentId": "Work",
        "comment": "x",
        "match": {
            "channel": "Discord",
            "accountId": "bot",
            "peer": {"kind": "dm", "id": 42},
            "guildId": "g",
            "teamId": "t",
            "roles": ["a", 7],
        },
    }
    found, findings = made(full)
    assert findings == []
    assert found == (AgentBinding("work", "discord", "bot", "direct", "42", "g", "t", ("a", "7")),)


def test_a_word_that_narrows_nothing_is_told() -> None:
    """The binding fits every chat of the channel then: its messages reach another agent than was meant."""
    found, findings = made({"agentId": "work", "match": {"channel": "irc", "pier": {"kind": "dm", "id": "4"}}})
    assert found[0].peer == "" and [(one.path[-1], one.fatal) for one in findings] == [("pier", False)]


def test_a_channel_that_there_is_not_is_told() -> None:
    _, findings = made({"agentId": "work", "match": {"channel": "telegrm"}})
    assert [(one.path[-1], one.hint, one.fatal) for one in findings] == [("channel", "did you mean 'telegram'?", False)]


def test_no_account_means_the_channel_s_own() -> None:
    bare = {"agentId": "work", "match": {"channel": "telegram"}}
    assert made(bare)[0][0].account == "default"
    assert made(bare, channels={"telegram": {"defaultAccount": "two"}})[0][0].account == "two"
    assert made()[0] == ()


@pytest.mark.parametrize(
    ("raw", "path", "fatal"),
    [
        ({"agentId": "wrok", "match": {"channel": "x"}}, ("bindings", 0, "agentId"), True),
        ({"match": {"channel": "x"}}, ("bindings", 0, "agentId"), True),
        ({"agentId": "work"}, ("bindings", 0, "match"), True),
        ({"agentId": "work", "match": {}}, ("bindings", 0, "match"), True),
        ({"agentId": "work", "match": {"channel": "x", "peer": {"id": "1"}}}, ("bindings", 0, "match", "peer"), True),
        ({"agentId": "work", "match": {"channel": "x", "peer": "1"}}, ("bindings", 0, "match", "peer"), True),
        ({"type": "acp", "agentId": "work", "match": {"channel": "x"}}, ("bindings", 0, "type"), False),
    ],
)
def test_a_binding_that_cannot_be_used_is_not_passed_over_in_silence(
    raw: dict[str, Any], path: tuple[str | int, ...], fatal: bool
) -> None:
    found, findings = made(raw)
    assert found == ()
    assert [(f.path, f.fatal) for f in findings] == [(path, fatal)]


def test_did_you_mean() -> None:
    assert "did you mean 'work'?" in made({"agentId": "wrok", "match": {"channel": "x"}})[1][0].hint


def test_links() -> None:
    assert map_identity_links({"alice": ["Telegram:123", " discord:Ab "], " ": ["x"], "bob": [""]}) == {
        "telegram:123": "alice",
        "discord:ab": "alice",
    }
