"""Which rule of a `toolsBySender` table is the sender's. Pure.

Keys: `id:…`, `e164:…`, `role:…`, `username:…`, `name:…`, a bare id, `*`. Ids and roles come from the platform and can
be trusted. Names are chosen by their bearers: a rule found by name never gives more than there is without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_DIGITS = re.compile(r"\+?[\d\s().-]{5,}")


class ToolAsker(NamedTuple):
    """Who is served, as far as policy asks."""

    id: str = ""
    name: str = ""
    owner: bool = False
    roles: tuple[str, ...] = ()


class SenderRuleKeys(NamedTuple):
    """The keys of the rules that apply: `sure` by id or role or `*`, `named` by a name."""

    sure: str | None = None
    named: str | None = None


def find_sender_rules(rules: Mapping[str, T], asker: ToolAsker) -> SenderRuleKeys:
    """The first key that fits, in the order of the table above."""
    sure = [
        f"id:{asker.id}",
        f"e164:{normalize_phone(asker.id)}",
        *(f"role:{role}" for role in asker.roles),
        asker.id,
        "*",
    ]
    named = [f"username:{asker.name.removeprefix('@')}", f"username:@{asker.name}", f"name:{asker.name}"]
    folded = {_folded(key): key for key in rules}
    return SenderRuleKeys(
        next((folded[_folded(k)] for k in sure if k[-1:] not in ("", ":") and _folded(k) in folded), None),
        next((folded[_folded(k)] for k in named if asker.name and _folded(k) in folded), None),
    )


def normalize_phone(text: str) -> str:
    """+4915112345678 for whatever looks like a phone number, else ""."""
    head = text.split("@")[0].removeprefix("tel:")
    return "+" + re.sub(r"\D", "", head) if _DIGITS.fullmatch(head) else ""


def _folded(key: str) -> str:
    kind, colon, rest = key.strip().lower().partition(":")
    return f"e164:{normalize_phone(rest)}" if colon and kind == "e164" else key.strip().lower()
