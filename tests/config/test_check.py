from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.config.check import check_config, describe_key, list_keys_below, list_marked_keys
from palinurus.config.explain import EFFECTIVE
from palinurus.config.findings import suggest_nearest
from palinurus.config.keypath import parse_path
from palinurus.config.schema import convert_config

CANARY = "canary-2718281"


@pytest.mark.parametrize(
    ("raw", "path", "message", "hint", "fatal"),
    [
        ({"gatway": {}}, ("gatway",), "unknown key", "did you mean 'gateway'?", False),
        ({"gateway": {"prot": 1}}, ("gateway", "prot"), "unknown key", "did you mean 'port'?", False),
        ({"gateway": {"zzzz": 1}}, ("gateway", "zzzz"), "unknown key", "", False),
        (
            {"gateway": {"port": "80"}},
            ("gateway", "port"),
            "expected a whole number, got a text",
            "write the number without quotes",
            True,
        ),
        ({"gateway": {"port": 1.5}}, ("gateway", "port"), "expected a whole number, got a fraction", "", True),
        ({"gateway": {"port": True}}, ("gateway", "port"), "expected a whole number, got true or false", "", True),
        ({"gateway": {"port": 70000}}, ("gateway", "port"), "must be between 1 and 65535", "", True),
        ({"gateway": {"port": 0}}, ("gateway", "port"), "must be between 1 and 65535", "", True),
        ({"gateway": []}, ("gateway",), "expected an object, got a list", "", True),
        (
            {"gateway": {"mode": "locl"}},
            ("gateway", "mode"),
            "'locl' is not one of local, remote",
            "did you mean 'local'?",
            True,
        ),
        ({"tools": {"deny": "exec"}}, ("tools", "deny"), "expected a list, got a text", "put it in [ ]", True),
        (
            {"tools": {"deny": ["a", 1]}},
            ("tools", "deny", 1),
            "expected a text, got a number",
            "put it in quotes",
            True,
        ),
        (
            {"tools": {"fs": {"workspaceOnly": "yes"}}},
            ("tools", "fs", "workspaceOnly"),
            "expected true or false, got a text",
            "write true or false without quotes",
            True,
        ),
        (
            {"agents": {"defaults": {"model": 3}}},
            ("agents", "defaults", "model"),
            "expected a text or an object, got a number",
            "put it in quotes",
            True,
        ),
        (
            {"agents": {"defaults": {"fastModeDefault": "atuo"}}},
            ("agents", "defaults", "fastModeDefault"),
            "'atuo' is not one of auto",
            "did you mean 'auto'?",
            True,
        ),
        (
            {"agents": {"defaults": {"maxConcurrent": 0}}},
            ("agents", "defaults", "maxConcurrent"),
            "must be 1 or more",
            "",
            True,
        ),
        (
            {"models": {"providers": {"x": {"models": [{}]}}}},
            ("models", "providers", "x", "models", 0),
            "the key 'id' is missing",
            "",
            True,
        ),
        (
            {"models": {"providers": {"x": {"models": [{"id": ""}]}}}},
            ("models", "providers", "x", "models", 0, "id"),
            "must not be empty",
            "",
            True,
        ),
        (
            {"models": {"providers": {"x": {"api": "openai-completion"}}}},
            ("models", "providers", "x", "api"),
            None,
            "did you mean 'openai-completions'?",
            True,
        ),
        ({"channels": {"telegram": 1}}, ("channels", "telegram"), "expected an object, got a number", "", True),
    ],
)
def test_findings(raw: Any, path: tuple[str | int, ...], message: str | None, hint: str, fatal: bool) -> None:
    (found,) = check_config(raw).wrong
    assert found.path == path
    assert found.hint == hint
    assert found.fatal is fatal
    if message is not None:
        assert found.message == message


def test_all_findings_at_once() -> None:
    raw = {"gateway": {"port": "x", "mode": "y", "new": 1}, "tools": {"allow": 1}}
    assert len(check_config(raw).wrong) == 4


def test_null_is_not_set() -> None:
    assert check_config({"gateway": {"port": None}, "agents": None}).wrong == []


@pytest.mark.parametrize("key", ["token", "password"])
def test_no_secret_in_a_finding(key: str) -> None:
    for value in (12345678, [CANARY], {"source": CANARY, "id": "X"}):
        found = check_config({"gateway": {"auth": {key: value}}}).wrong
        assert found
        assert CANARY not in repr(found)
        assert "12345678" not in repr(found)


def test_an_openclaw_config_gives_no_alarm() -> None:
    raw = {
        "$schema": "x",
        "meta": {"lastTouchedVersion": "2026.6.6", "lastTouchedAt": "2026-01-01T00:00:00Z"},
        "agents": {
            "defaults": {
                "workspace": "~/w",
                "model": {"primary": "anthropic/claude-opus-4-6", "fallbacks": ["openai/gpt-5.4"]},
                "models": {"anthropic/claude-opus-4-6": {"alias": "opus", "params": {"cacheRetention": "long"}}},
                "heartbeat": {"every": "30m", "target": "last"},
                "contextPruning": {"mode": "cache-ttl", "ttl": "1h"},
                "subagents": {"maxConcurrent": 8},
            },
            "list": [
                {
                    "id": "main",
                    "default": True,
                    "identity": {"name": "Sam", "emoji": "x"},
                    "tools": {"profile": "coding"},
                }
            ],
        },
        "models": {
            "mode": "merge",
            "providers": {
                "p": {
                    "baseUrl": "http://x/v1",
                    "apiKey": {"source": "env", "provider": "default", "id": "K"},
                    "models": [],
                }
            },
        },
        "gateway": {
            "mode": "local",
            "port": 18789,
            "bind": "loopback",
            "auth": {"mode": "token", "token": "t"},
            "tailscale": {"mode": "off"},
        },
        "tools": {
            "exec": {"timeoutSec": 1800, "applyPatch": {"enabled": True}},
            "web": {"search": {"enabled": True}},
            "sessions": {"visibility": "tree"},
            "sessions_spawn": {},
        },
        "session": {"dmScope": "per-channel-peer", "reset": {"mode": "daily", "atHour": 4}},
        "messages": {"queue": {"mode": "collect", "byChannel": {"telegram": "steer"}, "cap": 20, "drop": "summarize"}},
        "channels": {
            "telegram": {"enabled": True, "botToken": "x", "allowFrom": ["1"]},
            "whatsapp": {"allowFrom": ["+1"]},
        },
        "hooks": {"internal": {"enabled": True}},
        "skills": {"install": {"nodeManager": "npm"}},
        "plugins": {"entries": {"telegram": {"enabled": True}}},
        "wizard": {"lastRunMode": "local"},
        "commands": {"native": "auto"},
    }
    assert check_config(raw).wrong == []
    convert_config(raw)


def test_describe_and_known() -> None:
    assert describe_key(("gateway", "port")) is not None
    assert describe_key(("gateway", "prot")) is None
    assert describe_key(("gateway", "port", "x")) is None
    assert describe_key(("agents", "list", 0, "id")) is not None
    assert describe_key(("agents", "defaults", "model", "primary")) is not None
    assert describe_key(("channels", "anything", "at", 3, "all")) is not None
    assert {"port", "bind", "auth"} <= set(list_keys_below(("gateway",)))
    port = describe_key(("gateway", "port"))
    assert port is not None
    assert port.accepts(3)
    assert not port.accepts("3")


@pytest.mark.parametrize("key", [*EFFECTIVE])
def test_every_key_of_the_tables_exists(key: str) -> None:
    assert describe_key(parse_path(key.replace("[]", "[0]"))) is not None


@pytest.mark.parametrize(("mark", "count"), [("restart", 3), ("live", 8)])
def test_every_marked_key_exists(mark: Literal["restart", "live"], count: int) -> None:
    assert len(list_marked_keys(mark)) == count and all(map(describe_key, list_marked_keys(mark)))


def test_nearest() -> None:
    assert suggest_nearest("GATEWAY", ["gateway"]) == "did you mean 'gateway'?"
    assert suggest_nearest("x", ["gateway"]) == ""


LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 70_000),
    st.floats(0.1, 9.9),
    st.sampled_from(["", "auto", "on", "x", "local"]),
)


@st.composite
def _configs(draw: st.DrawFn, path: tuple[str | int, ...] = (), depth: int = 0) -> Any:
    """Values along the real keys of the schema, right and wrong ones."""
    names = list_keys_below(path)
    if not names or depth > 3:
        return draw(
            st.one_of(LEAF, st.lists(LEAF, max_size=2), st.dictionaries(st.sampled_from(["id", "x"]), LEAF, max_size=2))
        )
    chosen = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    return {name: draw(_configs((*path, name), depth + 1)) for name in chosen}


@given(_configs())
@settings(max_examples=150, deadline=None)
def test_what_passes_the_check_can_be_read(raw: dict[str, Any]) -> None:
    if not any(finding.fatal for finding in check_config(raw).wrong):
        convert_config(raw)
