"""Regular expressions and decoders of modules, and of what is made once at a start: made when they are first used,
because making all of them is a sixth of a start. Elsewhere `re` and `msgspec` are right. A broken one is found by
tests/test_patterns.py, not here.
"""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, AnyStr, TypeVar, cast

import msgspec

T = TypeVar("T")


class LatePattern:
    """Looks like a `re.Pattern`. What it was asked for once it keeps: a used one costs what a compiled one does."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by `copy` and `pickle` of an empty one
            raise AttributeError(name)
        value = getattr(re.compile(self.pattern, self._flags), name)  # `re` keeps what it compiled
        setattr(self, name, value)
        return value


def compile_late(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern like that of `re.compile`. The first use raises re.error if it cannot be compiled."""
    return cast("re.Pattern[AnyStr]", LatePattern(pattern, flags))


class LateDecoder:
    """Looks like a `msgspec.json.Decoder`: all that is asked of those is `decode`."""

    def __init__(self, kind: Any) -> None:
        self.type = kind

    def __getattr__(self, name: str) -> Any:
        if name != "decode":
            raise AttributeError(name)
        self.decode = msgspec.json.Decoder(self.type).decode
        return self.decode


def decode_late(kind: type[T] | UnionType) -> msgspec.json.Decoder[T]:
    """A decoder for a type. The first use raises TypeError if nothing can be decoded to it."""
    return cast("msgspec.json.Decoder[T]", LateDecoder(kind))
