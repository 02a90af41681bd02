"""`plugins` and `hooks.internal`: what the owner allows, by id.

What plugins there are is found by `plugins/manifest.py`. `entries` are free-form: what is not of the right kind there
counts as not written.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec

from palinurus.config.declare import Section, option
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import FolderList, Free, LooseMillis, Names, reveal_below


class PluginEntry(Section, frozen=True):
    """plugins.entries.<id>. `config` may hold secrets in plain text: it is left out of `repr`."""

    ABOUT: ClassVar = """
        enabled false: it is not loaded.
        config Its own settings.
        hooks.allowPromptInjection false: it cannot change prompts.
        hooks.allowConversationAccess true: it may read conversations.
        hooks.timeoutMs How long one of its hooks may take.
    """
    enabled: bool = option(True, closed=False)
    config: Free = {}
    prompt: bool = option(True, at="hooks.allowPromptInjection", closed=False)
    conversation: bool = option(False, at="hooks.allowConversationAccess", closed=False)
    deadline: LooseMillis | None = option(None, at="hooks.timeoutMs")  # in seconds
    deadlines: dict[str, LooseMillis] = option({}, "How long each may take, by the hook's name.", "hooks.timeouts")

    LOOSE: ClassVar = True

    def __repr__(self) -> str:
        return f"PluginEntry(enabled={self.enabled})"

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        return msgspec.structs.replace(self, config=reveal_below(self.config, here.below("config")))


class PluginSettings(Section, frozen=True):
    """Which plugins may be loaded, from where."""

    ABOUT: ClassVar = """
        load.paths More folders with plugins.
        enabled false: no plugin is loaded.
        allow The only plugins that are loaded; empty: all that are enabled.
        deny Plugins that are never loaded.
        entries Settings of single plugins, by id.
    """
    on: bool = option(True, at="enabled")
    allow: Names = ()  # if any is named, nobody else is loaded
    deny: Names = ()
    paths: FolderList = option((), at="load.paths")  # folders besides <home>/plugins
    entries: dict[str, PluginEntry] = {}

    SEALED: ClassVar = {"enabled": False}

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


class HookScriptSettings(Section, frozen=True):
    """hooks.internal: scripts in hooks folders."""

    ABOUT: ClassVar = """
        enabled false: no script is run.
        load.extraDirs More folders with scripts.
        entries Settings of single scripts, by name.
    """
    on: bool = option(True, at="enabled", closed=False)
    folders: FolderList = option((), at="load.extraDirs")
    entries: dict[str, Any] = {}  # name -> enabled
    pins: dict[str, str] = option({}, at=None)  # name -> the SHA-256 of the script, which one in a workspace must have

    LOOSE: ClassVar = True

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        told = {name: not (isinstance(one, dict) and one.get("enabled") is False) for name, one in self.entries.items()}
        given = {name: one for name, one in self.entries.items() if isinstance(one, dict)}
        pins = {name: str(one.get("sha256") or "").lower() for name, one in given.items()}
        return msgspec.structs.replace(self, entries=told, pins=pins)
