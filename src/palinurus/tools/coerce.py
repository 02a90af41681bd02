"""One value to one JSON type, leniently: the table of conversions that `schema` applies. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.text import repair_surrogates
from palinurus.patterns import compile_late

MAX_DEPTH = 32
_MAX_JSON = 8_000_000  # characters of JSON inside a string argument
_INTEGER = compile_late(r"[+-]?\d{1,18}(?:\.0{1,10})?")
_NUMBER = compile_late(r"[+-]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][+-]?\d{1,3})?")
_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0", ""})
_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (str, "text"),
    (list, "an array"),
    (dict, "an object"),
    (type(None), "null"),
)


class ArgumentMismatch(Exception):
    """A value that cannot be what the schema asks for. Stays inside `schema`."""


def name_type(value: object) -> str:
    """What a value is, for error texts."""
    return next((name for kind, name in _WORDS if isinstance(value, kind)), type(value).__name__)


def decode_json_text(text: str, kind: type) -> Any:
    """The list or object written as JSON in `text`; `text` itself when it is none."""
    if len(text) > _MAX_JSON or text.lstrip()[:1] != ("{" if kind is dict else "["):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return text
    return value if isinstance(value, kind) else text


def to_storable(value: Any, depth: int) -> Any:
    """A value no schema describes: depth bounded, text storable."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if depth > MAX_DEPTH:
        raise ArgumentMismatch("arguments are nested too deeply")
    if isinstance(value, list):
        return [to_storable(v, depth + 1) for v in value]
    if isinstance(value, dict):
        return {repair_surrogates(str(k)): to_storable(v, depth + 1) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentMismatch("numbers must be finite")
    return value


def _string(value: Any, key: str) -> str:
    if isinstance(value, str):
        return repair_surrogates(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentMismatch(f"{key}: expected a string, got a number that is not finite")
    if isinstance(value, int) and value.bit_length() > 256:
        raise ArgumentMismatch(f"{key}: expected a string, got a huge number")
    if isinstance(value, int | float):
        return str(value)
    raise ArgumentMismatch(f"{key}: expected a string, got {name_type(value)}")


def _number(value: Any, key: str) -> int | float:
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        if value.bit_length() <= 64:
            return value
    elif isinstance(value, float):
        if math.isfinite(value):
            return value
    elif isinstance(value, str):
        text = value.strip()
        if _INTEGER.fullmatch(text):
            return int(text.partition(".")[0])
        if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
    raise ArgumentMismatch(f"{key}: expected a number, got {_quoted(value)}")


def _integer(value: Any, key: str) -> int:
    try:
        number = _number(value, key)
    except ArgumentMismatch:
        raise ArgumentMismatch(f"{key}: expected an integer, got {_quoted(value)}") from None
    if number != int(number) or int(number).bit_length() > 64:
        raise ArgumentMismatch(f"{key}: expected an integer, got {number}")
    return int(number)


def _boolean(value: Any, key: str) -> bool:
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    low = value.strip().lower() if isinstance(value, str) else "?"
    if low in _YES or low in _NO:
        return low in _YES
    raise ArgumentMismatch(f"{key}: expected true or false, got {_quoted(value)}")


def _null(value: Any, key: str) -> None:
    if value not in (None, "", "null"):
        raise ArgumentMismatch(f"{key}: expected null, got {name_type(value)}")


def _quoted(value: Any) -> str:
    return repr(value[:60]) if isinstance(value, str) else name_type(value)


_CONVERT: dict[str, Callable[[Any, str], Any]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "null": _null,
}


def convert_value(kind: Any, value: Any, key: str, depth: int) -> Any:
    """`value` as `kind`; a kind that is not in the table leaves it alone. Raises ArgumentMismatch."""
    step = _CONVERT.get(kind) if isinstance(kind, str) else None
    return to_storable(value, depth) if step is None else step(value, key)
