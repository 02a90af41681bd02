"""Time zones by name, as the config writes them, and this machine's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_ZONES = "/etc/localtime"


def find_zone(name: str) -> tzinfo | None:
    """The zone; None (the machine's own) for "" and for a name nobody knows."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def detect_timezone(environ: Mapping[str, str], link: str = _ZONES) -> str:
    """This machine's time zone by name; "" when it has none to tell."""
    told = environ.get("TZ", "").lstrip(":")
    if told:
        return told if "/" in told or told == "UTC" else ""
    try:
        return os.readlink(link).partition("zoneinfo/")[2]
    except OSError:
        return ""
