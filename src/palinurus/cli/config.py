"""`pal config`: get, set, unset, explain, validate, path. Only words in and out; everything is decided in `config`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from palinurus.cli.args import JSON, Verb, make_arg, parse_verb, to_json
from palinurus.config import paths, relaxed
from palinurus.config.check import describe_key
from palinurus.config.explain import explain_key, find_effective, resolve_key
from palinurus.config.keypath import Path, get_at, has_at, parse_path, show_path
from palinurus.config.load import find_doubles, load_config, read_config
from palinurus.config.rewrite import KeyChange, set_config_key, unset_config_key
from palinurus.config.secrets import is_secret, mask_secrets
from palinurus.errors import BadRequest, NotFound


def run_config(argv: list[str]) -> int:
    """Exit code: 0, or 1 if `validate` found something fatal. Raises PalinurusError for `main` to print."""
    asked = parse_verb("config", "Read, change and check the configuration.", VERBS, argv, default="list")
    return int(asked.run(asked, paths.find_home(os.environ), os.environ))


def _get(asked: argparse.Namespace, home: str, environ: Mapping[str, str]) -> int:
    loaded = load_config(home, environ)
    _warn(loaded.fallback)
    path = resolve_key(loaded, asked.key)
    if has_at(loaded.raw, path):
        value = get_at(loaded.raw, path)
        value = value if asked.reveal else mask_secrets(value, path)
    else:
        value = find_effective(loaded, path)
        if value is None:
            raise NotFound(f"{show_path(path)} is not set", fix=f"`pal config set {show_path(path)} VALUE` sets it")
    print(value if isinstance(value, str) and not asked.json else to_json(value, pretty=True))
    return 0


def _list(asked: argparse.Namespace, home: str, environ: Mapping[str, str]) -> int:
    loaded = load_config(home, environ)
    _warn(loaded.fallback)
    rows = dict(_flatten(mask_secrets(loaded.raw, ()), "")) if loaded.raw else {}
    if asked.json:
        print(to_json(rows, pretty=True))
        return 0
    for key, value in rows.items():
        print(f"{key} = {to_json(value)}")
    print(f"{paths.locate_config_file(home)}: {len(rows)} set; `pal config explain KEY` tells what a key means")
    return 0


def _flatten(value: Any, before: str) -> Iterator[tuple[str, Any]]:
    """What is written, by whole keys; lists stay as they are."""
    if not (isinstance(value, dict) and value):
        yield before, value
        return
    for name, inner in value.items():
        plain = name.replace("_", "").replace("-", "").isalnum()
        below = f"{before}.{name}" if before and plain else name if plain else f'{before}["{name}"]'
        yield from _flatten(inner, below)


def _set(asked: argparse.Namespace, home: str, environ: Mapping[str, str]) -> int:
    try:
        path = parse_path(asked.key)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    value = _value(asked.value, path, asked.json_value)
    done = set_config_key(home, environ, asked.key, value)
    _report(done, f"{done.key} = {to_json(mask_secrets(value, path), pretty=True)}")
    return 0


def _unset(asked: argparse.Namespace, home: str, environ: Mapping[str, str]) -> int:
    done = unset_config_key(home, environ, asked.key)
    _report(done, f"{done.key} removed")
    return 0


def _explain(asked: argparse.Namespace, home: str, environ: Mapping[str, str]) -> int:
    loaded = load_config(home, environ)
    _warn(loaded.fallback)
    found = explain_key(loaded, asked.key)
    rows = [
        ("value", ("" if found.keys else "(none)") if found.value is None else to_json(found.value, pretty=True)),
        ("from", found.source),
        ("change", found.when),
        ("note", found.note),
        ("about", found.about),
    ]
    if asked.json:
        keys = [{"key": line.name, "value": line.value, "about": line.about} for line in found.keys]
        told = {name: text for name, text in rows[1:] if text}
        print(to_json({"key": found.key, "value": found.value, **told, "keys": keys}, pretty=True))
        return 0
    print(found.key)
    for name, text in rows:
        if text:
            print(f"  {name + ':':8}{text}".replace("\n", "\n          "))
    for line in found.keys:
        shown = "" if line.value is None else to_json(line.value)
        said = f"{line.name} = {shown[:40]}" if shown else line.name
        print(f"  {said:<44}{line.about}".rstrip())
    for problem in loaded.problems:
        if problem.path == found.key:
            print(f"  problem: {problem}")
    return 0


def _validate(asked: argparse.Namespace, home: str, environ: Mapping[str, str]) -> int:
    file = paths.locate_config_file(home)
    reading = read_config(file, home, environ)
    problems = reading.problems + find_doubles(reading) + reading.inert
    fatal = sum(problem.fatal for problem in problems)
    if asked.json:
        rows = [{"level": "error" if one.fatal else "warning", "key": one.path, "text": str(one)} for one in problems]
        print(to_json({"file": file, "there": reading.data is not None, "problems": rows}, pretty=True))
        return 1 if fatal else 0
    for problem in problems:
        print(f"{'error' if problem.fatal else 'warning'}: {problem}")
    if not problems:
        print(f"{file}: valid" if reading.data is not None else f"{file}: not there, defaults apply")
    else:
        print(f"{file}: {_count(fatal, 'error')}, {_count(len(problems) - fatal, 'warning')}")
    return 1 if fatal else 0


def _path(asked: argparse.Namespace, home: str, environ: Mapping[str, str]) -> int:
    file = paths.locate_config_file(home)
    print(to_json({"file": file}) if asked.json else file)
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _value(text: str, path: Path, strict: bool) -> Any:
    """JSON5 if it is, else the text itself; also the text where the schema wants one and JSON5 gave something else."""
    try:
        value = relaxed.decode_json5(text)
    except ValueError:
        if strict:
            shown = "VALUE" if is_secret(path) else repr(text[:60])
            raise BadRequest(f"{shown} is not JSON5", fix="texts need quotes, inside those of the shell") from None
        return text
    kind = describe_key(path)
    if not strict and kind is not None and not kind.accepts(value) and kind.accepts(text):
        return text
    return value


def _report(done: KeyChange, what: str) -> None:
    where = f"{done.file}:{done.line}" if done.line else done.file
    print(f"{what} ({where})" if done.changed else f"{what}: unchanged ({where})")
    if done.changed:
        print(done.when)
    if done.comments_lost:
        _warn(
            "the file was written anew and its comments are gone; the old text is in " + paths.locate_backup(done.file)
        )
    for problem in done.problems:
        _warn(f"still wrong: {problem}")


def _warn(text: str) -> None:
    if text:
        print(f"pal: {text}", file=sys.stderr)


_KEY = make_arg("key", metavar="KEY")
VERBS = {
    "list": Verb(_list, "what is set, key by key (the default)", (JSON,)),
    "get": Verb(
        _get,
        "print a value",
        (
            _KEY,
            make_arg("--json", action="store_true", help="print it as JSON"),
            make_arg("--reveal", action="store_true", help="show secrets"),
        ),
    ),
    "set": Verb(
        _set,
        "change a value in the file",
        (
            _KEY,
            make_arg("value", metavar="VALUE", help="JSON5, else taken as a text"),
            make_arg("--json-value", action="store_true", help="VALUE must be JSON5"),
        ),
    ),
    "unset": Verb(_unset, "remove a value from the file", (_KEY,)),
    "explain": Verb(_explain, "tell what a key means, its value and where that comes from", (_KEY, JSON)),
    "validate": Verb(_validate, "list every problem in the file", (JSON,)),
    "path": Verb(_path, "print where the file is", (JSON,)),
}
