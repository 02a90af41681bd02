from typing import Any

import pytest

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.agents import UNLIMITED
from palinurus.config.settings import LaneSettings, Settings

ENV = {"HOME": "/u"}


def made(raw: dict[str, Any], findings: list[ConfigFinding] | None = None) -> Settings:
    own: list[ConfigFinding] = []
    settings, told = read_settings(raw, ENV)
    (own if findings is None else findings).extend(told)
    assert findings is not None or own == []
    return settings


def found(raw: dict[str, Any]) -> list[tuple[tuple[str | int, ...], bool]]:
    findings: list[ConfigFinding] = []
    made(raw, findings)
    return [(finding.path, finding.fatal) for finding in findings]


def test_nothing_configured() -> None:
    settings = made({})
    assert list(settings.agents) == ["main"]
    assert settings.agents["main"].workspace == "/s/workspace"
    assert settings.agents["main"].model == ""
    assert settings.lanes == LaneSettings()
    assert settings.version == "v"


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], "main"),
        ([{"id": "a"}, {"id": "b"}], "a"),
        ([{"id": "a"}, {"id": "b", "default": True}], "b"),
        ([{"id": "Work"}], "work"),
    ],
)
def test_default_agent(listed: list[dict[str, Any]], expected: str) -> None:
    settings = made({"agents": {"list": listed}})
    assert settings.default_agent == expected
    assert expected in settings.agents


def test_two_defaults_warn_and_the_first_one_wins() -> None:
    raw = {"agents": {"list": [{"id": "a", "default": True}, {"id": "b", "default": True}]}}
    assert found(raw) == [(("agents", "list", 1, "default"), False)]
    assert made(raw, []).default_agent == "a"


def test_entries_by_id_are_the_newer_spelling() -> None:
    settings = made({"agents": {"entries": {"home": {}, "work": {"name": "W"}}}})
    assert list(settings.agents) == ["home", "work"]
    assert settings.agents["work"].name == "W"


@pytest.mark.parametrize("bad", ["", "a b", "../x", "ä", "x" * 65, "-a"])
def test_bad_agent_ids(bad: str) -> None:
    assert found({"agents": {"list": [{"id": bad}]}}) == [(("agents", "list", 0, "id"), True)]


def test_workspaces() -> None:
    settings = made(
        {
            "agents": {
                "defaults": {"workspace": "~/w"},
                "list": [
                    {"id": "a"},
                    {"id": "b"},
                    {"id": "c", "workspace": "rel/../x"},
                    {"id": "d", "workspace": "/abs"},
                ],
            }
        }
    )
    assert {key: agent.workspace for key, agent in settings.agents.items()} == {
        "a": "/u/w",
        "b": "/u/w/b",
        "c": "/s/x",
        "d": "/abs",
    }
    assert made({"agents": {"list": [{"id": "a"}, {"id": "b"}]}}).agents["b"].workspace == "/s/workspace-b"


@pytest.mark.parametrize(
    ("shared", "own", "expected"),
    [
        ("p/a", None, ("p/a", ())),
        ({"primary": "p/a", "fallbacks": ["p/b"]}, None, ("p/a", ("p/b",))),
        ({"primary": "p/a", "fallbacks": ["p/b"]}, "p/c", ("p/c", ())),
        ({"primary": "p/a", "fallbacks": ["p/b"]}, {"primary": "p/c", "fallbacks": ["p/d"]}, ("p/c", ("p/d",))),
        ({"primary": "p/a", "fallbacks": ["p/b"]}, {"fallbacks": []}, ("p/a", ())),
        ({"primary": "p/a", "fallbacks": ["p/b"]}, {}, ("p/a", ("p/b",))),
    ],
)
def test_model_choice(shared: Any, own: Any, expected: tuple[str, tuple[str, ...]]) -> None:
    agent = made({"agents": {"defaults": {"model": shared}, "list": [{"id": "a", "model": own}]}}).agents["a"]
    assert (agent.model, agent.fallbacks) == expected


def test_an_agent_overlays_the_defaults() -> None:
    settings = made(
        {
            "agents": {
                "defaults": {
                    "models": {"p/m": {"alias": " fast ", "params": {"a": 1, "b": 1}}, "p/n": {}},
                    "params": {"t": 1},
                    "thinkingDefault": "low",
                    "fastModeDefault": True,
                    "timeoutSeconds": 60,
                    "contextTokens": 5,
                    "userTimezone": "Europe/Berlin",
                    "skipBootstrap": True,
                },
                "list": [
                    {"id": "a"},
                    {
                        "id": "b",
                        "thinkingDefault": "high",
                        "fastModeDefault": False,
                        "params": {"b": 2},
                        "models": {"q/x": {"alias": "qx"}},
                        "contextTokens": 7,
                        "identity": {"name": "Bee", "emoji": "b"},
                    },
                ],
            }
        }
    )
    a, b = settings.agents["a"], settings.agents["b"]
    assert (a.thinking_shared, a.fast_default, a.context_tokens, a.timeout, a.name) == ("low", True, 5, 60.0, "a")
    assert (b.thinking_default, b.fast_default, b.context_tokens, b.timeout, b.name) == ("high", False, 7, 60.0, "Bee")
    assert a.aliases == {"fast": "p/m"}
    assert b.aliases == {"fast": "p/m", "qx": "q/x"}
    assert a.model_params == {"p/m": {"a": 1, "b": 1}}
    assert b.model_params == {"p/m": {"a": 1, "b": 2}}
    assert (a.params, b.params) == ({"t": 1}, {"t": 1, "b": 2})
    assert b.identity == {"name": "Bee", "emoji": "b"}
    assert a.user_timezone == "Europe/Berlin"
    assert a.skip_bootstrap


def test_no_time_limit() -> None:
    settings = made({"agents": {"defaults": {"timeoutSeconds": 0}}, "tools": {"exec": {"timeoutSec": 0}}})
    assert settings.agents["main"].timeout == UNLIMITED
    assert settings.tools.exec.timeout == UNLIMITED


def test_providers() -> None:
    model = {
        "id": "m",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 1, "cacheRead": 0.5},
        "contextWindow": 1000,
        "compat": {"supportsStore": False},
    }
    settings = made(
        {
            "models": {
                "providers": {
                    "p": {
                        "baseUrl": "http://x/v1/",
                        "api": "openai-completions",
                        "apiKey": "k",
                        "models": [model],
                        "timeoutSeconds": 9,
                    },
                    "q": {"headers": {"A": "b"}, "maxTokens": 3, "models": [{"id": "n"}]},
                }
            }
        }
    )
    p, q = settings.providers["p"], settings.providers["q"]
    assert (p.base_url, p.api, p.api_key.reveal(), p.timeout) == ("http://x/v1", "openai-completions", "k", 9.0)
    assert p.models[0].cost == {"input": 1.0, "cacheRead": 0.5}
    assert (p.models[0].context_window, p.models[0].reasoning, p.models[0].input) == (1000, False, ("text",))
    assert (q.headers, q.models[0].max_tokens, q.models[0].cost, q.models[0].input) == ({"A": "b"}, 3, None, None)


def test_provider_findings() -> None:
    assert found({"models": {"providers": {"a b": {}}}}) == [(("models", "providers", "a b"), True)]
    assert found({"models": {"providers": {"p": {"baseUrl": "ftp://x"}}}}) == [
        (("models", "providers", "p", "baseUrl"), True)
    ]
    twice = {"models": {"providers": {"p": {"models": [{"id": "m"}, {"id": "m"}]}}}}
    assert found(twice) == [(("models", "providers", "p", "models", 1, "id"), False)]


def test_tools() -> None:
    tools = made(
        {
            "tools": {
                "fs": {"workspaceOnly": True},
                "exec": {"timeoutSeconds": 5, "env": {"A": "b"}},
                "loopDetection": {"warningThreshold": 10, "criticalThreshold": 20},
            }
        }
    ).tools
    assert tools.workspace_only
    assert (tools.exec.timeout, tools.exec.env) == (5.0, {"A": "b"})
    assert (tools.loops.warn, tools.loops.stop) == (10, 20)


def test_loop_detection_off_and_odd() -> None:
    tools = made({"tools": {"loopDetection": {"enabled": False}}}).tools
    assert not tools.loops.enabled
    assert made({"tools": {"loopDetection": {"warningThreshold": 9}}}).tools.loops.stop == 18
    path = ("tools", "loopDetection", "criticalThreshold")
    assert found({"tools": {"loopDetection": {"warningThreshold": 5, "criticalThreshold": 5}}}) == [(path, True)]


def test_lanes() -> None:
    raw = {
        "agents": {"defaults": {"maxConcurrent": 2, "subagents": {"maxConcurrent": 3}}},
        "cron": {"maxConcurrentRuns": 5},
        "messages": {"queue": {"cap": 7}},
    }
    assert made(raw).lanes == LaneSettings(2, 3, 5, 7)


def test_sessions() -> None:
    session = made(
        {
            "session": {
                "scope": "global",
                "dmScope": "per-peer",
                "mainKey": " ",
                "reset": {"mode": "daily", "atHour": 0},
                "resetByType": {"dm": {"mode": "idle", "idleMinutes": 3}},
                "resetByChannel": {"telegram": {"mode": "daily"}},
            }
        }
    ).session
    assert (session.scope, session.dm_scope, session.main_key) == ("global", "per-peer", "main")
    assert session.reset == {"mode": "daily", "atHour": 0}
    assert session.reset_by_type == {"direct": {"mode": "idle", "idleMinutes": 3}}
    assert session.reset_by_channel == {"telegram": {"mode": "daily"}}
    assert made({"session": {"idleMinutes": 5}}).session.reset == {"mode": "idle", "idleMinutes": 5}


def test_channels_that_are_switched_off_are_left_out() -> None:
    channels = {
        "defaults": {"x": 1},
        "telegram": {"botToken": "t"},
        "slack": {"enabled": False},
        "irc": {"enabled": True},
    }
    settings = made({"channels": channels})
    assert list(settings.channels) == ["telegram", "irc"]
    assert settings.channels["telegram"]["botToken"].reveal() == "t"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"agents": {"defaults": {"heartbeat": {"every": "x"}}}}, ("agents", "defaults", "heartbeat", "every")),
        (
            {"agents": {"list": [{"id": "a", "heartbeat": {"every": "1y"}}]}},
            ("agents", "list", 0, "heartbeat", "every"),
        ),
        (
            {"agents": {"entries": {"a": {"heartbeat": {"every": "1y"}}}}},
            ("agents", "entries", "a", "heartbeat", "every"),
        ),
        (
            {"agents": {"defaults": {"heartbeat": {"activeHours": {"start": "24:00"}}}}},
            ("agents", "defaults", "heartbeat", "activeHours", "start"),
        ),
        (
            {"agents": {"defaults": {"heartbeat": {"activeHours": {"end": "8:00"}}}}},
            ("agents", "defaults", "heartbeat", "activeHours", "end"),
        ),
        ({"agents": {"defaults": {"contextPruning": {"ttl": "?"}}}}, ("agents", "defaults", "contextPruning", "ttl")),
        ({"session": {"maintenance": {"pruneAfter": "now and then"}}}, ("session", "maintenance", "pruneAfter")),
        ({"cron": {"sessionRetention": True}}, ("cron", "sessionRetention")),
    ],
)
def test_durations_and_hours(raw: dict[str, Any], path: tuple[str | int, ...]) -> None:
    assert found(raw) == [(path, True)]


def test_good_durations() -> None:
    beat = {"every": "0m", "activeHours": {"start": "08:00", "end": "24:00"}}
    raw = {
        "agents": {"defaults": {"heartbeat": beat}},
        "session": {"maintenance": {"pruneAfter": 30, "resetArchiveRetention": False}},
        "cron": {"sessionRetention": "24h"},
    }
    assert found(raw) == []


def test_an_agents_word_goes_before_everybodys_however_it_is_spelled() -> None:
    """The agent's `timeoutSeconds` lost to everybody's `timeoutSec`, an alias of its own took a model's parameters."""
    found = made(
        {
            "tools": {"exec": {"timeoutSec": 1800}},
            "agents": {
                "defaults": {"models": {"p/m": {"params": {"temperature": 0, "top_p": 1}}}},
                "list": [
                    {
                        "id": "a",
                        "tools": {"exec": {"timeoutSeconds": 5}},
                        "models": {"p/m": {"alias": "q", "params": {"top_p": None}}},
                    },
                    {"id": "b"},
                ],
            },
        }
    )
    assert {name: one.tools.exec.timeout for name, one in found.agents.items()} == {"a": 5.0, "b": 1800.0}
    assert found.agents["a"].aliases == {"q": "p/m"}
    assert found.agents["a"].model_params == {"p/m": {"temperature": 0, "top_p": None}}


@pytest.mark.seed(396)
def test_an_agents_memory_is_searched_as_it_says_and_else_as_all_say() -> None:
    shared = {"memorySearch": {"enabled": False, "query": {"maxResults": 3, "minScore": 0.1}, "extraPaths": ["~/n"]}}
    limits = {"contextLimits": {"memoryGetMaxChars": 500, "memoryGetDefaultLines": 10, "postCompactionMaxChars": 7}}
    own = {
        "id": "a",
        "memorySearch": {"enabled": None, "query": {"minScore": 0.2}},  # null says nothing
        "contextLimits": {"memoryGetMaxChars": 900},
    }
    agent = made({"agents": {"defaults": {**shared, **limits}, "list": [own]}}).agents["a"]
    memory = agent.memory
    assert (memory.enabled, memory.max_results, memory.min_score, memory.extra) == (False, 3, 0.2, ("~/n",))
    assert (memory.get_chars, memory.get_lines, agent.excerpt_chars) == (900, 10, 7)
