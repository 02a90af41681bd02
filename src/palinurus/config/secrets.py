"""Which config values must not be shown, and how they look when shown anyway. Pure.

Judged by key name, so that a channel or plugin we have never heard of is covered too.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from palinurus.config.keypath import Path

MASK = "***"

_NAMES = re.compile(
    r"(?:token|password|passphrase|passwd|secret|cookie|authorization|bearer|credentials?|serviceaccount|webhookurl"
    r"|(?:identity|certificate|knownhosts)data"
    r"|(?:api|private|signing|encryption|access|secret|shared|auth|license)[_-]?key)$|^(?:key|pass|pwd)$",
    re.IGNORECASE,
)
_HOLDERS = frozenset({"headers", "env", "vars"})  # every value below is taken for a secret
_REFERENCE = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}")
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


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
