"""A server's description of its tools made fit for models: names, descriptions, schemas. Pure.

All of it is written by others: it is bounded, made inert, and never shadows a tool of ours.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from palinurus.core.untrusted import clean_label, make_inert

MAX_NAME = 64  # what every provider takes
MAX_DESCRIPTION = 1024
MAX_SCHEMA = 32_000  # characters of JSON
MAX_TOOLS = 128  # of one server
_DEPTH = 12
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
# Words of JSON Schema that say nothing to a model, or that providers refuse.
_DROPPED = frozenset(
    ("$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "examples", "deprecated", "readOnly",
     "writeOnly", "contentEncoding", "contentMediaType", "if", "then", "else", "not", "dependentRequired",
     "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "patternProperties", "propertyNames")
)  # fmt: skip


def make_tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """`server__tool`, in characters that providers take; where that is too long or taken, with a few hex digits."""
    plain = f"{_plain(server)}__{_plain(tool)}"
    if len(plain) <= MAX_NAME and plain.lower() not in taken:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()[:8]
    return f"{plain[: MAX_NAME - 9]}_{mark}"


def _plain(text: str) -> str:
    return _OTHER.sub("_", text).strip("_") or "x"


def describe_tool(server: str, listed: Mapping[str, Any]) -> str:
    """What the model is told the tool does."""
    told = listed.get("description") or listed.get("title") or f"The tool {clean_label(str(listed.get('name')), 80)}."
    text = make_inert(str(told)[: MAX_DESCRIPTION * 2]).strip()
    text = text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1]}…"
    return f"[MCP server {clean_label(server, 40)}] {text}"


def clean_schema(given: Any) -> dict[str, Any]:
    """The arguments' schema: references resolved, unusual words gone; anything goes where it is not usable."""
    anything: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
    if not isinstance(given, dict):
        return anything
    try:
        if len(json.dumps(given)) > MAX_SCHEMA:
            return anything
        made = _clean(_merged(given), given, 0)
        if len(json.dumps(made)) > MAX_SCHEMA:
            return anything
    except (AttributeError, TypeError, ValueError, RecursionError):  # not of the form a schema has
        return anything
    made.pop("anyOf", None)
    made.pop("oneOf", None)
    properties = made.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    needed = made.get("required")
    needed = [one for one in needed if isinstance(one, str) and one in properties] if isinstance(needed, list) else []
    kept = {key: made[key] for key in ("description", "additionalProperties") if key in made}
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {}), **kept}


def _merged(given: dict[str, Any]) -> dict[str, Any]:
    """With the properties of what it is made of: providers take no choice at the top."""
    properties = dict(given.get("properties") or {})
    needed = list(given.get("required") or ())
    for word in ("allOf", "anyOf", "oneOf"):
        for part in given.get(word) or ():
            part = _found(part, given) if isinstance(part, dict) else {}
            for key, value in (part.get("properties") or {}).items():
                properties.setdefault(key, value)
            needed += (part.get("required") or ()) if word == "allOf" else ()
    return {**{k: v for k, v in given.items() if k != "allOf"}, "properties": properties, "required": needed}


def _found(part: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """What a local reference stands for."""
    where = part.get("$ref")
    if not isinstance(where, str):
        return part
    at: Any = root
    for step in where.removeprefix("#").strip("/").split("/") if where.startswith("#") else ():
        at = at.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
    rest = {key: value for key, value in part.items() if key != "$ref"}
    return {**at, **rest} if isinstance(at, dict) and at is not root else rest


def _clean(part: Any, root: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEPTH:
        return {}
    if isinstance(part, list):
        return [_clean(one, root, depth + 1) for one in part]
    if not isinstance(part, dict):
        return part
    made: dict[str, Any] = {}
    for key, value in _found(part, root).items():
        if key in _DROPPED or key.startswith(("x-", "$")):
            continue
        if key in ("description", "title"):
            made[key] = clean_label(str(value), MAX_DESCRIPTION)
        elif key == "properties" and isinstance(value, dict):
            # a name that hides something is left out: under another one the server would not know it
            fit = {one: below for one, below in value.items() if clean_label(one, 64) == one}
            made[key] = {one: _clean(below, root, depth + 1) for one, below in fit.items()}
        elif key in ("enum", "const", "default", "required", "type"):
            made[key] = value
        else:
            made[key] = _clean(value, root, depth + 1)
    return made
