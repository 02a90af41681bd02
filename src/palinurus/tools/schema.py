"""Arguments against a tool's JSON schema: forgiving on form, exact on meaning. Pure; never raises.

Knows the ways models get arguments wrong (other names, numbers as text, JSON inside a string, stray closing
tags). Knows no tool. What it cannot mend it explains, with what was expected and an example.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from palinurus.tools.coerce import MAX_DEPTH, ArgumentMismatch, convert_value, decode_json_text, name_type, to_storable

# Values of these arguments are the user's text to the last byte: nothing is stripped from them.
VERBATIM = frozenset({"content", "oldText", "newText", "text", "message", "input", "data", "prompt"})
_TAGS = "parameter|invoke|arg_value|arg_key|tool_call|function_calls|function|tool_use"
_SHOWN = 8  # unknown argument names quoted in an error


def check_arguments(
    schema: Mapping[str, Any], args: object, aliases: Mapping[str, str]
) -> tuple[dict[str, Any], str | None]:
    """The arguments as `schema` wants them, or ({}, what is wrong). Unknown names are dropped."""
    given = decode_json_text(args, dict) if isinstance(args, str) else args
    if not isinstance(given, dict):
        return {}, _explain(schema, f"arguments must be an object, not {name_type(args)}")
    try:
        return _object(schema, given, aliases, 0), None
    except ArgumentMismatch as bad:
        return {}, _explain(schema, str(bad))


def _object(schema: Mapping[str, Any], given: dict[str, Any], aliases: Mapping[str, str], depth: int) -> dict[str, Any]:
    props: dict[str, Any] = schema.get("properties") or {}
    extra = schema.get("additionalProperties", not props)
    named, unknown = _renamed(given, props, aliases)
    required = [name for name in schema.get("required") or () if name in props]
    for name in required:
        if name not in named:
            _fold(name, props[name], unknown, named, aliases=aliases)
    missing = [name for name in required if name not in named]
    if missing:
        raise ArgumentMismatch(_missing(missing, unknown))
    result: dict[str, Any] = {}
    for name, value in named.items():
        if value is None and name not in required and not _admits_null(props[name]):
            continue  # null for an optional argument is how strict callers say "not given"
        result[name] = _value(props[name], _trimmed(name, value), name, aliases, depth=depth + 1)
    if extra:
        for name, value in unknown.items():
            inner = extra if isinstance(extra, dict) else {}
            result[to_storable(name, depth)] = _value(inner, value, str(name)[:60], aliases, depth=depth + 1)
    return result


def _value(schema: Any, value: Any, key: str, aliases: Mapping[str, str], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ArgumentMismatch(f"{key}: nested too deeply")
    if not isinstance(schema, dict):
        return to_storable(value, depth)
    members = _members(schema)
    if members:
        return _union(members, value, key, aliases, depth=depth)
    kind = schema.get("type")
    if kind == "object":
        inner = decode_json_text(value, dict) if isinstance(value, str) else {} if value is None else value
        if not isinstance(inner, dict):
            raise ArgumentMismatch(f"{key}: expected an object, got {name_type(value)}")
        return _object(schema, inner, aliases, depth)
    if kind == "array":
        items = _listed(value)
        return _bounded(
            schema,
            [_value(schema.get("items"), v, f"{key}[{i}]", aliases, depth=depth + 1) for i, v in enumerate(items)],
            key,
        )
    return _bounded(schema, _chosen(schema, convert_value(kind, value, key, depth), key), key)


def _members(schema: dict[str, Any]) -> list[Any]:
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            return list(schema[name])
    kinds = schema.get("type")
    return [{**schema, "type": kind} for kind in kinds] if isinstance(kinds, list) else []


_NATIVE: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def _union(members: list[Any], value: Any, key: str, aliases: Mapping[str, str], depth: int) -> Any:
    """A member whose type the value already has goes first: "5" stays text where text is allowed."""

    def foreign(member: Any) -> bool:
        types = _NATIVE.get(member.get("type", ""), ()) if isinstance(member, dict) else ()
        return not isinstance(value, types) or (isinstance(value, bool) and bool not in types)

    said = []
    for member in sorted(members[:32], key=foreign):
        try:
            return _value(member, value, key, aliases, depth=depth + 1)
        except ArgumentMismatch as bad:
            said.append(str(bad))
    raise ArgumentMismatch(" or ".join(dict.fromkeys(said)) or f"{key}: nothing is allowed here")


def _listed(value: Any) -> list[Any]:
    """A list: as it is, out of JSON text, or made of one value."""
    if isinstance(value, str):
        inner = decode_json_text(value, list)
        return inner if isinstance(inner, list) else [value]
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _chosen(schema: dict[str, Any], value: Any, key: str) -> Any:
    allowed = (
        schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else None
    )
    if allowed is None or value in allowed:
        return value
    low = str(value).strip().lower()
    for choice in allowed:
        if str(choice).lower() == low:
            return choice
    raise ArgumentMismatch(f"{key}: expected one of {', '.join(map(str, allowed[:20]))}, got {str(value)[:60]!r}")


_BOUNDS: tuple[tuple[str, str, type | tuple[type, ...], bool], ...] = (
    ("minimum", "at least", (int, float), True),
    ("maximum", "at most", (int, float), False),
    ("minLength", "at least {} characters", str, True),
    ("maxLength", "at most {} characters", str, False),
    ("minItems", "at least {} items", list, True),
    ("maxItems", "at most {} items", list, False),
)


def _bounded(schema: dict[str, Any], value: Any, key: str) -> Any:
    for name, words, types, low in _BOUNDS:
        bound = schema.get(name)
        if bound is None or not isinstance(value, types) or isinstance(value, bool):
            continue
        size = len(value) if isinstance(value, str | list) else value
        if (size < bound) if low else (size > bound):
            wanted = words.format(bound) if "{}" in words else f"{words} {bound}"
            raise ArgumentMismatch(f"{key}: expected {wanted}, got {size}")
    return value


def _renamed(
    given: dict[str, Any], props: Mapping[str, Any], aliases: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split into known (under our names; the exact name wins over an alias) and unknown."""
    named = {name: value for name, value in given.items() if name in props}
    unknown: dict[str, Any] = {}
    folded = {_squashed(name): name for name in props} if len(named) < len(given) else {}
    for name, value in given.items():
        if name in props:
            continue
        ours = aliases.get(name, "")
        ours = ours if ours in props else folded.get(_squashed(str(name)), "")
        if ours and ours not in named:
            named[ours] = value
        else:
            unknown[str(name)] = value
    return named, unknown


def _squashed(name: str) -> str:
    return name[:80].replace("_", "").replace("-", "").lower()


def _fold(name: str, schema: Any, unknown: dict[str, Any], named: dict[str, Any], aliases: Mapping[str, str]) -> None:
    """The single form of a list argument: its item's fields at the top (oldText, newText without edits)."""
    items = schema.get("items") if isinstance(schema, dict) and schema.get("type") == "array" else None
    props = items.get("properties") if isinstance(items, dict) else None
    if not isinstance(items, dict) or not props:
        return
    one, rest = _renamed(unknown, props, aliases)
    if one and all(field in one for field in items.get("required") or ()):
        named[name] = [one]
        unknown.clear()
        unknown.update(rest)


def _trimmed(name: str, value: Any) -> Any:
    """Drop closing tags some models leave at the end of a value. A tag that the value itself opened stays."""
    if not isinstance(value, str) or name in VERBATIM or not value.rstrip().endswith(">"):
        return value
    pattern = rf"\s*</(?:\w+:)?(?:{_TAGS}|{re.escape(name)})>+\s*\Z"
    text = value
    while (found := re.search(pattern, text[-200:])) is not None:
        tag = found.group().strip().lstrip("</").rstrip(">")
        rest = text[: max(0, len(text) - 200) + found.start()]
        if f"<{tag}" in rest or not rest.strip():
            break
        text = rest
    return text


def _admits_null(schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def _missing(names: list[str], unknown: Mapping[str, Any]) -> str:
    words = f"missing required argument{'s' if len(names) > 1 else ''}: {', '.join(names)}"
    if unknown:
        words += f" (unknown: {', '.join(name[:40] for name in list(unknown)[:_SHOWN])})"
    return words


def _explain(schema: Mapping[str, Any], problem: str) -> str:
    props: dict[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    listed = ", ".join(f"{n}{'' if n in required else '?'} ({_kind(s)})" for n, s in props.items())
    example = {n: _sample(s, n, 0) for n, s in props.items() if n in required}
    return f"{problem[:1000]}. Expected: {listed or 'no arguments'}. Example: {json.dumps(example)}"


def _kind(schema: Any) -> str:
    kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


_SAMPLES: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "null": None}


def _sample(schema: Any, name: str, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > 4:
        return f"<{name}>"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "array":
        return [_sample(schema.get("items"), name, depth + 1)]
    if kind == "object":
        props = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {n: _sample(s, n, depth + 1) for n, s in props.items() if n in required}
    return _SAMPLES.get(kind, f"<{name}>") if isinstance(kind, str) else f"<{name}>"
