"""A plugin's config against the JSON schema of its manifest: exact, nothing is converted. Pure; never raises.

Knows the part of JSON schema that configs need. A message quotes no value, which may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from palinurus.config.check import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path

DEPTH = 32

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
    """Everything wrong with `value`, which stands at `path` of the config."""
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
