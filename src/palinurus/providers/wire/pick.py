"""Reading JSON nobody promised anything about: a chunk as a dict, and fields of it by type. Pure; never raises."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decode = msgspec.json.Decoder().decode
_MOST = 2**53  # no counter is larger; what claims to be is noise


def decode_loose(data: bytes, kind: type[T]) -> T | None:
    """A chunk that strict JSON or our types refuse but whose meaning is clear, as `kind`: lone surrogates kept, NaN as
    null, numbers as text understood. None when it cannot be. The slow way, taken rarely."""
    try:
        value: Any = json.loads(data.decode("utf-8", "replace"), strict=False, parse_constant=lambda name: None)
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return None


def read_object(payload: bytes) -> dict[str, Any] | None:
    """The object in these bytes; None when there is none."""
    try:
        value = _decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return decode_loose(payload, dict[str, Any])
    return value if isinstance(value, dict) else None


def get_object(value: Any, *path: str) -> dict[str, Any]:
    """The object at `path`, {} when something else is there."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def get_text(value: Any, *path: str) -> str:
    """The string at `path`, "" when something else is there."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def get_objects(value: Any, *path: str) -> list[dict[str, Any]]:
    """The objects of the array at `path`."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def get_count(value: Any, *path: str) -> int:
    """The number at `path` as a counter: 0 for anything that is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        return 0
    return int(value)
