"""What a token says about its owner, for vendors whose tokens say something. Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec


def read_claims(token: str) -> dict[str, Any]:
    """What a JWT says; {} for other tokens. Nobody's signature is checked: it only tells who we are to the server that
    made it."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}
