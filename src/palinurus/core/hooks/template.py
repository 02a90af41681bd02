"""Templates of webhooks: `{{a.b[0]}}` names a value of the payload. A path only reads; there is nothing to run.

`apart` keeps the owner's words and the sender's values in two places, so that no value can pose as an order; `filled`
puts values in the text, through a function that makes them harmless where they are to stand. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

MAX_VALUE = 20_000  # characters of one value
MAX_VALUES = 100_000  # of all values of one message
MAX_SLOTS = 100

_SLOT = re.compile(r"\{\{\s*([^{}]{1,200}?)\s*\}\}")
_STEP = re.compile(r"\.?([^.\[\]\s]+)|\[(\d{1,6})\]")


def list_slots(template: str) -> tuple[str, ...]:
    """The paths it names, each once, in order."""
    return tuple(dict.fromkeys(found[1] for found in _SLOT.finditer(template)))[:MAX_SLOTS]


def read_slot(path: str, scope: Mapping[str, Any]) -> str:
    """The value as text: objects and lists as JSON, what is not there as nothing. A path begins in `scope`
    (headers, path, payload …), else in the payload."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return ""
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    here: Any = scope if steps and steps[0] in scope else scope.get("payload")
    for step in steps:
        inside = step < len(here) if isinstance(step, int) and isinstance(here, list) else False
        named = step in here if isinstance(step, str) and isinstance(here, Mapping) else False
        if not inside and not named:
            return ""
        here = here[step]
    return _text(here)[:MAX_VALUE]


def fill_template(template: str, scope: Mapping[str, Any], clean: Callable[[str], str]) -> str:
    """With every value in its place, cleaned."""
    return _SLOT.sub(lambda found: clean(read_slot(found[1], scope)), template)


def separate_values(template: str, scope: Mapping[str, Any]) -> tuple[str, str]:
    """The owner's words, with names where values belong, and the values under those names."""
    words = _SLOT.sub(lambda found: f"⟦{found[1]}⟧", template)
    facts = "\n".join(f"{path}: {read_slot(path, scope)}" for path in list_slots(template))
    return words, facts[:MAX_VALUES]


def _text(found: Any) -> str:
    if isinstance(found, str):
        return found
    if found is None:
        return ""
    try:
        return msgspec.json.encode(found).decode()
    except (OverflowError, ValueError, RecursionError):  # a number nobody can write down
        return ""
