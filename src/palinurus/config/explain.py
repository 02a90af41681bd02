"""What a key is, what it is set to, where that comes from, and whether a change of it applies at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from palinurus.config.check import describe_key, find_note, list_keys_below, list_marked_keys, walk_keys
from palinurus.config.declare import show_default
from palinurus.config.findings import suggest_nearest
from palinurus.config.include import locate_key
from palinurus.config.keypath import Path, get_at, has_at, parse_path, settle_path, show_path
from palinurus.config.kinds import Kind, make_kind
from palinurus.config.load import LoadedConfig
from palinurus.config.schema import Config
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
    "tools.loopDetection.warningThreshold": lambda s: s.tools.loops.warn,
    "tools.loopDetection.criticalThreshold": lambda s: s.tools.loops.stop,
}


class KeyLine(msgspec.Struct, frozen=True):
    """One key of a section, for a list of them."""

    name: str
    value: Any  # secrets masked; None: nothing, or a section itself
    about: str


class KeyExplanation(msgspec.Struct, frozen=True):
    key: str
    value: Any  # secrets masked; None = not set and no default
    source: str  # file:line, "default" or "not set"
    when: str  # what a change of it does, in words
    about: str = ""
    note: str = ""
    keys: tuple[KeyLine, ...] = ()  # of a section


def needs_restart(path: Path) -> bool:
    """Must the gateway start again for a change at `path` (or around it) to take effect?"""
    return any(path[: len(key)] == key or key[: len(path)] == path for key in list_marked_keys("restart"))


def tell_change(path: Path, mode: str) -> str:
    """What a change at `path` does to a running gateway, in words. `mode`: gateway.reload.mode."""
    live = any(path[: len(key)] == key for key in list_marked_keys("live"))
    if needs_restart(path) or mode == "off" or (mode == "hot" and not live):
        return "needs a restart of the gateway"
    return "applies at once" if live else "applies by itself: the gateway begins anew when no turn runs"


def explain_key(loaded: LoadedConfig, key: str) -> KeyExplanation:
    """Everything about `key`. Raises BadRequest if it is no key path, NotFound if there is no such key."""
    path = resolve_key(loaded, key)
    name, told = show_path(path), find_note(path)
    known, written = describe_key(path) is not None, has_at(loaded.raw, path)
    note = f"known, but not acted on: {told.inert}" if told.inert else "" if known else "unknown: nobody reads it"
    value = mask_secrets(get_at(loaded.raw, path), path) if written else find_effective(loaded, path)
    source = _where(loaded, path) if written else "default" if value is not None else "not set"
    if written and loaded.fallback:
        note = f"not what {loaded.file} says now: that file cannot be used"
    elif any(problem.fatal and problem.path == name for problem in loaded.problems):
        used = find_effective(loaded, path)
        note = "cannot be used as it is" + ("" if used is None else f"; in force: {msgspec.json.encode(used).decode()}")
    below = list_section(path) if value is None or isinstance(value, dict) else ()
    lines = tuple(_line(loaded, (*path, one)) for one in below)
    acts = known and not told.inert
    when = tell_change(path, loaded.settings.gateway.reload) if acts else "changes nothing"
    return KeyExplanation(name, value, source, when, about=told.about, note=note, keys=lines)


def list_section(path: Path) -> list[str]:
    """The keys directly below, those of free-form sections too."""
    return [] if find_note(path).inert else sorted(set(list_keys_below(path)))


def _line(loaded: LoadedConfig, path: Path) -> KeyLine:
    about = find_note(path).about
    if has_at(loaded.raw, path):
        return KeyLine(str(path[-1]), mask_secrets(get_at(loaded.raw, path), path), about)
    return KeyLine(str(path[-1]), find_effective(loaded, path), about)


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
    return ", ".join(list_keys_below(path)) or "none"


def _where(loaded: LoadedConfig, path: Path) -> str:
    file, line = locate_key(path, loaded.parts)
    return f"{file}:{line}" if line else file


# The schema as JSON Schema, whole or one key of it, with hints for forms.

_SHOWN = ("type", "enum", "const", "description", "default", "minimum", "maximum", "minLength", "maxLength", "pattern")


@cache
def build_json_schema() -> dict[str, Any]:
    """The whole, without references."""
    return make_kind(Config).describe()


@cache
def build_hints() -> dict[str, dict[str, Any]]:
    """By key path (`*` for any item): what it means, and whether it is a secret."""
    found = (([str(part).replace("[]", "*") for part in path], note) for path, _, note in walk_keys())
    return {".".join(path): _hint(tuple(path), note.about) for path, note in found if note.about}


def _hint(path: Path, words: str) -> dict[str, Any]:
    hint: dict[str, Any] = {"label": path[-1], "help": words}
    return {**hint, "sensitive": True} if is_secret(path) else hint


def lookup_key(key: str) -> dict[str, Any] | None:
    """One key: its schema, whether a change needs a restart, and the keys below it. None if there is no such key."""
    try:
        path = parse_path(key) if key.strip(". ") else ()
    except ValueError:
        return None
    kind = describe_key(path)
    if kind is None:
        return None
    made: dict[str, Any] = {"path": key, "schema": _own(kind), "reloadKind": _reload(path), **_hinted(path)}
    return {**made, "children": [_child(path, name, kind.step(name) or Kind()) for name in kind.list_keys()]}


def _own(kind: Kind) -> dict[str, Any]:
    """The schema of the key itself, what is below it left out."""
    bodies = [option.describe() for option in kind.options]
    found = [{name: body[name] for name in _SHOWN if name in body} for body in bodies]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _child(path: Path, name: str, kind: Kind) -> dict[str, Any]:
    below = (*path, name)
    key = ".".join(str(part) for part in below)
    flat = [option.describe() for option in kind.options]
    kinds = list(dict.fromkeys(one["type"] for one in flat if "type" in one))
    made: dict[str, Any] = {
        "key": name,
        "path": key,
        "required": False,
        "hasChildren": any(one in ("object", "array") for one in kinds),
        "reloadKind": _reload(below),
    }
    if kinds:
        made["type"] = kinds[0] if len(kinds) == 1 else kinds
    return made | _hinted(below)


def _hinted(path: Path) -> dict[str, Any]:
    note = find_note(path)
    words = f"Not acted on: {note.inert}." if note.inert else note.about
    shown = ".".join("*" if isinstance(part, int) else part for part in path)
    return {"hint": _hint(path, words), "hintPath": shown} if words else {}


def _reload(path: Path) -> str:
    return "restart" if path and needs_restart(path) else "hot"
