"""`pal plugins`: which plugins there are, switching them on and off, what is wrong with one, a new one, its tests.

Also runs the subcommands that plugins bring: `pal NAME` for a name the program itself does not have.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import subprocess
import sys
from typing import Any

import msgspec

from palinurus.cli.args import JSON, Verb, format_rows, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.main import COMMANDS
from palinurus.cli.render import strip_controls
from palinurus.config.load import LoadedConfig
from palinurus.config.rewrite import set_config_key
from palinurus.config.sections.plugins import PluginEntry
from palinurus.config.settings import Settings
from palinurus.core.text import format_count
from palinurus.errors import BadRequest, ConfigError, NotFound
from palinurus.patterns import compile_late
from palinurus.plugins import scripts
from palinurus.plugins.api import PluginContributions
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.load import list_config_problems, load_plugin
from palinurus.plugins.manifest import BrokenPlugin, PluginManifest, explain_unused, find_plugins

TEMPLATE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "plugins", "template")
_NAME = compile_late(r"[a-z][a-z0-9-]{0,31}")


def run_plugins(argv: list[str]) -> int:
    """0; 1 if `doctor` or `test` found something. Raises BadRequest, NotFound, ConfigError, StateError."""
    about = "Plugins: tools, hooks, commands, vendors, channels and skills of others."
    asked = parse_verb("plugins", about, VERBS, argv, default="list")
    return int(asked.run(asked, load_settings(os.environ)))


def run_plugin_command(argv: list[str]) -> int:
    """`pal NAME …` for a name the program does not have: a plugin's, or nobody's. Raises BadRequest."""
    name, args = argv[0], argv[1:]
    try:
        here = load_settings(os.environ).settings
    except ConfigError:
        here = None
    if here is not None and here.plugins.enabled_ids:
        for one in find_plugins(here, here.plugins.enabled_ids):
            if isinstance(one, PluginManifest) and name in one.cli and not here.plugins.refusal(one.id):
                return _subcommand(one, here, name, args)
    close = difflib.get_close_matches(name, COMMANDS, 1)
    hint = f"did you mean `pal {close[0]}`?" if close else "`pal --help` lists the commands"
    raise BadRequest(f"there is no command {name!r}", fix=hint)


def _subcommand(one: PluginManifest, here: Settings, name: str, args: list[str]) -> int:
    brought = load_plugin(one, here, Hooks())
    if isinstance(brought, BrokenPlugin):
        raise BadRequest(f"plugin {one.id}: {brought.reason}", fix="`pal plugins doctor`")
    if name not in brought.cli:
        raise BadRequest(
            f"plugin {one.id} lists the command {name!r} but does not bring it",
            fix="tell its author, or turn it off: `pal plugins disable`",
        )
    return int(brought.cli[name](args) or 0)


def _list(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    here = loaded.settings
    rows = [(one, explain_unused(here.plugins, one)) for one in find_plugins(here)]
    others = scripts.find_scripts(here)
    if asked.json:
        told = [{**_plain(one), "enabled": not why, "reason": why} for one, why in rows]
        print(to_json({"plugins": told, "scripts": [msgspec.structs.asdict(s) for s in others]}))
        return 0
    width = max((len(one.id) for one, _ in rows), default=0)
    for one, why in rows:
        mark = "!" if isinstance(one, BrokenPlugin) else "-" if why else "+"
        about = why or (one.description if isinstance(one, PluginManifest) else "")
        print(strip_controls(f"{mark} {one.id:<{width}}  {about}"))
    for script in others:
        print(
            strip_controls(
                f"{'-' if script.reason else '+'} hooks/{script.name}  {script.reason or ', '.join(script.events)}"
            )
        )
    on = sum(not why for _, why in rows)
    ran = f"{sum(not s.reason for s in others)} of {format_count(len(others), 'hook script')}"
    print(f"in use: {on} of {format_count(len(rows), 'plugin')}, {ran}")
    return 0


def _info(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    one = _one(loaded.settings, asked.name)
    why = explain_unused(loaded.settings.plugins, one)
    if asked.json:
        print(to_json({**_plain(one), "enabled": not why, "reason": why}))
        return 0
    rows = [("id", one.id), ("state", why or "enabled"), ("folder", one.folder)]
    if isinstance(one, PluginManifest):
        rows += [
            ("version", one.version),
            ("about", one.description),
            ("package", one.package),
            ("may bring", ", ".join(one.capabilities)),
            ("commands", ", ".join(f"pal {name}" for name in one.cli)),
            ("skills", ", ".join(one.skills)),
        ]
    print(strip_controls(format_rows(rows, 10)))
    return 0


def _switch(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    here = loaded.settings
    one = _one(here, asked.name)
    on = asked.what == "enable"
    if on and isinstance(one, BrokenPlugin):
        raise BadRequest(f"{one.id} cannot be used: {one.reason}", fix="`pal plugins doctor` says what is wrong")
    key = f'plugins.entries["{one.id}"]'
    done = set_config_key(here.home, os.environ, f"{key}.enabled", on)
    if on and asked.conversation:
        set_config_key(here.home, os.environ, f"{key}.hooks.allowConversationAccess", True)
    if on and here.plugins.allow and one.id not in here.plugins.allow:
        set_config_key(here.home, os.environ, "plugins.allow", [*here.plugins.allow, one.id])
    print(strip_controls(f"{one.id} is {'enabled' if on else 'disabled'} ({done.file}:{done.line})"))
    if on and isinstance(one, PluginManifest):
        print(strip_controls(f"it runs inside the program and may bring: {', '.join(one.capabilities) or 'nothing'}"))
    print("a gateway that runs now takes it over by itself, once its turns are done")
    return 0


def _doctor(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    good, told = examine_plugins(loaded.settings)
    if asked.json:
        rows = [{"id": ident, "problem": problem} for ident, problem in told]
        print(to_json({"plugins": good, "problems": rows}))
    else:
        lines = [f"+ {ident}  {brings}" for ident, brings in good.items()]
        lines += [f"! {ident}  {problem}" for ident, problem in told]
        print("\n".join([*map(strip_controls, lines), format_count(len(told), "problem")]))
    return 1 if told else 0


def examine_plugins(here: Settings) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """(what each plugin that works brings, what is wrong with others). Loads them: this runs plugins' code."""
    good: dict[str, str] = {}
    told: list[tuple[str, str]] = []
    for ident in here.plugins.enabled_ids:
        one = next(iter(find_plugins(here, (ident,))), None)
        if one is None:
            if ident in here.plugins.allow:
                told.append((ident, "enabled, but there is no such plugin"))
        elif isinstance(one, BrokenPlugin):
            told.append((ident, one.reason))
        elif bad := list_config_problems(one, here.plugins.entries.get(ident, PluginEntry()), here.home):
            told += [(ident, line) for line in bad]
        else:
            brought = load_plugin(one, here, Hooks())
            if isinstance(brought, PluginContributions):
                good[ident] = _brings(brought, one)
            told += [
                (ident, line) for line in ([brought.reason] if isinstance(brought, BrokenPlugin) else brought.warnings)
            ]
    told += [(f"hooks/{script.name}", script.reason) for script in scripts.load_scripts(here)[1]]
    return good, told


def _brings(brought: PluginContributions, one: PluginManifest) -> str:
    parts: list[tuple[str, list[str]]] = [
        ("tools", list(brought.tools)),
        ("hooks", [hook.point for hook in brought.hooks]),
        ("commands", [f"/{name}" for name in brought.commands]),
        ("vendors", list(brought.vendors)),
        ("channels", list(brought.channels)),
        ("skills", [os.path.basename(path) for path in (*one.skills, *brought.skills)]),
        ("cli", list(brought.cli)),
    ]
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in parts if names) or "brings nothing"


def _new(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    name = asked.name
    if not _NAME.fullmatch(name) or name in COMMANDS:
        raise BadRequest(f"{name!r} cannot be a plugin's name", fix="a-z, 0-9 and -, beginning with a letter")
    folder = os.path.join(os.path.abspath(asked.dir or os.path.join(loaded.settings.home, "plugins")), name)
    if os.path.exists(folder):
        raise BadRequest(f"{folder} is there already", fix="choose another name, or remove that folder first")
    for root, _, files in os.walk(TEMPLATE):
        target = os.path.join(folder, os.path.relpath(root, TEMPLATE).replace("NAME", name))
        os.makedirs(target, exist_ok=True)
        for file in files:
            _copied(os.path.join(root, file), os.path.join(target, file.removesuffix(".txt")), name)
    print(f"made {folder}")
    print(f"  pal plugins test {folder if asked.dir else name}    its tests")
    print(f"  pal plugins enable {name}  use it")
    return 0


def _copied(source: str, target: str, name: str) -> None:
    with open(source, encoding="utf-8") as handle:
        text = handle.read()
    with open(target, "w", encoding="utf-8") as handle:
        handle.write(text.replace("NAME", name).replace("TOOL", f"{name.replace('-', '_')}_greet"))


# unittest runs its loops in debug mode, in which asyncio tells of every step that took a tenth of a second.
_TESTS = "import logging, unittest; logging.getLogger('asyncio').setLevel(logging.ERROR); unittest.main(module=None)"


def _test(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    folder = os.path.abspath(asked.name) if os.path.isdir(asked.name) else _one(loaded.settings, asked.name).folder
    if not any(name.startswith("test") and name.endswith(".py") for name in os.listdir(folder)):
        raise NotFound(f"{folder} has no tests", fix="write a test_….py; `pal plugins new` shows one")
    quiet = ("-W", "default", "-W", "ignore::ResourceWarning")  # ours would be told of, not the plugin's alone
    line = [sys.executable, *quiet, "-c", _TESTS, "discover", "-s", folder, "-t", folder, "-p", "test*.py"]
    done = subprocess.run(line, cwd=folder, check=False)
    shutil.rmtree(os.path.join(folder, "__pycache__"), ignore_errors=True)
    return 1 if done.returncode else 0


def _one(here: Settings, name: str) -> PluginManifest | BrokenPlugin:
    every = find_plugins(here)
    one = next((one for one in every if one.id == name), None)
    if one is None:
        close = difflib.get_close_matches(name, [one.id for one in every], 1)
        hint = f"did you mean {close[0]!r}?" if close else "`pal plugins list`"
        raise NotFound(f"there is no plugin {name!r}", fix=hint)
    return one


def _plain(one: PluginManifest | BrokenPlugin) -> dict[str, Any]:
    return dict(msgspec.to_builtins(one)) if isinstance(one, PluginManifest) else msgspec.structs.asdict(one)


_NAMED = make_arg("name")
_CONVERSATION = make_arg("--conversation", action="store_true", help="its hooks may see what people and the model say")
_DIR = make_arg("--dir", default="", help="where to make it (default: plugins in the state directory)")
VERBS = {
    "list": Verb(_list, "list plugins and hook scripts, and why some are not used", (JSON,)),
    "info": Verb(_info, "show all about a plugin", (_NAMED, JSON)),
    "enable": Verb(_switch, "switch a plugin on", (_NAMED, _CONVERSATION)),
    "disable": Verb(_switch, "switch a plugin off", (_NAMED,)),
    "doctor": Verb(_doctor, "load what is enabled and say what is wrong", (JSON,)),
    "new": Verb(_new, "make a working plugin to begin with", (_NAMED, _DIR)),
    "test": Verb(_test, "run a plugin's own tests", (_NAMED,)),
}
