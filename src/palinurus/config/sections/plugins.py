"""`plugins` and `hooks.internal` with every default applied. Pure.

Knows what the owner allows, by id; what plugins there are is found by `plugins/manifest.py`. `entries` are free-form:
what is not of the right kind there counts as not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config import paths
from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config


class PluginEntry(msgspec.Struct, frozen=True):
    """plugins.entries.<id>. `config` may hold secrets in plain text: it is left out of `repr`."""

    enabled: bool = True
    config: dict[str, Any] = {}
    prompt: bool = True  # hooks.allowPromptInjection
    conversation: bool = False  # hooks.allowConversationAccess
    deadline: float | None = None  # hooks.timeoutMs, in seconds
    deadlines: dict[str, float] = {}  # hooks.timeouts, by hook point

    def __repr__(self) -> str:
        return f"PluginEntry(enabled={self.enabled})"


class PluginSettings(msgspec.Struct, frozen=True):
    """Which plugins may be loaded, from where."""

    on: bool = True
    allow: tuple[str, ...] = ()  # if any is named, nobody else is loaded
    deny: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # plugins.load.paths: folders besides <home>/plugins
    entries: dict[str, PluginEntry] = {}

    @property
    def enabled_ids(self) -> tuple[str, ...]:
        """The ids that are enabled, whether or not there are such plugins."""
        named = dict.fromkeys((*self.allow, *self.entries))
        return tuple(ident for ident in named if not self.refusal(ident))

    def refusal(self, ident: str) -> str:
        """Why the plugin is not loaded; "" if it may be."""
        entry = self.entries.get(ident)
        if not self.on:
            return "plugins.enabled is false"
        if ident in self.deny:
            return "plugins.deny names it"
        if entry is not None and not entry.enabled:
            return f"plugins.entries.{ident}.enabled is false"
        if self.allow and ident not in self.allow:
            return "plugins.allow does not name it"
        return "" if entry is not None or self.allow else f"not enabled: `pal plugins enable {ident}`"


class HookScriptSettings(msgspec.Struct, frozen=True):
    """hooks.internal: scripts in hooks folders."""

    on: bool = True
    folders: tuple[str, ...] = ()  # hooks.internal.load.extraDirs
    entries: dict[str, bool] = {}  # name -> enabled


def resolve_plugins(
    config: Config, home: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> PluginSettings:
    """The `plugins` section; a secret that cannot be found is a finding."""
    section = config.plugins
    if section is None:
        return PluginSettings()
    where = _texts((section.load or {}).get("paths"))
    return PluginSettings(
        section.enabled is not False,
        tuple(section.allow or ()),
        tuple(section.deny or ()),
        tuple(paths.expand_path(path, environ, home) for path in where),
        {ident: _entry(ident, body, environ, findings) for ident, body in (section.entries or {}).items()},
    )


def resolve_scripts(config: Config, home: str, environ: Mapping[str, str]) -> HookScriptSettings:
    """The `hooks.internal` section."""
    section = _table(config.hooks and config.hooks.internal)
    entries = {name: _table(body).get("enabled") is not False for name, body in _table(section.get("entries")).items()}
    where = _texts(_table(section.get("load")).get("extraDirs"))
    folders = tuple(paths.expand_path(path, environ, home) for path in where)
    return HookScriptSettings(section.get("enabled") is not False, folders, entries)


def _entry(ident: str, body: dict[str, Any], environ: Mapping[str, str], findings: list[ConfigFinding]) -> PluginEntry:
    hooks = _table(body.get("hooks"))
    path: Path = ("plugins", "entries", ident, "config")
    each = {name: ms / 1000 for name, ms in _table(hooks.get("timeouts")).items() if _positive(ms)}
    whole = hooks.get("timeoutMs")
    return PluginEntry(
        body.get("enabled") is not False,
        _table(_revealed(_table(body.get("config")), path, environ, findings)),
        hooks.get("allowPromptInjection") is not False,
        hooks.get("allowConversationAccess") is True,
        float(whole or 0) / 1000 if _positive(whole) else None,
        each,
    )


def _revealed(value: Any, path: Path, environ: Mapping[str, str], findings: list[ConfigFinding]) -> Any:
    """With references to secrets replaced by the secrets."""
    if isinstance(value, list):
        return [_revealed(one, (*path, at), environ, findings) for at, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if value.get("source") == "env" and isinstance(value.get("id"), str) and len(value) <= 3:
        found = environ.get(value["id"], "")
        if not found:
            hint = suggest_nearest(value["id"], environ)
            findings.append(ConfigFinding(path, f"the environment variable {value['id']} is not set", hint, False))
        return found
    return {name: _revealed(one, (*path, name), environ, findings) for name, one in value.items()}


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str) and one.strip()] if isinstance(value, list) else []
