"""Chunks that strict JSON or our types refuse but whose meaning is clear. The slow way, taken rarely. Pure."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def decode_loose(data: bytes, kind: type[T]) -> T | None:
    """The chunk as `kind`: lone surrogates kept, NaN as null, numbers as text understood. None when it cannot be."""
    try:
        value: Any = json.loads(data.decode("utf-8", "replace"), strict=False, parse_constant=_null)
    except (ValueError, RecursionError):
        return None
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return None


def _null(name: str) -> None:
    return None
