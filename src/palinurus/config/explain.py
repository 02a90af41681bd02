"""What a key is, what it is set to, where that comes from, and whether a change of it applies at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.config import files, lines
from palinurus.config.check import describe_key, find_note, list_keys_below, list_restart_keys, show_default
from palinurus.config.findings import suggest_nearest
from palinurus.config.keypath import Path, get_at, has_at, parse_path, settle_path, show_path
from palinurus.config.load import LoadedConfig
from palinurus.config.secrets import MASK, is_secret, mask_secrets
from palinurus.config.settings import AgentSettings, Secret, Settings
from palinurus.errors import BadRequest, NotFound


def _agent(settings: Settings) -> AgentSettings:
    return settings.agents[settings.default_agent]


# Where in `Settings` a value is that follows from more than its key.
EFFECTIVE: dict[str, Callable[[Settings], Any]] = {
    "agents.defaults.workspace": lambda s: _agent(s).workspace,
    "agents.defaults.model": lambda s: _agent(s).model or None,
    "agents.defaults.timeoutSeconds": lambda s: _agent(s).timeout,
    "agents.defaults.thinkingDefault": lambda s: _agent(s).thinking_shared,
    "agents.defaults.maxConcurrent": lambda s: s.lanes.main,
    "agents.defaults.subagents.maxConcurrent": lambda s: s.lanes.subagent,
    "cron.maxConcurrentRuns": lambda s: s.lanes.cron,
    "gateway.bind": lambda s: s.gateway.bind,
    "gateway.auth.mode": lambda s: s.gateway.auth_mode,
    "gateway.auth.token": lambda s: s.gateway.token or "made at the first start, in gateway.token",
    "session.dmScope": lambda s: s.session.dm_scope or "main",
    "tools.allow": lambda s: None if s.policy.shared.own.allow is None else list(s.policy.shared.own.allow),
    "tools.profile": lambda s: s.policy.shared.own.profile or None,
    "tools.exec.timeoutSec": lambda s: s.tools.exec.timeout,
    "tools.loopDetection.warningThreshold": lambda s: s.tools.loop_warn,
    "tools.loopDetection.criticalThreshold": lambda s: s.tools.loop_stop,
}


class KeyExplanation(msgspec.Struct, frozen=True):
    key: str
    value: Any  # secrets masked; None = not set and no default
    source: str  # file:line, "default" or "not set"
    live: bool  # does a change apply without a restart
    about: str = ""
    note: str = ""


def needs_restart(path: Path) -> bool:
    """Must the gateway start again for a change at `path` (or around it) to take effect?"""
    return any(path[: len(key)] == key or key[: len(path)] == path for key in list_restart_keys())


def explain_key(loaded: LoadedConfig, key: str) -> KeyExplanation:
    """Everything about `key`. Raises BadRequest if it is no key path, NotFound if there is no such key."""
    path = resolve_key(loaded, key)
    name = show_path(path)
    about, acts = find_note(path).about, find_note(path).acts
    live, dead = not needs_restart(path), "" if acts else "known, but not acted on"
    if has_at(loaded.raw, path):
        value = mask_secrets(get_at(loaded.raw, path), path)
        note = f"not what {loaded.file} says now: that file cannot be used" if loaded.fallback else dead
        return KeyExplanation(name, value, _where(loaded, path), live, about=about, note=note)
    value = find_effective(loaded, path)
    source = "default" if value is not None else "not set"
    return KeyExplanation(name, value, source, live, about=about, note=dead)


def find_effective(loaded: LoadedConfig, path: Path) -> Any:
    """What applies although the file does not say it; None if nothing does."""
    find = EFFECTIVE.get(show_path(path))
    value = find(loaded.settings) if find else show_default(describe_key(path), find_note(path))
    return MASK if isinstance(value, Secret) or (is_secret(path) and value and not isinstance(value, str)) else value


def resolve_key(loaded: LoadedConfig, key: str) -> Path:
    """`key` as a path that is in the file or in the schema. Raises BadRequest or NotFound."""
    try:
        path = settle_path(parse_path(key), loaded.raw)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if has_at(loaded.raw, path) or describe_key(path) is not None:
        return path
    for size in range(len(path)):
        if describe_key(path[: size + 1]) is None:
            hint = suggest_nearest(str(path[size]), list_keys_below(path[:size]))
            raise NotFound(f"there is no key {show_path(path)}", fix=hint or f"keys here: {_sample(path[:size])}")
    return path


def _sample(path: Path) -> str:
    names = list_keys_below(path)
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "") if names else "none"


def _where(loaded: LoadedConfig, path: Path) -> str:
    data = files.read_file(loaded.source)
    text = files.decode_text(data) if isinstance(data, bytes) else ""
    line = lines.scan_json(text).line(path) if isinstance(text, str) else 0
    return f"{loaded.source}:{line}" if line else loaded.source
