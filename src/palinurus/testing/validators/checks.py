"""What the validators share: names, base64, JSON schemas of tools."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from palinurus.patterns import compile_late

NAME = compile_late(r"[A-Za-z0-9_-]{1,64}")
_PICTURE = compile_late(r"data:image/(?:png|jpeg|gif|webp);base64,(.*)", re.S)


def is_blank(text: Any) -> bool:
    """True for what providers call empty text, and for what is no text at all."""
    return not isinstance(text, str) or not text.strip()


def check_name(where: str, name: Any, pattern: re.Pattern[str] = NAME) -> Iterator[str]:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        yield f"{where}: name {name!r} does not match {pattern.pattern}"


def check_base64(where: str, data: Any) -> Iterator[str]:
    """Base64 with padding, and something in it."""
    try:
        if not isinstance(data, str) or not base64.b64decode(data, validate=True):
            yield f"{where}: no data"
    except (binascii.Error, ValueError):
        yield f"{where}: not base64"


def check_data_url(where: str, url: Any) -> Iterator[str]:
    """A picture inside of its address."""
    found = _PICTURE.fullmatch(str(url))
    yield from check_base64(where, found[1]) if found else (f"{where}: unsupported image",)


def check_json_arguments(where: str, text: Any) -> Iterator[str]:
    """Arguments as JSON text of an object."""
    try:
        if not isinstance(text, str) or not isinstance(json.loads(text), dict):
            yield f"{where}: arguments are no JSON object"
    except ValueError:
        yield f"{where}: arguments are not JSON"


def check_tools(
    where: str, tools: Iterable[tuple[Any, Any]], every: str = "tools", pattern: re.Pattern[str] = NAME
) -> Iterator[str]:
    """Name and schema of each tool; no name twice. `where` may have a place for the tool's number."""
    names = []
    for number, (name, schema) in enumerate(tools):
        yield from check_name(where.format(number), name, pattern)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"{where.format(number)}: the schema must have type object"
        names.append(name)
    yield from check_unique(every, names)


def check_unique(where: str, names: list[Any]) -> Iterator[str]:
    for name in sorted({str(n) for n in names if names.count(n) > 1}):
        yield f"{where}: {name} is there twice"
