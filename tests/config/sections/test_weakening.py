"""Every row of the table: a config that is so is found, by its key; one that says nothing is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palinurus.config.load import judge_config
from palinurus.config.sections.weakening import WEAKENING, list_weaknesses
from palinurus.config.settings import Settings

LONG = "a long enough secret 1234567890"
PROXY = {"auth": {"mode": "trusted-proxy", "trustedProxy": {"userHeader": "x-user"}}, "trustedProxies": ["0.0.0.0/0"]}
HOOK = {"id": "m", "match": {"path": "m"}, "messageTemplate": "{{a}}", "allowUnsafeExternalContent": True}
TWO = {"fake": {"allowFrom": ["1", "2"]}}


def sandbox(**words: Any) -> dict[str, Any]:
    return {"agents": {"defaults": {"sandbox": words}}}


# One mistake each, with the key that must be named.
PLANTED: list[tuple[str, dict[str, Any]]] = [
    ("gateway.auth.mode", {"gateway": {"auth": {"mode": "none"}}}),
    ("gateway.bind", {"gateway": {"bind": "lan"}}),
    ("gateway.auth.token", {"gateway": {"auth": {"token": "hunter2"}}}),
    ("gateway.auth.password", {"gateway": {"auth": {"mode": "password", "password": "hunter2"}}}),
    ("gateway.auth.rateLimit", {"gateway": {"auth": {"rateLimit": {"exemptLoopback": True}}}}),
    ("gateway.auth.rateLimit", {"gateway": {"auth": {"rateLimit": {"maxAttempts": 100_000}}}}),
    ("gateway.trustedProxies", {"gateway": PROXY}),
    ("gateway.controlUi.allowedOrigins", {"gateway": {"controlUi": {"allowedOrigins": ["*"]}}}),
    ("gateway.tools.allow", {"gateway": {"tools": {"allow": ["exec"]}}}),
    ("channels.fake.dmPolicy", {"channels": {"fake": {"dmPolicy": "open", "allowFrom": ["*"]}}}),
    ("channels.fake.groupPolicy", {"channels": {"fake": {"groupPolicy": "open"}}}),
    ("channels.fake.groupPolicy", {"channels": {"fake": {"groups": {"-1": {"allowFrom": ["*"]}}}}}),
    ("channels.fake.allowBots", {"channels": {"fake": {"allowBots": True}}}),
    ("channels.fake.messagesPerMinute", {"channels": {"fake": {"messagesPerMinute": 10_000}}}),
    ("tools.trustFrom", {"channels": TWO, "tools": {"trustFrom": ["fake:*"]}}),
    ("tools.trustFrom", {"channels": TWO, "tools": {"trustFrom": ["fake:2"]}}),
    ("memory.allowFrom", {"channels": TWO, "memory": {"allowFrom": ["fake:group:-1"]}}),
    ("commands.allowFrom", {"channels": TWO, "commands": {"allowFrom": {"*": ["*"]}}}),
    ("session.dmScope", {"channels": TWO, "session": {"dmScope": "main"}}),
    ("session.dmScope", {"channels": TWO, "session": {"scope": "global"}}),
    ("tools.sessions.visibility", {"tools": {"sessions": {"visibility": "all"}}}),
    ("tools.agentToAgent.allow", {"tools": {"agentToAgent": {"enabled": True, "allow": ["*"]}}}),
    (
        "tools.message.crossContext.allowAcrossProviders",
        {"tools": {"message": {"crossContext": {"allowAcrossProviders": True}}}},
    ),
    ("agents.defaults.sandbox.contain (agent main)", sandbox(contain="off")),
    ("tools.exec (agent main)", {"tools": {"exec": {"security": "full", "ask": "off"}}}),
    ("tools.exec (agent main)", {"tools": {"exec": {"mode": "full"}}}),
    ("agents.defaults.elevatedDefault (agent main)", {"agents": {"defaults": {"elevatedDefault": "full"}}}),
    ("tools.elevated.allowFrom (agent main)", {"tools": {"elevated": {"allowFrom": {"fake": ["*"]}}}}),
    ("agents.defaults.sandbox.unixSockets (agent main)", sandbox(unixSockets=True)),
    ("agents.defaults.sandbox.connect (agent main)", sandbox(connect="any")),
    ("agents.defaults.sandbox.read (agent main)", sandbox(read=["/opt"])),
    ("agents.defaults.sandbox.limits (agent main)", sandbox(limits={"processes": 0})),
    ("agents.defaults.sandbox.docker (agent main)", sandbox(mode="all", docker={"capDrop": []})),
    (
        "tools.exec.applyPatch.workspaceOnly (agent main)",
        {"tools": {"exec": {"applyPatch": {"workspaceOnly": False}}}},
    ),
    (
        "tools.exec.applyPatch.workspaceOnly (agent a)",
        {"agents": {"list": [{"id": "a", "tools": {"exec": {"applyPatch": {"workspaceOnly": False}}}}]}},
    ),
    ("mcp.servers.fake.sslVerify", {"mcp": {"servers": {"fake": {"url": "https://a.example", "sslVerify": False}}}}),
    ("mcp.servers.x.sandbox", {"mcp": {"servers": {"x": {"command": "x", "sandbox": {"enabled": False}}}}}),
    ("tools.taint", {"tools": {"taint": {"enabled": False}}}),
    ("tools.taint", {"tools": {"taint": {"mode": "off"}}}),
    ("tools.taint.allow", {"tools": {"taint": {"allow": ["exec:network"]}}}),
    ("tools.taint (irc)", {"tools": {"taint": {"channels": {"irc": "off"}}}}),
    ("tools.web.fetch.allowPrivate", {"tools": {"web": {"fetch": {"allowPrivate": True}}}}),
    (
        "browser.ssrfPolicy.dangerouslyAllowPrivateNetwork",
        {"browser": {"ssrfPolicy": {"dangerouslyAllowPrivateNetwork": True}}},
    ),
    ("browser.noSandbox", {"browser": {"noSandbox": True}}),
    (
        "hooks.mappings.m.allowUnsafeExternalContent",
        {"hooks": {"enabled": True, "token": LONG, "mappings": [HOOK]}},
    ),
    ("hooks.token", {"hooks": {"enabled": True, "token": "hunter2"}}),
    ("hooks.allowRequestSessionKey", {"hooks": {"enabled": True, "token": LONG, "allowRequestSessionKey": True}}),
    ("logging.redactSensitive", {"logging": {"redactSensitive": "off"}}),
    (
        "agents.defaults.cliBackends.claude-cli",
        {"agents": {"defaults": {"cliBackends": {"claude-cli": {"permissionMode": "bypassPermissions"}}}}},
    ),
]


def settle(config: dict[str, Any]) -> Settings:
    found = judge_config(json.dumps(config), "f", "/h", {"HOME": "/h"}).settings
    assert found is not None
    return found


@pytest.mark.parametrize(("key", "config"), PLANTED)
def test_a_planted_mistake_is_found_and_told_with_a_way_out(key: str, config: dict[str, Any]) -> None:
    found = list_weaknesses(settle(config))
    assert key in [one.key for one in found], found
    assert all(one.what and one.fix and "{}" not in one.key + one.what for one in found)


# What people write who mean no harm: the defaults, one's own chat, a project's folder, a named host.
PLAIN: list[dict[str, Any]] = [
    {},
    {"channels": {"fake": {"allowFrom": ["1"]}}, "commands": {"ownerAllowFrom": ["fake:1"]}},
    {"channels": {"fake": {"dmPolicy": "pairing", "groups": {"-1": {"requireMention": True}}}}},
    {"gateway": {"bind": "lan", "tls": {"enabled": True}, "auth": {"token": LONG}}},
    {"hooks": {"enabled": True, "token": LONG}},
    {"tools": {"web": {"fetch": {"allowedHosts": ["nas.example.net"]}}, "taint": {"mode": "strict"}}},
    sandbox(mode="non-main", read=["/h/project"], connect=["default", 5432]),
    {"session": {"dmScope": "per-channel-peer"}, "channels": TWO, "memory": {"allowFrom": ["fake:2"]}},
]


@pytest.mark.parametrize("config", PLAIN)
def test_an_ordinary_config_has_none(config: dict[str, Any]) -> None:
    assert list_weaknesses(settle(config)) == ()


def test_every_row_has_a_planted_mistake() -> None:
    """The table and this file know the same keys."""
    planted = {key.replace("fake", "{}").replace("main)", "{})").replace("irc)", "{})") for key, _ in PLANTED}
    named = {row.key for row in WEAKENING}
    rest = {"mcp.servers.{}.sandbox", "hooks.mappings.{}.allowUnsafeExternalContent", "agents.defaults.cliBackends.{}"}
    assert named - rest <= planted and len(named) >= 20
