"""Loading: enabled plugins are imported and asked what they bring. One that fails is set aside with the reason.

The only file that imports code of others. Runs before the program answers anybody; changes nothing by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import msgspec

from palinurus.config import lines, paths
from palinurus.config.keypath import show_path
from palinurus.config.sections.plugins import PluginEntry
from palinurus.config.settings import Settings
from palinurus.plugins.api import PluginApi, PluginContributions
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.manifest import BrokenPlugin, PluginManifest, check_schema, fill_defaults, find_enabled_plugins

log = logging.getLogger(__name__)


class PluginSet(msgspec.Struct):
    """What came of loading: who is in use, who was set aside, and all they bring together."""

    loaded: list[PluginManifest] = []
    broken: list[BrokenPlugin] = []
    brought: PluginContributions = msgspec.field(default_factory=PluginContributions)


def load_plugins(settings: Settings, hooks: Hooks, taken: Mapping[str, Iterable[str]] = {}) -> PluginSet:
    """Load every enabled plugin. Never raises. `taken`: names of ours that plugins cannot have, by kind
    (tools, commands, vendors, channels)."""
    made = PluginSet()
    for one in find_enabled_plugins(settings):
        result = one if isinstance(one, BrokenPlugin) else _loaded(one, settings, hooks, taken, others=made.brought)
        if isinstance(result, BrokenPlugin):
            made.broken.append(result)
            log.warning("plugin %s is set aside: %s", result.id, result.reason)
            continue
        assert isinstance(one, PluginManifest)
        made.loaded.append(one)
        add_contributions(made.brought, result)
        for warning in result.warnings:
            log.warning("plugin %s: %s", one.id, warning)
    return made


def load_plugin(one: PluginManifest, settings: Settings, hooks: Hooks) -> PluginContributions | BrokenPlugin:
    """Load one plugin by itself: for its subcommands, for tests and for a look at what it brings."""
    return _loaded(one, settings, hooks, {}, others=PluginContributions())


def load_module_file(file: str, name: str) -> ModuleType:
    """A Python file as a module; files beside it can be imported relatively. Raises what the file raises."""
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[os.path.dirname(file)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return made


def load_module_code(code: bytes, name: str, file: str) -> ModuleType:
    """These bytes as a module, without looking at the file they came from. Raises what they raise."""
    made = ModuleType(name)
    made.__file__ = file
    exec(compile(code, file, "exec"), made.__dict__)
    return made


def list_config_problems(one: PluginManifest, entry: PluginEntry, home: str) -> list[str]:
    """What is wrong with a plugin's config, each with file:line."""
    if one.schema is None:
        return []
    found = check_schema(one.schema, entry.config, ("plugins", "entries", one.id, "config"))
    if not found:
        return []
    file = paths.locate_config_file(home)
    try:
        with open(file, encoding="utf-8") as handle:
            scan = lines.scan_json(handle.read())
    except (OSError, ValueError):
        scan = lines.scan_json("{}")
    told = []
    for bad in found:
        hint = f"; {bad.hint}" if bad.hint else ""
        told.append(f"{show_path(bad.path)}: {bad.message} ({file}:{scan.line(bad.path)}){hint}")
    return told


def _loaded(
    one: PluginManifest,
    settings: Settings,
    hooks: Hooks,
    taken: Mapping[str, Iterable[str]],
    others: PluginContributions,
) -> PluginContributions | BrokenPlugin:
    entry = settings.plugins.entries.get(one.id, PluginEntry())
    bad = list_config_problems(one, entry, settings.home)
    if bad:
        return BrokenPlugin(one.id, one.folder, "its config is wrong: " + "; ".join(bad))
    if not one.entry:
        return PluginContributions()
    config = fill_defaults(one.schema, entry.config) if one.schema else dict(entry.config)
    api = PluginApi(one, entry, config, settings.home, hooks=hooks)
    try:
        _register(one)(api)
    except (Exception, SystemExit) as exc:  # border: a plugin's failure is its own; everything else starts
        log.debug("plugin %s", one.id, exc_info=True)
        return BrokenPlugin(one.id, one.folder, f"{type(exc).__name__}: {exc}{_place(one, exc)}")
    clash = _clash(api.brought, taken, others)
    return BrokenPlugin(one.id, one.folder, clash) if clash else api.brought


def _register(one: PluginManifest) -> Callable[[PluginApi], Any]:
    module, _, attribute = one.entry.partition(":")
    if one.package:
        found = importlib.import_module(module)
    else:
        name = "palinurus_plugin_" + re.sub(r"\W", "_", one.id)
        file = os.path.join(one.folder, module.replace(".", os.sep) + ".py")
        found = sys.modules.get(name) or load_module_file(file, name)
        if getattr(found, "__file__", file) != file:
            found = load_module_file(file, name)
    made: Callable[[PluginApi], Any] = getattr(found, attribute)
    return made


def _place(one: PluginManifest, exc: BaseException) -> str:
    """The last line of the plugin's own that the exception went through."""
    where, trace = "", exc.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(one.folder):
            where = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return where


def _clash(brought: PluginContributions, taken: Mapping[str, Iterable[str]], others: PluginContributions) -> str:
    """Whose name it takes; "" if nobody's."""
    for kind in ("tools", "commands", "vendors", "channels"):
        for name in getattr(brought, kind):
            if name in taken.get(kind, ()):
                return f"{kind}: {name!r} is the program's own"
            if name in getattr(others, kind):
                return f"{kind}: another plugin has registered {name!r}"
    return ""


def add_contributions(whole: PluginContributions, part: PluginContributions) -> None:
    """Add what one brings to what all bring."""
    for kind in ("tools", "commands", "vendors", "channels", "cli", "resources", "prompts"):
        getattr(whole, kind).update(getattr(part, kind))
    whole.hooks += part.hooks
    whole.skills += part.skills
    whole.warnings += part.warnings
