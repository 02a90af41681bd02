"""Which config values must not be shown, and how they look when shown anyway. Pure.

Judged by key name, so that a channel or plugin we have never heard of is covered too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.config.keypath import Path, show_path
from palinurus.patterns import compile_late

# The config for eyes that must not see its secrets, and the way back: what was shown stands for what is stored. Pure.
#
# A client reads the config, changes something and sends the whole back. Wherever it sends exactly what it was shown in
# place of a secret, the stored secret is meant.

LEAST = 8  # characters of a secret that is blanked wherever it stands
_PLAIN = frozenset({str, int, float, bool, type(None)})
MARKER = "__OPENCLAW_REDACTED__"  # what clients of this protocol know


class LostSecret(Exception):
    """A marker came back where no secret is stored; the text names the place."""


def redact_config(value: Any, path: Path = ()) -> Any:
    """`value` (which stands at `path`) with the marker for every secret."""
    return _marked(value, mask_secrets(value, path))


def _marked(value: Any, masked: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(value[key], masked[key]) for key in value}
    if isinstance(value, list):
        return [_marked(one, other) for one, other in zip(value, masked, strict=True)]
    return MARKER if masked == MASK and value != MASK else masked


def restore_secrets(sent: Any, stored: Any, path: Path = ()) -> Any:
    """`sent` with the stored secrets where it has what `redacted` showed for them. Raises Lost."""
    if isinstance(sent, dict):
        old = stored if isinstance(stored, dict) else {}
        return {key: restore_secrets(value, old.get(key), (*path, key)) for key, value in sent.items()}
    if isinstance(sent, list):
        old_items = stored if isinstance(stored, list) else []
        return [restore_secrets(one, _twin(one, at, old_items, path), (*path, at)) for at, one in enumerate(sent)]
    if isinstance(stored, str | int | float) and sent == redact_config(stored, path):
        return stored
    if sent == MARKER:
        raise LostSecret(show_path(path))
    return sent


def _twin(sent: Any, at: int, stored: list[Any], path: Path) -> Any:
    """The stored item that an item of a list came from: the one in its place if it looks the same, else the one with
    its id, else one that looks the same, else the one in its place."""
    here = stored[at] if at < len(stored) else None
    if not isinstance(sent, dict) or redact_config(here, (*path, at)) == sent:
        return here
    if "id" in sent:
        return next((old for old in stored if isinstance(old, dict) and old.get("id") == sent["id"]), None)
    return next((old for place, old in enumerate(stored) if redact_config(old, (*path, place)) == sent), here)


MASK = "***"

_NAMES = compile_late(
    r"(?:token|password|passphrase|passwd|secret|cookie|authorization|bearer|credentials?|serviceaccount|webhookurl"
    r"|(?:identity|certificate|knownhosts)data"
    r"|(?:api|private|signing|encrypt(?:ion)?|aes|access|secret|shared|auth|license|recovery|pickle)[_-]?key)$"
    r"|^(?:key|pass|pwd)$",
    re.IGNORECASE,
)
_HOLDERS = frozenset({"headers", "env", "vars"})  # every value below is taken for a secret
_REFERENCE = compile_late(r"\$\{[A-Z_][A-Z0-9_]*\}")
_USERINFO = compile_late(r"(?<=://)[^/@\s]+@")


class Secret(msgspec.Struct, frozen=True):
    """A value that must not be shown. `reveal()` is the only way to it."""

    _value: str = ""

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(***)" if self._value else "Secret()"

    __str__ = __repr__


def is_secret(path: Path) -> bool:
    """Is the value at `path` one that must not be shown?"""
    names = [part for part in path if isinstance(part, str)]
    if names == ["store", "url"]:  # may hold a password
        return True
    if any(name.lower() in _HOLDERS for name in names[:-1]):
        return True
    return any(_NAMES.search(name) for name in names)


def mask_secrets(value: Any, path: Path = ()) -> Any:
    """`value` (which stands at `path`) with every secret replaced. `${NAME}` and secret references stay readable."""
    if isinstance(value, dict):
        if is_secret(path) and set(value) <= {"source", "provider", "id"}:
            return value
        return {k: mask_secrets(v, (*path, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [mask_secrets(v, (*path, i)) for i, v in enumerate(value)]
    if isinstance(value, bool) or value is None:
        return value
    if is_secret(path):
        if value == "" or (isinstance(value, str) and _REFERENCE.fullmatch(value)):
            return value
        return MASK
    return _USERINFO.sub(f"{MASK}@", value) if isinstance(value, str) else value


def wrap_secrets(value: Any, path: Path = ()) -> Any:
    """`value` with every secret text turned into a `Secret`."""
    if isinstance(value, dict):
        return {k: wrap_secrets(v, (*path, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [wrap_secrets(v, (*path, i)) for i, v in enumerate(value)]
    return Secret(value) if isinstance(value, str) and is_secret(path) else value


def list_known_secrets(settings: object, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What is blanked wherever it turns up: secrets of the config, and variables whose names say that they hold one.
    Short ones stand in ordinary words, too. PWD is the folder a shell was in, which no password is."""
    named = (value for name, value in environ.items() if name != "PWD" and is_secret((name,)))
    found = dict.fromkeys((*collect_secrets(settings, named=True), *named))
    return tuple(sorted((one for one in found if len(one) >= LEAST), key=len, reverse=True))


def collect_secrets(value: object, *, named: bool = False) -> list[str]:
    """Every Secret inside a struct, list, tuple or dict. `named`: of variables (`env`) only those whose names say that
    they hold one."""
    found, left = [], [value]
    while left:  # every start asks all values, most of them plain ones: no call for each
        one = left.pop()
        parts: Iterable[object] = ()
        if isinstance(one, Secret):
            found += [one.reveal()] if one else []
        elif isinstance(one, msgspec.Struct):
            parts = msgspec.structs.astuple(one)
            if named and isinstance(env := getattr(one, "env", None), dict):
                left += [inner for key, inner in env.items() if is_secret((key,))]
                parts = [part for name, part in zip(one.__struct_fields__, parts, strict=True) if name != "env"]
        elif isinstance(one, dict):
            parts = one.values()
        elif isinstance(one, (list, tuple)):
            parts = one
        left += [part for part in parts if part and type(part) not in _PLAIN]
    return found
