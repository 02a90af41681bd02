"""What becomes of every key that OpenClaw documents: acts, is known and not acted on, is unknown: `make config-report`.

A key acts if the settings of the program come out differently with it; what a channel reads for itself counts if its
code names the key. Nothing is declared to act: it is tried.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import palinurus
from openclaw_keys import choose_sample, list_words, read_documented, write_out
from palinurus.config import keypath
from palinurus.config.check import describe_key, walk_keys
from palinurus.config.declare import SectionKind
from palinurus.config.edit import put_value
from palinurus.config.inert import find_reason
from palinurus.config.kinds import MapKind
from palinurus.config.load import judge_config
from palinurus.config.secrets import is_secret
from palinurus.config.sections.channels import AccountSettings
from palinurus.config.settings import Settings

ENV = {"HOME": "/u", "PATH": "/bin", "VALUE": "from-the-environment"}
SOURCE = Path(palinurus.__file__).parent
# What has to stand beside a key for it to say anything; the longest place that fits counts.
BESIDE: dict[str, dict[str, Any]] = {
    "hooks": {"hooks": {"enabled": True, "token": "t"}},
    "hooks.mappings": {"hooks": {"enabled": True, "token": "t", "mappings": [{"id": "a", "match": {"path": "p"}}]}},
    "agents.list": {"agents": {"list": [{"id": "a"}, {"id": "b", "default": True}]}},
    "bindings": {"bindings": [{"agentId": "main", "match": {"channel": "irc"}}], "channels": {"irc": {"host": "h"}}},
    "gateway.trustedProxies": {"gateway": {"auth": {"mode": "trusted-proxy", "trustedProxy": {"userHeader": "x"}}}},
    "gateway.auth.trustedProxy": {
        "gateway": {
            "auth": {"mode": "trusted-proxy", "trustedProxy": {"userHeader": "x"}},
            "trustedProxies": ["10.0.0.1"],
        }
    },
    "gateway.customBindHost": {"gateway": {"bind": "custom", "customBindHost": "10.0.0.9"}},
    "gateway.tls": {"gateway": {"tls": {"enabled": True, "certPath": "c", "keyPath": "k"}}},
    "mcp.servers": {"mcp": {"servers": {"name": {"url": "http://a.example"}}}},
    "mcp.servers.*.command": {},
    "mcp.servers.*.clientCert": {"mcp": {"servers": {"name": {"url": "http://a.example", "clientKey": "k"}}}},
    "mcp.servers.*.clientKey": {"mcp": {"servers": {"name": {"url": "http://a.example", "clientCert": "c"}}}},
    "mcp.servers.*.args": {"mcp": {"servers": {"name": {"command": "c"}}}},
    "models.providers.*.models": {"models": {"providers": {"name": {"models": [{"id": "m"}]}}}},
    "models.providers.*.apiKey": {"models": {"providers": {"name": {"apiKey": {"source": "env", "id": "VALUE"}}}}},
    "skills.entries.*.apiKey": {"skills": {"entries": {"name": {"apiKey": {"source": "env", "id": "VALUE"}}}}},
    **{
        f"models.providers.*.{name}": {"models": {"providers": {"name": {"models": [{"id": "m"}]}}}}
        for name in ("contextWindow", "maxTokens", "contextTokens")
    },
    **{
        f"agents.list.[].heartbeat.activeHours.{name}": {
            "agents": {"list": [{"id": "a", "heartbeat": {"every": "7m", "activeHours": {name: "09:00"}}}]}
        }
        for name in ("start", "end")
    },
    "accessGroups": {
        "accessGroups": {"name": {"members": {"*": ["1"]}}},
        "channels": {"irc": {"host": "h", "allowFrom": ["accessGroup:name"]}},
    },
    "auth.profiles": {"auth": {"profiles": {"name": {"provider": "p"}}}},
    "tools.media.audio.models": {"tools": {"media": {"audio": {"models": [{"provider": "openai", "model": "m"}]}}}},
    "tools.media.audio.models.[].args": {"tools": {"media": {"audio": {"models": [{"command": "c"}]}}}},
    "tools.media.audio.enabled": {"tools": {"media": {"audio": {"models": [{"provider": "openai"}]}}}},
    "tools.media.audio.timeoutSeconds": {"tools": {"media": {"audio": {"models": [{"provider": "openai"}]}}}},
    **{
        f"tools.web.search.{name}": {"tools": {"web": {"search": {"provider": name, name: {"apiKey": "k"}}}}}
        for name in ("brave", "tavily", "perplexity", "exa", "searxng")
    },
    "tools.media.audio.scope.rules": {"tools": {"media": {"audio": {"scope": {"rules": [{"action": "deny"}]}}}}},
    "session.sendPolicy.rules": {"session": {"sendPolicy": {"rules": [{"action": "deny"}]}}},
    "session.maintenance.highWaterBytes": {"session": {"maintenance": {"maxDiskBytes": "9gb"}}},
    "web": {"channels": {"whatsapp": {"enabled": True}}},
    "diagnostics": {"diagnostics": {"otel": {"enabled": True}}},
    "messages.groupChat.historyLimit": {"channels": {"irc": {"host": "h"}}},
    "channels.defaults.requireMention": {"channels": {"irc": {"host": "h", "groups": {"#a": {}}}}},
    "agents.defaults.mediaMaxMb": {"channels": {"irc": {"host": "h"}}},
    "memory.allowFrom": {"channels": {"telegram": {"botToken": "t"}}},
    "tools.trustFrom": {"channels": {"telegram": {"botToken": "t"}}},
    "channels.defaults": {"channels": {"irc": {"host": "h"}}},
    "commands.ownerAllowFrom": {"channels": {"irc": {"host": "h"}}},
    "agents.defaults.compaction.qualityGuard": {"agents": {"defaults": {"compaction": {"mode": "safeguard"}}}},
    "agents.defaults.heartbeat": {"agents": {"defaults": {"heartbeat": {"every": "7m"}}}},
    "agents.defaults.cliBackends": {
        "agents": {"defaults": {"cliBackends": {"name": {"command": "c", "protocol": "acp"}}}}
    },
    "agents.list.[].runtime": {
        "agents": {
            "defaults": {"cliBackends": {"x": {"command": "c", "protocol": "acp"}}},
            "list": [{"id": "a", "runtime": {"type": "acp", "acp": {"agent": "x"}}}],
        }
    },
}
FETCHED = (("secrets",), ("env", "shellEnv"))  # acts where a secret is fetched: tests/config/sections/test_vaults.py
NOTES = ("wizard", "meta", "$schema")  # programs write these for themselves: there is nothing to act on
MORE: tuple[Any, ...] = (
    True, False, 0, 3, 7_777, 0.25, "x", "off", "on", "1h", "3mb", "true", "main", "first-value", ["x"], ["main"], [],
    "~/folder", "irc:5", ["irc:5"], "/srv/x", {"x": "y"}, "none", "10.0.0.0/8", ["10.0.0.0/8"], "cli", "acp", "codex",
    "user", "gpt-5.4", "always", {"source": "env", "id": "VALUE"}, "sequential", "full", "replace", "all",
    "newline", "disabled", "allowlist", "open", "natural", "message_tool", "sentence", "lan", "wake", "hash",
    "landlock", "next-heartbeat", "deny", "allow", "direct", "group", ["https://a.example"], "https://a.example",
    {"main": "strict"}, {"main": "off"},
    {"irc": "off"}, ["docs.example.org"], ["telegram:1"], {"x": 7}, "10.0.0.1", "brave",
    {"allowedHostnames": ["a.example"]}, "#0f766e", "funnel", "oneshot", [{"model": "m"}], "jwt-bearer",
)  # fmt: skip


@cache
def list_names(folder: str) -> frozenset[str]:
    """Every quoted word in the code of a channel and of what channels share."""
    root = SOURCE / "channels"
    files = [*root.glob("*.py"), *(root / folder).rglob("*.py"), *(SOURCE / "outbox").glob("*.py")]
    return frozenset(word for file in files for word in re.findall(r'"([A-Za-z]\w*)"', file.read_text("utf-8")))


def read_raw(raw: Any) -> Settings:
    found = judge_config(msgspec.json.encode(raw).decode(), "f", "/h", ENV)
    assert found.settings is not None
    return found.settings


def strip_raw(settings: Settings) -> Settings:
    """Without what is only a copy of the file, and without the file's version."""
    accounts: dict[str, dict[str, AccountSettings]] = {
        name: {key: msgspec.structs.replace(one, own={}) for key, one in found.items()}
        for name, found in settings.accounts.items()
    }
    return msgspec.structs.replace(
        settings, version="", channels={name: {} for name in settings.channels}, accounts=accounts
    )


@cache
def read_without(raw: bytes) -> Settings:
    """What comes out without the key: the same for most of them."""
    return strip_raw(read_raw(msgspec.json.decode(raw)))


_ACTED: dict[str, tuple[Any]] = {}  # what made a key of this name act: tried first for the next of that name


@cache
def acts(pattern: tuple[str, ...], letter: str) -> bool:
    """Do the settings come out differently with the key, whatever stands there?"""
    fitting = [place for place in BESIDE if pattern[: len(place.split("."))] == tuple(place.split("."))]
    base = BESIDE[max(fitting, key=len)] if fitting else {}
    if pattern[0] == "channels" and pattern[1] not in ("defaults", "modelByChannel"):
        base = {"channels": {pattern[1]: {"enabled": True}}, "messages": {"groupChat": {"historyLimit": 9}}}
        base["bindings"] = [{"agentId": "main", "match": {"channel": pattern[1]}}]
    path = write_out(pattern)
    if any(part in ("*", "[]") for part in pattern[:-1]) and not keypath.has_at(base, path[:-1]):
        base = put(base, path[:-1], {})  # a name alone may already say something
    tries = [choose_sample(path, letter), *_ACTED.get(pattern[-1], ()), *list_words(describe_key(path)), *MORE]
    without = read_without(msgspec.json.encode(base))
    for value in tries:
        if strip_raw(read_raw(put(base, path, value))) != without:
            _ACTED[pattern[-1]] = (value,)
            return True
    return False


def put(base: Any, path: keypath.Path, value: Any) -> Any:
    try:
        return put_value(base, path, value)
    except ValueError:
        return base


def judge(pattern: tuple[str, ...], letter: str) -> str:
    """acts | inert | unknown"""
    plugin = pattern[:2] == ("plugins", "entries") and pattern[3:4] == ("config",)  # of plugins that are not ours
    if find_reason(write_out(pattern)) or pattern[0] in NOTES or plugin:
        return "inert"
    own = [part for part in pattern[2:] if part not in ("*", "[]", "accounts")]
    read = pattern[0] == "channels" and own and set(own) <= list_names(pattern[1])
    if read or pattern[:1] in FETCHED or pattern[:2] in FETCHED or acts(pattern, letter):
        return "acts"
    return "unknown"


def judge_declared() -> dict[str, str]:
    """The fate of every key that is declared and has none below it; `told`: whoever writes it hears that it is not
    acted on there."""
    fates: dict[str, str] = {}
    documented = read_documented()
    for path, kind, _ in walk_keys():
        pattern = tuple(str(part) for part in path)
        leaf = not any(isinstance(option, MapKind | SectionKind) or option.list_keys() for option in kind.options)
        reference = pattern[-1] in ("source", "id", "provider") and is_secret(pattern[:-1])
        again = pattern[:2] == ("agents", "entries")
        if leaf and len(pattern) > 1 and not reference and not again:
            fates[".".join(pattern)] = judge(pattern, documented.get(pattern, "o"))
    for key in [key for key, fate in fates.items() if fate == "unknown"]:
        path = write_out(tuple(key.split(".")))
        found = judge_config(msgspec.json.encode(put(BESIDE["agents.list"], path, 3)).decode(), "f", "/h", ENV)
        if any(problem.path == keypath.show_path(path) and not problem.fatal for problem in found.problems):
            fates[key] = "told"
    return fates


def judge_all() -> dict[str, str]:
    """The fate of every documented key."""
    return {".".join(pattern): judge(pattern, letter) for pattern, letter in read_documented().items()}


if __name__ == "__main__":
    fates = judge_all()
    count = Counter(fates.values())
    print(f"documented {len(fates)}, acting {count['acts']}, known and not acted on {count['inert']}, ", end="")
    print(f"unknown {count['unknown']}")
    for wanted in sys.argv[1:]:
        print("\n".join(f"  {key}" for key, fate in fates.items() if fate == wanted))
