"""The schema of the config as JSON Schema, whole or one key of it, with hints for forms. Made from the types once."""

from __future__ import annotations

from functools import cache
from typing import Any

from palinurus.config.check import describe_key, find_note, walk_keys
from palinurus.config.explain import needs_restart
from palinurus.config.keypath import Path, parse_path
from palinurus.config.kinds import Kind, make_kind
from palinurus.config.schema import Config
from palinurus.config.secrets import is_secret

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
    words = find_note(path).about
    shown = ".".join("*" if isinstance(part, int) else part for part in path)
    return {"hint": _hint(path, words), "hintPath": shown} if words else {}


def _reload(path: Path) -> str:
    return "restart" if path and needs_restart(path) else "hot"
