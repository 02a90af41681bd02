"""JSON Schema for answers: the part of it that says what a value must be, checked exactly. Pure; never raises.

A schema that uses a word that is not checked here is refused before anything runs (`list_unsupported`): an answer that
was promised to fit must fit. `title`, `description`, `default`, `examples` and `format` say nothing that is checked, as
the specification has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from palinurus.patterns import compile_late

DEPTH, SIZE, SHOWN = 40, 200_000, 5
_NOTES = frozenset(
    {"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "format",
     "deprecated", "readOnly", "writeOnly", "nullable"}
)  # fmt: skip
_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int | float) and not isinstance(v, bool) and v == int(v),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}
# Word -> (of which values, whether it holds, what is said otherwise).
_LIMITS: dict[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool], str]] = {
    "minLength": (str, lambda v, n: len(v) >= n, "must have at least {} characters"),
    "maxLength": (str, lambda v, n: len(v) <= n, "must have at most {} characters"),
    "minimum": ((int, float), lambda v, n: v >= n, "must be at least {}"),
    "maximum": ((int, float), lambda v, n: v <= n, "must be at most {}"),
    "exclusiveMinimum": ((int, float), lambda v, n: v > n, "must be greater than {}"),
    "exclusiveMaximum": ((int, float), lambda v, n: v < n, "must be less than {}"),
    "multipleOf": ((int, float), lambda v, n: abs(v / n - round(v / n)) < 1e-9, "must be a multiple of {}"),
    "minItems": (list, lambda v, n: len(v) >= n, "must have at least {} items"),
    "maxItems": (list, lambda v, n: len(v) <= n, "must have at most {} items"),
    "minProperties": (dict, lambda v, n: len(v) >= n, "must have at least {} properties"),
    "maxProperties": (dict, lambda v, n: len(v) <= n, "must have at most {} properties"),
}
_CHECKED = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems", "uniqueItems",
     "pattern", "anyOf", "oneOf", "allOf", "not", "$ref", *_LIMITS}
)  # fmt: skip
_NAMED, _LISTED, _SINGLE = ("properties", "$defs", "definitions"), ("anyOf", "oneOf", "allOf", "prefixItems"), ("not",)
_REPEAT = compile_late(r"[*+]|\{\d+(?:,\d*)?\}|\?")


def list_unsupported(schema: Any) -> list[str]:
    """What of a schema cannot be promised, one sentence each; [] when all of it is checked."""
    if not isinstance(schema, dict):
        return ["the schema must be an object"]
    if len(msgspec.json.encode(schema)) > SIZE:
        return [f"the schema is larger than {SIZE} bytes"]
    return list(dict.fromkeys(_odd(schema, schema, "#", DEPTH)))[:SHOWN]


def _odd(schema: Any, whole: dict[str, Any], at: str, depth: int) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth == 0:
        yield f"{at} is no schema, or nested too deeply"
        return
    yield from (f"{at}: {word!r} is not supported" for word in schema if word not in _CHECKED | _NOTES)
    yield from _misused(schema, whole, at)
    for name in _NAMED:
        inner = schema.get(name, {})
        for key, one in inner.items() if isinstance(inner, dict) else ():
            yield from _odd(one, whole, f"{at}/{name}/{key}", depth - 1)
    for name in _LISTED:
        members = schema.get(name, [])
        for index, one in enumerate(members if isinstance(members, list) else ()):
            yield from _odd(one, whole, f"{at}/{name}/{index}", depth - 1)
    for name in (*_SINGLE, "items", "additionalProperties"):
        if name in schema:
            yield from _odd(schema[name], whole, f"{at}/{name}", depth - 1)


def _misused(schema: dict[str, Any], whole: dict[str, Any], at: str) -> Iterator[str]:
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            yield f"{at}: there is no type {kind!r}"
    shapes = {"properties": dict, "required": list, "enum": list, **dict.fromkeys(_LISTED, list)}
    yield from (f"{at}: {name} has the wrong form" for name, kind in shapes.items() if not _is(schema, name, kind))
    yield from (f"{at}: {name} must be a number" for name in _LIMITS if not _is(schema, name, (int, float)))
    if schema.get("multipleOf", 1) == 0:
        yield f"{at}: multipleOf must not be 0"
    if "$ref" in schema and _resolve(schema["$ref"], whole) is None:
        yield f"{at}: only references inside the schema are followed, and {schema['$ref']!r} is none"
    if "pattern" in schema and not is_cheap_pattern(schema["pattern"]):
        yield f"{at}: this pattern is not supported (repeats inside repeats, or too many of them)"


def _is(schema: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> bool:
    return name not in schema or (isinstance(schema[name], kind) and not isinstance(schema[name], bool))


def is_cheap_pattern(pattern: Any) -> bool:
    """Can it be matched in little time, whatever the text? No repeated group that repeats or chooses inside, two open
    repeats at most, nothing that looks back."""
    if not isinstance(pattern, str) or len(pattern) > 500:
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    plain = re.sub(r"\[\^?\]?(?:\\.|[^\]\\])*\]", "c", re.sub(r"\\[1-9]", "(?P=", re.sub(r"\\[^1-9]", "c", pattern)))
    if "(?P=" in plain or len(re.findall(r"[*+]|\{\d+,\}", plain)) > 2:
        return False
    repeated = re.findall(r"\(([^()]*)\)(?:[*+]|\{\d+,?\d*\})", plain)
    nested = re.search(r"\)[^()]*\)(?:[*+]|\{\d+,?\d*\})", plain)
    return not nested and not any("|" in inner or _REPEAT.search(inner.removeprefix("?:")) for inner in repeated)


def find_violations(schema: dict[str, Any], value: Any) -> list[str]:
    """Where a value does not fit a schema that `list_unsupported` found nothing in; [] when it fits."""
    found = _violations(schema, value, "", schema, depth=DEPTH)
    return [text for text, _ in zip(found, range(SHOWN), strict=False)]


def _violations(schema: Any, value: Any, at: str, whole: dict[str, Any], depth: int) -> Iterator[str]:
    here = at or "the answer"
    if depth == 0 or schema is False:
        yield f"{here} is not allowed" if depth else f"{here} is nested too deeply"
        return
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _violations(_resolve(schema["$ref"], whole), value, at, whole, depth=depth - 1)
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    kinds = [*kinds, "null"] if kinds and schema.get("nullable") is True else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        yield f"{here} must be {' or '.join(kinds)}, not {_show(value)}"
        return
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{here} must be one of {_show(schema['enum'])}, not {_show(value)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{here} must be {_show(schema['const'])}, not {_show(value)}"
    for word, (kind, holds, text) in _LIMITS.items():
        if (
            word in schema
            and isinstance(value, kind)
            and not isinstance(value, bool)
            and not holds(value, schema[word])
        ):
            yield f"{here} {text.format(schema[word])}"
    if isinstance(value, str) and "pattern" in schema and not _matches(schema["pattern"], value):
        yield f"{here} must match {schema['pattern']}"
    yield from _inside(schema, value, at, whole, depth=depth)
    yield from _combined(schema, value, at, whole, depth=depth)


def _inside(schema: dict[str, Any], value: Any, at: str, whole: dict[str, Any], depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{at or 'the answer'} lacks {name!r}" for name in schema.get("required", ()) if name not in value)
        for name, one in value.items():
            inner = known[name] if name in known else schema.get("additionalProperties", True)
            if inner is False and name not in known:
                yield f"{at or 'the answer'} must not have {name[:80]!r}"
            else:
                yield from _violations(inner, one, f"{at}.{name}".lstrip("."), whole, depth=depth - 1)
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        for index, one in enumerate(value):
            inner = first[index] if index < len(first) else schema.get("items", True)
            yield from _violations(inner, one, f"{at}[{index}]", whole, depth=depth - 1)
        if schema.get("uniqueItems") is True and len({msgspec.json.encode(v, order="sorted") for v in value}) < len(
            value
        ):
            yield f"{at or 'the answer'} must not hold an item twice"


def _combined(schema: dict[str, Any], value: Any, at: str, whole: dict[str, Any], depth: int) -> Iterator[str]:
    here = at or "the answer"

    def wrongs(one: Any) -> list[str]:
        return [text for text, _ in zip(_violations(one, value, at, whole, depth=depth - 1), range(2), strict=False)]

    for one in schema.get("allOf", ()):
        yield from wrongs(one)
    if "anyOf" in schema and all(found := [wrongs(one) for one in schema["anyOf"]]):
        yield min(found, key=len)[0] if found else f"{here} is not allowed"
    if "oneOf" in schema and (fits := sum(not wrongs(one) for one in schema["oneOf"])) != 1:
        yield f"{here} must fit exactly one of {len(schema['oneOf'])} forms, it fits {fits}"
    if "not" in schema and not wrongs(schema["not"]):
        yield f"{here} has a form that is excluded"


def _resolve(ref: Any, whole: dict[str, Any]) -> Any:
    """The part of the schema a reference names; None if it names none."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    found: Any = whole
    for part in ref[2:].split("/") if len(ref) > 1 else ():
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _matches(pattern: str, value: str) -> bool:
    """A text too long to be looked through in little time does not match: nothing is promised that was not seen."""
    opens = len(re.findall(r"[*+]|,\}", pattern))
    return len(value) <= (400 if opens > 1 else 3000) and re.search(pattern, value) is not None


def _same(one: Any, other: Any) -> bool:
    """JSON's equality: true is not 1, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return bool((numbers or type(one) is type(other)) and one == other)


def _show(value: Any) -> str:
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= 120 else text[:119] + "…"
