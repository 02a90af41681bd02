"""One odd value costs one thing: the config is loaded without it, and where it guarded something it is closed."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_keys import build_shapes, read_documented
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.edit import put_value
from palinurus.config.keypath import parse_path
from palinurus.config.load import judge_config, load_config
from palinurus.config.settings import Settings
from palinurus.core.policy.layers import ChatPlace
from palinurus.errors import Problem

ENV = {"HOME": "/nowhere", "SET": "a-value"}


def read(raw: Any, good: Any = None) -> tuple[Settings, dict[str, Problem]]:
    found = judge_config(json.dumps(raw), "f", "/h", ENV, good=good)
    assert found.settings is not None
    return found.settings, {problem.path: problem for problem in found.problems if problem.fatal}


def test_a_value_of_the_wrong_kind_leaves_its_default_and_everything_else() -> None:
    settings, problems = read({"gateway": {"port": {}, "bind": "lan"}, "session": {"mainKey": "home"}})
    assert (settings.gateway.port, settings.gateway.bind, settings.session.main_key) == (18789, "0.0.0.0", "home")
    assert list(problems) == ["gateway.port"]


@pytest.mark.parametrize(
    ("written", "read_as"), [("81", 81), (" 81 ", 81), ("eighty", 18789), ("8_1", 18789), (True, 18789), (0.5, 18789)]
)
def test_what_was_certainly_meant_is_used(written: Any, read_as: int) -> None:
    settings, problems = read({"gateway": {"port": written}})
    assert settings.gateway.port == read_as
    assert list(problems) == ["gateway.port"]


@pytest.mark.parametrize(
    ("path", "written", "find", "meant"),
    [
        ("agents.defaults.thinkingDefault", False, lambda s: s.agents["main"].thinking_shared, "off"),
        ("agents.defaults.verboseDefault", True, lambda s: s.agents["main"].verbose_default, "on"),
        ("session.learning.nightly", "true", lambda s: s.session.learning.nightly, True),
        ("ui.terminal.bell", " False", lambda s: s.gateway.look.terminal.bell, False),
        ("agents.defaults.compaction.notifyUser", "true", lambda s: s.compaction.notify, True),
        ("channels.irc.historyLimit", "7", lambda s: s.account("irc", "default").history, 7),
        ("channels.irc.accounts.a.mediaMaxMb", "3", lambda s: s.account("irc", "a").media, 3 << 20),
        ("tools.web.fetch.maxChars", "500", lambda s: s.web.fetch.chars, 500),
        ("mcp.sessionIdleTtlMs", " 2000 ", lambda s: s.mcp.idle, 2.0),
        # "on" for true is no certain thing, and what guards something is not opened by a guess
        ("session.learning.nightly", "on", lambda s: s.session.learning.nightly, False),
        ("tools.exec.ask", False, lambda s: s.approvals["main"].exec.ask, "always"),
        ("agents.defaults.sandbox.mode", False, lambda s: s.agents["main"].sandbox.mode, "all"),
    ],
)
def test_what_was_meant_is_used_wherever_it_stands(path: str, written: Any, find: Any, meant: Any) -> None:
    key = parse_path(path)
    raw = put_value({"channels": {"irc": {"host": "h"}}}, key, written)
    found = judge_config(json.dumps(raw), "f", "/h", {})
    assert found.settings is not None and find(found.settings) == meant
    assert path in {problem.path for problem in found.problems}


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("agents.defaults.compaction.maxActiveTranscriptBytes", "lots"),
        ("agents.defaults.promptOverlays.gpt5.personality", "frendly"),
        ("tools.media.audio.timeoutSeconds", -1),
        ("tools.media.audio.models[0].timeoutSeconds", 10**6),
        ("mcp.servers.a.timeout", -1),
        ("channels.irc.groups.#a.systemPrompt", {"text": "x"}),
    ],
)
def test_what_says_nothing_is_told(path: str, written: Any) -> None:
    beside = {"mcp": {"servers": {"a": {"url": "https://a.example"}}}} if path.startswith("mcp") else {}
    found = judge_config(json.dumps(put_value(beside, parse_path(path), written)), "f", "/h", {})
    assert path in {problem.path for problem in found.problems}


def test_one_name_where_a_list_belongs() -> None:
    settings, problems = read({"tools": {"deny": "exec"}})
    assert settings.policy.shared.own.deny == ("exec",)
    assert list(problems) == ["tools.deny"]


POLICY = {
    "tools.deny": ({"exec": 1}, lambda s: s.policy.shared.own.deny, ("*",)),
    "tools.allow": ({}, lambda s: s.policy.shared.own.allow, ()),
    "tools.profile": ("codng", lambda s: s.policy.shared.own.profile, "minimal"),
    "tools": ("none", lambda s: s.policy.shared.own.deny, ("*",)),
    "tools.exec.security": ("no", lambda s: s.approvals["main"].exec.security, "deny"),
    "tools.elevated.enabled": ("no", lambda s: s.approvals["main"].elevated, False),
    "tools.fs.workspaceOnly": ("y", lambda s: s.tools.workspace_only, True),
    "agents.defaults.sandbox.mode": ("al", lambda s: s.agents["main"].sandbox.mode, "all"),
    "agents.defaults.sandbox": ("all", lambda s: s.agents["main"].sandbox.mode, "all"),
    "agents.entries.a.tools": (5, lambda s: s.policy.agents["a"].own.deny, ("*",)),
    "session.sendPolicy.rules[0]": ({}, lambda s: s.session.send_policy.allows("agent:a:b", "irc", "direct"), False),
    "gateway.tls.enabled": ("on", lambda s: s.gateway.tls.enabled, True),
    "gateway.controlUi.enabled": (0, lambda s: s.gateway.page, False),
    "gateway.tools.deny": (1.5, lambda s: s.gateway.tools.deny, ("*",)),
    "gateway.auth.mode": ("non", lambda s: s.gateway.auth_mode, "token"),
    "hooks.allowedAgentIds": ({}, lambda s: s.webhooks.enabled, False),
    "plugins.allow": ({}, lambda s: s.plugins.on, False),
    "channels.telegram.dmPolicy": ("all", lambda s: s.account("telegram", "default").dm, "pairing"),
    "channels.irc.groupPolicy": ("yes", lambda s: s.account("irc", "default").group, "allowlist"),
    "channels.irc.enabled": ("no", lambda s: "irc" in s.channels, False),
    "channels.irc.accounts.a.enabled": (0, lambda s: "a" in s.accounts["irc"], False),
    "channels.irc.groups": (["#a"], lambda s: s.account("irc", "default").groups["*"].enabled, False),
    "channels.irc.groups.#a": ("off", lambda s: s.account("irc", "default").groups["#a"].enabled, False),
    "channels.irc.groups.#a.enabled": ("no", lambda s: s.account("irc", "default").groups["#a"].enabled, False),
    "channels.irc.groups.#a.groupPolicy": ("n", lambda s: s.account("irc", "default").groups["#a"].policy, "disabled"),
    "channels.irc.groups.#a.tools": ("none", lambda s: s.policy.chats[ChatPlace("irc", chat="#a")].own.deny, ("*",)),
    "channels.irc.configWrites": ("no", lambda s: s.account("irc", "default").writes, False),
    "channels.irc.contextVisibility": ("alow", lambda s: s.account("irc", "default").visibility, "allowlist"),
    "channels.irc.actions": ("none", lambda s: s.account("irc", "default").actions["search"], False),
    "channels.irc.actions.search": ("no", lambda s: s.account("irc", "default").actions["search"], False),
    "channels.irc.dm": (False, lambda s: s.account("irc", "default").dm, "disabled"),
    "channels.discord.guilds.7.users": (
        {},
        lambda s: s.account("discord", "default").groups["guild:7"].allow_from,
        (),
    ),
    "tools.exec": ("deny", lambda s: s.approvals["main"].exec.security, "deny"),
    "tools.message.crossContext.allowWithinProvider": ("no", lambda s: s.messaging.within, False),
    "tools.taint.mode": ("strikt", lambda s: s.tools.taint.mode, "strict"),
    "tools.taint.channels.irc": ("strikt", lambda s: s.tools.taint.channels["irc"], "strict"),
    "agents.list": ({"a": {"tools": {}}}, lambda s: s.policy.agents["main"].own.deny, ("*",)),
    "agents.defaults": ("none", lambda s: s.agents["main"].sandbox.mode, "all"),
    "agents.defaults.permissionMode": ("aks", lambda s: s.agents["main"].permission_mode, "ask"),
    "agents.defaults.skills": ({}, lambda s: s.agents["main"].skills, ()),
    "commands.allowFrom": ("ann", lambda s: s.people.commands, {}),
    "gateway.tls": (True, lambda s: s.gateway.tls.enabled, True),
    "gateway.controlUi": (False, lambda s: s.gateway.page, False),
    "gateway.http.endpoints.responses.enabled": ("no", lambda s: s.gateway.responses, False),
    "mcp.servers.a.trustHints": ("never", lambda s: s.mcp.servers["a"].hints, False),
    "browser.enabled": ("never", lambda s: s.browser.enabled, False),
    "canvasHost.enabled": (0, lambda s: s.canvas.enabled, False),
    "diagnostics.cacheTrace.includeSystem": ("n", lambda s: s.diagnostics.cache_trace.system, False),
    "mcp.servers.a.disabled": ("yes", lambda s: s.mcp.servers["a"].enabled, False),
    "mcp.servers.a.toolFilter.exclude": ("x", lambda s: s.mcp.servers["a"].offers("x"), False),
    "plugins.entries.a.enabled": ("no", lambda s: s.plugins.entries["a"].enabled, False),
    "hooks.internal.enabled": ("no", lambda s: s.scripts.on, False),
    "skills.entries.a.enabled": ("no", lambda s: s.skills.entries["a"].enabled, False),
    "skills.allowBundled": ({}, lambda s: s.skills.bundled, ()),
    "diagnostics.enabled": ("no", lambda s: s.diagnostics.enabled, False),
    "tools.media.audio.enabled": ("no", lambda s: s.audio.ways, ()),
    "tools.media.audio.scope.default": ("den", lambda s: s.audio.scope.default, "deny"),
    "tools.web.fetch.enabled": ("no", lambda s: s.web.fetch.enabled, False),
    "agents.defaults.memorySearch.enabled": ("no", lambda s: s.agents["main"].memory.enabled, False),
    "budgets.day.hardUsd": ("five", lambda s: s.budgets.day.hard_usd, 0),
    "models.providers.openai.baseUrl": ([], lambda s: s.providers["openai"].base_url, "unreadable"),
}


@pytest.mark.parametrize("path", POLICY)
def test_what_guards_something_is_closed(path: str) -> None:
    value, find, closed = POLICY[path]
    beside = {"mcp": {"servers": {"a": {"url": "https://a.example"}}}} if path.startswith("mcp") else {}
    settings, problems = read(put_value(beside, parse_path(path), value))
    assert find(settings) == closed
    assert path in problems


@pytest.mark.parametrize("price", ["maybe", {}, [1]])
def test_an_unknown_price_of_a_model_stops_nothing(price: Any) -> None:
    """The key was told, and then read."""
    model = {"id": "m", "cost": {"inputs": price, "output": 2}}
    settings, _ = read({"models": {"providers": {"p": {"baseUrl": "https://a.example/v1", "models": [model]}}}})
    assert settings.providers["p"].models[0].cost == {"output": 2.0}


def test_an_unknown_key_is_told_and_not_read() -> None:
    settings, _ = read({"session": {"resetByType": {"directs": "daily", "group": {"mode": "idle"}}}})
    assert settings.session.reset_by_type == {"group": {"mode": "idle"}}


def test_a_section_that_was_right_once_may_be_wrong_now() -> None:
    settings, problems = read({"channels": []}, good={"channels": {"irc": {"host": "h"}}})
    assert set(settings.channels) == {"irc"} and list(problems) == ["channels"]


def test_an_agent_with_an_odd_id_keeps_its_rules() -> None:
    settings, _ = read({"agents": {"list": [{"id": "a b", "tools": {"deny": ["exec"]}}, {"id": "b"}]}})
    assert settings.default_agent == "agent1" and settings.policy.agents["agent1"].own.deny == ("exec",)


def test_one_bad_item_closes_a_list_that_guards() -> None:
    settings, problems = read({"tools": {"deny": ["exec", {}]}})
    assert settings.policy.shared.own.deny == ("*",) and list(problems) == ["tools.deny[1]"]


def test_nobody_comes_in_without_proof_from_elsewhere() -> None:
    settings, problems = read({"gateway": {"bind": "lan", "auth": {"mode": "none"}}})
    assert settings.gateway.auth_mode == "token" and list(problems) == ["gateway.auth.mode"]


def test_what_is_closed_says_so() -> None:
    _, problems = read({"tools": {"profile": "codng", "elevated": {"allowFrom": 1}}})
    assert problems["tools.profile"].hint == "did you mean 'coding'?; until then it counts as \"minimal\""
    assert 'until then tools.elevated counts as {"enabled":false}' in problems["tools.elevated.allowFrom"].hint


def test_a_value_stays_as_it_was_while_its_edit_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "palinurus.json"
    file.write_text("{gateway: {port: 4242}, session: {mainKey: '${SET}'}}")
    load_config(str(tmp_path), ENV)
    file.write_text("{gateway: {port: []}, session: {mainKey: [], scope: 'global'}}")
    loaded = load_config(str(tmp_path), ENV)
    assert (loaded.settings.gateway.port, loaded.settings.session.main_key) == (4242, "a-value")
    assert loaded.settings.session.scope == "global" and not loaded.fallback
    assert {problem.hint.partition("; ")[2] or problem.hint for problem in loaded.problems} >= {
        "until then it stays as it was"
    }
    assert "4242" in (tmp_path / "palinurus.json.last-good").read_text()


def test_a_binding_that_leads_nowhere_takes_its_channel_off() -> None:
    raw = {
        "channels": {"irc": {"host": "h"}, "telegram": {"botToken": "t"}},
        "bindings": [{"agentId": "mian", "match": {"channel": "telegram"}}],
    }
    settings, problems = read(raw)
    assert set(settings.channels) == set(settings.accounts) == {"irc"}
    assert "until then telegram is off" in problems["bindings[0].agentId"].hint


def test_a_missing_variable_is_asked_for_only_where_something_is_on() -> None:
    telegram = {"botToken": "${MISSING}", "accounts": {"b": {"enabled": False, "botToken": "${ALSO}"}}}
    _, problems = read({"channels": {"telegram": {**telegram, "enabled": False}}})
    assert not problems
    settings, problems = read({"channels": {"telegram": telegram, "irc": {"host": "x${MISSING}"}}})
    assert list(problems) == ["channels.telegram.botToken", "channels.irc.host"]
    assert settings.channels["irc"]["host"] == ""  # half an address would be another one


@pytest.mark.parametrize(
    "section",
    [
        {"historyLimit": 0, "dmHistoryLimit": 0},
        {"streaming": "progress", "replyToMode": "batched"},
        {"streaming": {"mode": "progress"}},
        {"streaming": True, "replyToMode": 7},
        {"streaming": "sometimes", "replyToMode": "maybe", "dmPolicy": [], "groupPolicy": None},
    ],
)
def test_a_channel_with_an_odd_word_loads(section: dict[str, Any]) -> None:
    settings, _ = read({"channels": {"discord": {"token": "t", **section}, "irc": {"host": "h"}}})
    assert set(settings.accounts) == {"discord", "irc"}


def test_everything_that_is_documented_loads() -> None:
    assert len(read_documented()) > 950
    for raw in build_shapes():
        found = judge_config(json.dumps(raw), "f", "/h", ENV)
        assert found.settings is not None
        assert not [str(problem) for problem in found.problems if problem.fatal]


# Everything that can be written, broken in every way that somebody can think of.

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**30, float("inf"), "", "x", "${NOPE}", "${SET}", "true", "12", [], {}, [None],
    ["a", 1, {}], {"a": 1}, {"enabled": "maybe"}, {"source": "env", "id": 5}, "a" * 3000, [[[[[]]]]],
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (object or list, key) of a value."""
    for key, below in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(below, dict | list):
            yield from places(below)


def mutate(raw: Any, dice: random.Random) -> Any:
    """The config with one to six values replaced, removed, doubled or misspelled."""
    made = copy.deepcopy(raw)
    for _ in range(dice.randint(1, 6)):
        around, key = dice.choice(list(places(made)) or [(made, "x")])
        what = dice.random()
        if what < 0.7:
            around[key] = copy.deepcopy(dice.choice(ODD))
        elif what < 0.8 and isinstance(around, dict):
            around.pop(key, None)
        elif what < 0.9 and isinstance(around, dict):
            around[f"{key}x"] = around.get(key)
        elif isinstance(around, list):
            around.append(copy.deepcopy(around[key]))
        made = made if isinstance(made, dict) and made else {"x": 1}
    return made


def check_mutations(count: int, seed: int, home: Path) -> None:
    dice = random.Random(seed)
    bodies = [body for body in build_shapes() if body]
    for number in range(count):
        raw = mutate(dice.choice(bodies), dice)
        found = judge_config(json.dumps(raw), "f", str(home), ENV)
        assert found.settings is not None, (seed, number, raw)
        assert found.settings.default_agent in found.settings.agents


async def check_starts(count: int, seed: int, home: Path) -> None:
    """Put the program together with mutated configs: everything but what goes over the network."""
    dice = random.Random(seed)
    bodies = [body for body in build_shapes() if body]
    for number in range(count):
        own = home / str(number)
        own.mkdir()
        raw = mutate(dice.choice(bodies), dice)
        found = judge_config(json.dumps(raw), "f", str(own), {**ENV, "HOME": str(own)})
        assert found.settings is not None
        app = App(found.settings, {"HOME": str(own), "PATH": "/bin"}, SystemClock())
        try:
            await app.open()
        except Exception as exc:
            raise AssertionError((seed, number, raw)) from exc
        finally:
            await app.stop()


def test_mutated_configs_always_load(tmp_path: Path) -> None:
    check_mutations(300, 18, tmp_path)


async def test_the_program_comes_up_with_mutated_configs(tmp_path: Path) -> None:
    await check_starts(15, 18, tmp_path)


@pytest.mark.parametrize("odd", ["x", 7, [], True])
def test_odd_names_of_voices_load(odd: object) -> None:
    assert judge_config(json.dumps({"talk": {"providers": {"a": {"voiceAliases": odd}}}}), "f", "/h", ENV).settings


async def test_a_value_that_a_channel_refuses_costs_that_channel_alone(tmp_path: Path) -> None:
    channels = {"telegram": {"botToken": "1:a", "proxy": "x"}, "spool": {"dir": "~/spool"}}
    found = judge_config(json.dumps({"channels": channels}), "f", str(tmp_path), ENV)
    assert found.settings is not None
    app = App(found.settings, {}, SystemClock())
    try:
        await app.open()
        assert set(app.channels) == {"spool"}
    finally:
        await app.stop()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
async def test_ten_thousand_mutated_configs_always_load(seed: int, tmp_path: Path) -> None:
    check_mutations(1000, seed, tmp_path)
    await check_starts(100, seed, tmp_path)
