"""Ids that sort by time: 10 characters of milliseconds, 16 of chance (Crockford base 32, as ULID)."""

from __future__ import annotations

import secrets

_ABC = "0123456789abcdefghjkmnpqrstvwxyz"


def make_id(now_ms: int) -> str:
    """26 characters; ids made in a later millisecond sort later."""
    value = (now_ms << 80) | secrets.randbits(80)
    return "".join(_ABC[(value >> shift) & 31] for shift in range(125, -5, -5))
