"""Which plugins there are, by their manifests. Reads files, imports nothing of a plugin.

A plugin is a folder in <home>/plugins (or in plugins.load.paths), or an installed package with an entry point in
`palinurus.plugins`. A folder written for OpenClaw counts too: its skills are used; its code, not being Python, is not.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from palinurus import late
from palinurus.config import lines, relaxed
from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.sections.plugins import PluginSettings
from palinurus.config.settings import Settings
from palinurus.patterns import compile_late

FILES = ("palinurus.plugin.json", "plugin.json", "openclaw.plugin.json")
GROUP = "palinurus.plugins"
ENTRY = "plugin:register"  # unless the manifest says another
CAPABILITIES = ("tools", "hooks", "commands", "vendors", "channels", "skills", "cli", "mcp")
LARGEST = 1_000_000  # bytes of a manifest
_ID = compile_late(r"[a-z0-9][a-z0-9._@/-]{0,63}")
# What OpenClaw's manifests list -> the capability that is
_LISTS = {"providers": "vendors", "channels": "channels", "skills": "skills", "cli": "cli", "commands": "commands"}
DEPTH = 32  # of a schema
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
}
_BOUNDS: tuple[tuple[str, tuple[type, ...], Callable[[Any, Any], bool], str], ...] = (
    ("minimum", (int, float), lambda v, n: v >= n, "must be {} or more"),
    ("maximum", (int, float), lambda v, n: v <= n, "must be {} or less"),
    ("minLength", (str,), lambda v, n: len(v) >= n, "must have at least {} characters"),
    ("maxLength", (str,), lambda v, n: len(v) <= n, "must have at most {} characters"),
    ("minItems", (list,), lambda v, n: len(v) >= n, "must have at least {} items"),
    ("maxItems", (list,), lambda v, n: len(v) <= n, "must have at most {} items"),
    ("pattern", (str,), lambda v, n: _matches(v, n), "must match {}"),
)


def check_schema(schema: Any, value: Any, path: Path) -> list[ConfigFinding]:
    """Everything wrong with `value`, which stands at `path` of the config, by what configs need of JSON schema.

    Exact: nothing is converted. Never raises; a message quotes no value, which may be a secret."""
    return list(_check(schema, value, path, 0))


def fill_defaults(schema: Any, value: dict[str, Any]) -> dict[str, Any]:
    """The config with the schema's defaults for what is not written, at every depth."""
    made = dict(value)
    for name, below in _properties(schema).items():
        if name not in made and isinstance(below, dict) and "default" in below:
            made[name] = below["default"]
        elif isinstance(made.get(name), dict):
            made[name] = fill_defaults(below, made[name])
    return made


def _properties(schema: Any) -> Mapping[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _check(schema: Any, value: Any, path: Path, depth: int) -> Iterator[ConfigFinding]:
    if not isinstance(schema, dict) or depth > DEPTH:
        return
    for name in ("anyOf", "oneOf"):
        options = schema.get(name)
        if isinstance(options, list) and not any(not list(_check(o, value, path, depth + 1)) for o in options):
            yield ConfigFinding(path, "is none of the kinds that are allowed here")
            return
    kinds = schema.get("type")
    wanted = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if wanted and not any(_TYPES.get(kind, lambda v: True)(value) for kind in wanted if isinstance(kind, str)):
        yield ConfigFinding(path, f"expected {' or '.join(map(str, wanted))}")
        return
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(allowed, list) and value not in allowed:
        words = ", ".join(map(str, allowed[:20]))
        yield ConfigFinding(path, f"must be one of {words}", suggest_nearest(str(value), map(str, allowed)))
    for name, types, fits, words in _BOUNDS:
        bound = schema.get(name)
        known = isinstance(bound, str if name == "pattern" else int | float)
        if known and isinstance(value, types) and not isinstance(value, bool) and not fits(value, bound):
            yield ConfigFinding(path, words.format(bound))
    if isinstance(value, dict):
        yield from _object(schema, value, path, depth)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _check(schema.get("items"), one, (*path, at), depth + 1)


def _object(schema: dict[str, Any], value: dict[str, Any], path: Path, depth: int) -> Iterator[ConfigFinding]:
    known, others = _properties(schema), schema.get("additionalProperties", True)
    for name, below in value.items():
        if name in known:
            yield from _check(known[name], below, (*path, name), depth + 1)
        elif others is False:
            yield ConfigFinding((*path, name), "unknown key", suggest_nearest(name, known))
        else:
            yield from _check(others, below, (*path, name), depth + 1)
    needed = schema.get("required")
    for name in needed if isinstance(needed, list) else ():
        if isinstance(name, str) and name not in value:
            yield ConfigFinding(path, f"the key {name!r} is missing")


def _matches(value: str, pattern: Any) -> bool:
    try:
        return re.search(str(pattern), value[:10_000]) is not None
    except re.error:
        return True


class PluginManifest(msgspec.Struct, frozen=True):
    """What a plugin says of itself. `entry` is "module:function"; "" if it has no Python part."""

    id: str
    folder: str
    file: str = ""  # the manifest
    name: str = ""
    description: str = ""
    version: str = ""
    entry: str = ""
    capabilities: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()  # absolute folders
    cli: dict[str, str] = {}  # subcommand -> what it does
    schema: dict[str, Any] | None = None  # of its config
    package: str = ""  # the distribution it comes with


class BrokenPlugin(msgspec.Struct, frozen=True):
    """A plugin that cannot be used, and why."""

    id: str
    folder: str
    reason: str


def find_plugins(settings: Settings, wanted: tuple[str, ...] | None = None) -> list[PluginManifest | BrokenPlugin]:
    """All plugins, or those of these ids; of one id the first counts. Never raises.

    Installed packages are looked through only if folders do not have all that is wanted.
    """
    made: dict[str, PluginManifest | BrokenPlugin] = {}
    for one in _folders(settings):
        if wanted is None or one.id in wanted:
            made.setdefault(one.id, one)
    if wanted is None or any(ident not in made for ident in wanted):
        for one in _packages(wanted):
            made.setdefault(one.id, one)
    return list(made.values())


def find_enabled_plugins(settings: Settings) -> list[PluginManifest | BrokenPlugin]:
    """Those the owner enabled."""
    plugins = settings.plugins
    found = find_plugins(settings, plugins.enabled_ids) if plugins.enabled_ids else []
    return [one for one in found if not plugins.refusal(one.id)]


def list_skill_folders(settings: Settings) -> tuple[tuple[str, str], ...]:
    """(plugin id, folder) of the skills that enabled plugins bring."""
    ready = (one for one in find_enabled_plugins(settings) if isinstance(one, PluginManifest))
    return tuple((one.id, folder) for one in ready for folder in one.skills)


def explain_unused(plugins: PluginSettings, one: PluginManifest | BrokenPlugin) -> str:
    """Why it is not in use; "" if it is."""
    return plugins.refusal(one.id) or (one.reason if isinstance(one, BrokenPlugin) else "")


def _folders(settings: Settings) -> Iterator[PluginManifest | BrokenPlugin]:
    for path in settings.plugins.paths:  # each is a plugin, or a folder of plugins
        yield from [read_manifest(path)] if _manifest(path) else map(read_manifest, _below(path))
    yield from map(read_manifest, _below(os.path.join(settings.home, "plugins")))


def _below(path: str) -> list[str]:
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return []
    folders = [os.path.join(path, name) for name in names if name[0] not in "._"]
    return [folder for folder in folders if os.path.isdir(folder)]


def _manifest(folder: str) -> str:
    return next((p for p in (os.path.join(folder, name) for name in FILES) if os.path.isfile(p)), "")


def read_manifest(folder: str) -> PluginManifest | BrokenPlugin:
    """The plugin in a folder."""
    file, name = _manifest(folder), os.path.basename(os.path.abspath(folder))
    if not file:
        return BrokenPlugin(name, folder, f"has no {FILES[0]}")
    return _parsed(file, folder, name)


def _packages(wanted: tuple[str, ...] | None) -> Iterator[PluginManifest | BrokenPlugin]:
    for point in late.load_part("packages")(group=GROUP):
        if wanted is not None and point.name not in wanted:
            continue
        module = point.value.partition(":")[0]
        try:
            spec = importlib.util.find_spec(module.partition(".")[0])  # finds the package; imports nothing
        except (ImportError, ValueError):
            spec = None
        places = list(spec.submodule_search_locations or ()) if spec else []
        folder = places[0] if places else os.path.dirname(spec.origin or "") if spec else ""
        file = _manifest(folder) if folder else ""
        if not file:
            yield BrokenPlugin(point.name, folder, f"its package {module.partition('.')[0]} has no {FILES[0]} in it")
            continue
        one = _parsed(file, folder, point.name, point.value)
        package = point.dist.name if point.dist else module
        yield one if isinstance(one, BrokenPlugin) else msgspec.structs.replace(one, package=package)


def _parsed(file: str, folder: str, fallback: str, packaged: str = "") -> PluginManifest | BrokenPlugin:
    """`packaged` is the entry point of an installed package. `fallback` names a plugin that cannot say its id."""
    text = ""
    try:
        with open(file, "rb") as handle:
            text = handle.read(LARGEST).decode()
        raw = relaxed.decode_json5(text)
    except (OSError, ValueError) as exc:
        fault = lines.scan_json(text).fault if text else None
        where = f"{file}:{fault.line}" if fault else file
        return BrokenPlugin(
            fallback, folder, f"the manifest cannot be read: {fault.message if fault else exc} ({where})"
        )
    if not isinstance(raw, dict):
        return BrokenPlugin(fallback, folder, f"the manifest must be an object ({file}:1)")
    made, key, problem = _made(raw, file, folder, packaged)
    if made is None:
        line = lines.scan_json(text).line((key,))
        return BrokenPlugin(fallback, folder, f"{key}: {problem} ({file}:{line})")
    return made


def _made(raw: dict[str, Any], file: str, folder: str, packaged: str) -> tuple[PluginManifest | None, str, str]:
    """The manifest, or which key is wrong and how."""
    ident = raw.get("id")
    if not isinstance(ident, str) or not _ID.fullmatch(ident):
        return None, "id", "must be a text of a-z, 0-9, '.', '-' and '_'"
    listed = raw.get("capabilities", [])
    if not isinstance(listed, list) or not all(one in CAPABILITIES for one in listed):
        return None, "capabilities", f"must be a list of {', '.join(CAPABILITIES)}"
    schema = raw.get("configSchema")
    if schema is not None and not isinstance(schema, dict):
        return None, "configSchema", "must be a JSON schema, an object"
    skills = _texts(raw.get("skills"))
    folders = tuple(os.path.realpath(os.path.join(folder, one)) for one in skills)
    root = os.path.realpath(folder)
    if any(os.path.commonpath((root, one)) != root for one in folders):
        return None, "skills", "must lie inside the plugin's folder"
    entry, problem = _code(raw, folder, packaged)
    if problem:
        return None, "entry" if "entry" in raw else "id", problem
    given = dict.fromkeys(listed) | {cap: None for key, cap in _LISTS.items() if raw.get(key)}
    contracts = raw.get("contracts")
    if isinstance(contracts, dict) and contracts.get("tools"):
        given["tools"] = None
    about = {key: str(raw.get(key) or "") for key in ("name", "description", "version")}
    own = raw.get("cli")
    cli = {name: str(line) for name, line in own.items()} if isinstance(own, dict) else dict.fromkeys(_texts(own), "")
    made = PluginManifest(
        ident, folder, file, entry=entry, capabilities=tuple(given), skills=folders, cli=cli, schema=schema, **about
    )
    return made, "", ""


def _code(raw: dict[str, Any], folder: str, packaged: str) -> tuple[str, str]:
    """Where its code is ("" if it has none), and what is wrong."""
    entry = packaged or raw.get("entry", ENTRY)
    if not isinstance(entry, str) or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", entry):
        return "", 'must be "module:function"'
    file = entry.partition(":")[0].replace(".", os.sep) + ".py"
    if packaged or os.path.isfile(os.path.join(folder, file)):
        return entry, ""
    if "entry" in raw or not raw.get("skills"):
        return "", f"there is no {file} beside it, so there is nothing to run"
    return "", ""


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str) and one.strip()] if isinstance(value, list) else []
