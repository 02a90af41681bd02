"""Time zones by name, as the config writes them."""

from __future__ import annotations

from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def find_zone(name: str) -> tzinfo | None:
    """The zone; None (the machine's own) for "" and for a name nobody knows."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
