"""Every way in which a value does not fit the schema, in words for people. Pure.

The types of `schema` are the only source; this walks them beside the value. It runs when the fast conversion has
failed, so it may take its time. No message quotes a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as types

from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.secrets import is_secret


class ConfigFinding(NamedTuple):
    """A problem before it has a file and a line."""

    path: Path
    message: str
    hint: str = ""
    fatal: bool = True


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` or nothing."""
    folded = {k.lower(): k for k in known}
    found = difflib.get_close_matches(word.lower()[:200], folded, 1, 0.6)
    return f"did you mean {folded[found[0]]!r}?" if found else ""


def check_config(raw: Any) -> list[ConfigFinding]:
    """Everything wrong with a whole config. Unknown keys are not fatal, all else is."""
    if not isinstance(raw, dict):
        return [ConfigFinding((), f"the config must be an object, not {_got(raw)}", "write { … } around it")]
    return list(_check(raw, inspect_schema(), ()))


@cache
def inspect_schema() -> types.Type:
    """The whole schema as data."""
    return msgspec.inspect.type_info(Config)


def describe_key(path: Path) -> types.Type | None:
    """The type that `path` has in the schema; AnyType inside free-form sections, None if there is no such key."""
    kinds: list[types.Type] = [inspect_schema()]
    for part in path:
        below: list[types.Type] = []
        for kind in kinds:
            for option in _options(kind):
                below += _step(option, part)
        if not below:
            return None
        kinds = below
    return kinds[0] if len(kinds) == 1 else types.UnionType(tuple(kinds))


def list_keys_below(path: Path) -> list[str]:
    """The keys that can stand directly below `path`."""
    kind = describe_key(path)
    names: list[str] = []
    for option in _options(kind) if kind is not None else ():
        if isinstance(option, types.StructType):
            names += [field.encode_name for field in option.fields]
    return names


def _step(kind: types.Type, part: str | int) -> list[types.Type]:
    if isinstance(kind, types.AnyType):
        return [kind]
    if isinstance(kind, types.ListType) and isinstance(part, int):
        return [kind.item_type]
    if isinstance(kind, types.DictType) and isinstance(part, str):
        return [kind.value_type]
    if isinstance(kind, types.StructType) and isinstance(part, str):
        return [field.type for field in kind.fields if field.encode_name == part]
    return []


def _options(kind: types.Type) -> tuple[types.Type, ...]:
    if isinstance(kind, types.UnionType):
        return tuple(flat for option in kind.types for flat in _options(option))
    return (kind,)


def accepts_value(kind: types.Type, value: Any) -> bool:
    """Is `value` of the right JSON kind for `kind`? What it holds is not looked at."""
    return any(_KINDS.get(type(option), _never)(option, value) for option in _options(kind))


def _never(kind: Any, value: Any) -> bool:
    return False


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[type, Callable[[Any, Any], bool]] = {
    types.AnyType: lambda kind, value: True,
    types.NoneType: lambda kind, value: value is None,
    types.BoolType: lambda kind, value: isinstance(value, bool),
    types.IntType: lambda kind, value: isinstance(value, int) and not isinstance(value, bool),
    types.FloatType: lambda kind, value: _number(value),
    types.StrType: lambda kind, value: isinstance(value, str),
    types.LiteralType: lambda kind, value: isinstance(value, str),
    types.ListType: lambda kind, value: isinstance(value, list),
    types.DictType: lambda kind, value: isinstance(value, dict),
    types.StructType: lambda kind, value: isinstance(value, dict),
}

_WORDS: dict[type, str] = {
    types.BoolType: "true or false",
    types.IntType: "a whole number",
    types.FloatType: "a number",
    types.StrType: "a text",
    types.ListType: "a list",
    types.DictType: "an object",
    types.StructType: "an object",
}

_GOT: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "an object"),
)


def _got(value: Any) -> str:
    return next((word for kind, word in _GOT if isinstance(value, kind)), "null")


def _wanted(options: Iterable[types.Type]) -> str:
    words: dict[str, None] = {}
    for option in options:
        if isinstance(option, types.LiteralType):
            words.update(dict.fromkeys(f"'{v}'" for v in option.values))
        elif type(option) in _WORDS:
            words[_WORDS[type(option)]] = None
    return " or ".join(words)


def _check(value: Any, kind: types.Type, path: Path) -> Iterator[ConfigFinding]:
    options = _options(kind)
    fitting = [option for option in options if accepts_value(option, value)]
    if not fitting:
        got = (
            "a fraction"
            if isinstance(value, float) and any(isinstance(o, types.IntType) for o in options)
            else _got(value)
        )
        yield ConfigFinding(path, f"expected {_wanted(options)}, got {got}", _advice(value, options))
        return
    first = fitting[0]
    walk = _WALKS.get(type(first))
    if walk is not None and not any(isinstance(option, types.StrType) for option in fitting):
        yield from walk(value, first, path)
    elif isinstance(first, types.StrType) and (first.min_length or 0) > len(value):
        yield ConfigFinding(path, "must not be empty")


def _advice(value: Any, options: tuple[types.Type, ...]) -> str:
    if isinstance(value, str) and any(isinstance(o, types.IntType | types.FloatType) for o in options):
        return "write the number without quotes"
    if isinstance(value, str) and any(isinstance(o, types.BoolType) for o in options):
        return "write true or false without quotes"
    if not isinstance(value, list) and any(isinstance(o, types.ListType) for o in options):
        return "put it in [ ]"
    if _number(value) and any(isinstance(o, types.StrType) for o in options):
        return "put it in quotes"
    return ""


def _struct(value: dict[str, Any], kind: types.StructType, path: Path) -> Iterator[ConfigFinding]:
    fields = {field.encode_name: field for field in kind.fields}
    for key, below in value.items():
        if key in fields:
            yield from _check(below, fields[key].type, (*path, key))
        else:
            yield ConfigFinding((*path, key), "unknown key", suggest_nearest(key, fields), fatal=False)
    for name, field in fields.items():
        if field.required and name not in value:
            yield ConfigFinding(path, f"the key {name!r} is missing")


def _dict(value: dict[str, Any], kind: types.DictType, path: Path) -> Iterator[ConfigFinding]:
    for key, below in value.items():
        yield from _check(below, kind.value_type, (*path, key))


def _list(value: list[Any], kind: types.ListType, path: Path) -> Iterator[ConfigFinding]:
    for index, below in enumerate(value):
        yield from _check(below, kind.item_type, (*path, index))


def _literal(value: str, kind: types.LiteralType, path: Path) -> Iterator[ConfigFinding]:
    if value not in kind.values:
        words = ", ".join(str(word) for word in kind.values)
        shown = "this" if is_secret(path) else repr(value[:40])
        yield ConfigFinding(path, f"{shown} is not one of {words}", suggest_nearest(value, map(str, kind.values)))


def _range(value: float, kind: types.IntType | types.FloatType, path: Path) -> Iterator[ConfigFinding]:
    low, high = kind.ge, kind.le
    if low is not None and high is not None and not low <= value <= high:
        yield ConfigFinding(path, f"must be between {low:g} and {high:g}")
    elif low is not None and not value >= low:
        yield ConfigFinding(path, f"must be {low:g} or more")


_WALKS: dict[type, Callable[[Any, Any, Path], Iterator[ConfigFinding]]] = {
    types.StructType: _struct,
    types.DictType: _dict,
    types.ListType: _list,
    types.LiteralType: _literal,
    types.IntType: _range,
    types.FloatType: _range,
}
