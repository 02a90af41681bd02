"""JSON as small models write it -> the value it means. Never raises, never guesses beyond syntax.

Understood besides JSON: single quotes, bare keys, Python's True/False/None, trailing and missing commas, comments,
raw line breaks and unescaped quotes in strings, brackets that are missing at the end. What comes out can be stored:
no NaN, no numbers beyond 64 bits, no half characters, no deep nests.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Collection
from typing import Any

import msgspec

from palinurus.core.text import skip_pattern
from palinurus.patterns import compile_late

MAX_DEPTH = 64
_SPACE = compile_late(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.S)
_BARE = compile_late(r"[A-Za-z_$][\w$-]*")
_NUMBER = compile_late(r"-?\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "none": None, "True": True, "False": False}
_WORDS |= {"None": None, "undefined": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
_HEX = compile_late(r"[0-9a-fA-F]{4}")
# What may come after a comma: the next key of an object, the next item of an array, or the end.
_KEY = compile_late(r"""\s*(?:(["'])([^"'\n]*)\1|([A-Za-z_]\w*))\s*[:=]""")
_ITEM = compile_late(r"""\s*(?:["'{\[\]\d-]|true|false|null|None|True|False|$)""")
_CLOSE = compile_late(r"\s*(?:[}\]]|$)")
_TEXT = compile_late(r"""[}\]\s]*[}\]]["']""")
_SURROGATE = compile_late("[\ud800-\udfff]")


class LooseJson(msgspec.Struct, frozen=True):
    """A value, where it ended, and whether the text ended before it did."""

    value: Any
    end: int
    cut: bool


class _Unreadable(Exception):
    pass


def parse_loose_json(text: str, start: int = 0, keys: Collection[str] = ()) -> LooseJson | None:
    """The object or array that begins at `start`; None when there is none.

    `keys` are names the schema knows: they tell an unescaped quote inside a string from the string's end.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
        found = LooseJson(value, end, False)
    except RecursionError:
        return None
    except ValueError:
        plain = _loose(text, start, frozenset())
        strict = _loose(text, start, frozenset(keys)) if keys and not _known(plain, keys) else None
        best = strict if strict is not None and _known(strict, keys) else plain
        if best is None:
            return None
        found = best
    value = clean_value(found.value)
    return msgspec.structs.replace(found, value=value) if isinstance(value, dict | list) else None


def clean_value(value: Any) -> Any:
    """The value as it can be stored, keys as text and tuples as lists; None for what cannot be."""
    return _whole(value) if _fits(value, 0) else None


def _loose(text: str, start: int, keys: frozenset[str]) -> LooseJson | None:
    reader = _Reader(text, start, keys)
    try:
        return LooseJson(reader.value(0), reader.at, reader.cut)
    except _Unreadable:
        return None


def _known(found: LooseJson | None, keys: Collection[str]) -> bool:
    """Does it hold names of the schema only?"""
    todo: list[Any] = [found.value] if found is not None else []
    for value in todo:
        if isinstance(value, dict):
            if not all(key in keys for key in value):
                return False
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return bool(todo)


def _constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_constant)


class _Reader:
    """Recursive descent over what may be there; `at` moves, `cut` says that the end came too soon."""

    def __init__(self, text: str, at: int, keys: frozenset[str]) -> None:
        self.text = text
        self.at = at
        self.cut = False
        self._keys = keys

    def value(self, depth: int, listed: bool = False) -> Any:
        if depth > MAX_DEPTH:
            raise _Unreadable
        self._space()
        char = self._peek()
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char in ("'", '"'):
            return self._string(char, listed)
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            return _number(number.group())
        word = _BARE.match(self.text, self.at)
        if word is None or word.group() not in _WORDS:
            raise _Unreadable
        self.at = word.end()
        return _WORDS[word.group()]

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        out: dict[str, Any] = {}
        while True:
            self._space(",;")
            if self._over("}", "]", depth):
                return out
            key = self._key()
            self._space()
            if self._peek() not in ("", ":", "="):
                raise _Unreadable
            self.at += 1
            self._space()
            if not self._peek():  # a key without its value: the text ended
                self.at, self.cut = len(self.text), True
                return out
            out[key] = self.value(depth + 1)

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        out: list[Any] = []
        while True:
            self._space(",")
            if self._over("]", "}", depth):
                return out
            out.append(self.value(depth + 1, True))

    def _over(self, close: str, other: str, depth: int) -> bool:
        """Is the object or array complete? Also by a bracket too few, closed by the `other` one outside."""
        char = self._peek()
        self.cut = self.cut or not char
        self.at += char == close
        return char in ("", close) or (char == other and depth > 0)

    def _key(self) -> str:
        char = self._peek()
        if char in ("'", '"'):
            end = self.text.find(char, self.at + 1)
            if end < 0:
                self.at, self.cut = len(self.text), True
                return ""
            key, self.at = self.text[self.at + 1 : end], end + 1
            return key
        bare = _BARE.match(self.text, self.at)
        if bare is None:
            raise _Unreadable
        self.at = bare.end()
        return bare.group()

    def _string(self, quote: str, listed: bool) -> str:
        out: list[str] = []
        stops = re.compile(rf"[{quote}\\]")
        at = self.at + 1
        while True:
            found = stops.search(self.text, at)
            if found is None:
                out.append(self.text[at:])
                self.at, self.cut = len(self.text), True
                return "".join(out)
            out.append(self.text[at : found.start()])
            at = found.end()
            if found.group() == "\\":
                piece, at = self._escape(at)
                out.append(piece)
            elif self._ends(at, listed):
                self.at = at
                return "".join(out)
            else:
                out.append(quote)

    def _escape(self, at: int) -> tuple[str, int]:
        char = self.text[at : at + 1]
        if char == "u" and _HEX.match(self.text, at + 1):
            return chr(int(self.text[at + 1 : at + 5], 16)), at + 5
        # An unknown escape (a Windows path, a regular expression) is meant as it stands.
        return _ESCAPES.get(char, "\\" + char), at + 1

    def _ends(self, at: int, listed: bool) -> bool:
        """Is the quote before `at` the string's end? It is, if what follows can follow a string there."""
        at = skip_pattern(_SPACE, self.text, at)
        char = self.text[at : at + 1]
        if char != ",":
            # A string cannot begin right after a bracket: in `"x": "1"}"` the brackets belong to the text.
            return char in ("", "}", "]") and not _TEXT.match(self.text, at)
        if listed:
            return _ITEM.match(self.text, at + 1) is not None
        key = _KEY.match(self.text, at + 1)
        if key is None:
            return _CLOSE.match(self.text, at + 1) is not None
        return not self._keys or (key.group(2) or key.group(3)) in self._keys

    def _space(self, also: str = "") -> None:
        while True:
            self.at = skip_pattern(_SPACE, self.text, self.at)
            if not also or self._peek() not in tuple(also):
                return
            self.at += 1

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]


def _number(text: str) -> int | float:
    text = text.replace("_", "")
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(text)
    raise _Unreadable


def _fits(value: Any, depth: int) -> bool:
    if isinstance(value, dict | list | tuple):
        inner = value.values() if isinstance(value, dict) else value
        return depth < MAX_DEPTH and all(_fits(v, depth + 1) for v in inner)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return math.isfinite(value) if isinstance(value, float) else value is None or isinstance(value, str)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        if not _SURROGATE.search(value):
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_whole(str(k)): _whole(v) for k, v in value.items()}
    return [_whole(v) for v in value] if isinstance(value, list | tuple) else value
