"""`session.maintenance` and `cron.sessionRetention` with every default applied. Pure."""

from __future__ import annotations

import re

from palinurus.config.findings import ConfigFinding
from palinurus.config.schema import Config
from palinurus.config.schema.rest import MaintenanceSection
from palinurus.config.settings import UpkeepSettings
from palinurus.core import durations

UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
         "t": 1 << 40, "tb": 1 << 40}  # fmt: skip
HIGH_WATER = 0.8  # of maxDiskBytes

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?b?)", re.ASCII)


def parse_size(text: str | int) -> int | None:
    """Bytes, from `500mb`, `2 GB` or a bare number; None if it cannot be read."""
    found = _SIZE.fullmatch(str(text).strip().lower())
    return int(float(found[1]) * UNITS[found[2]]) if found else None


def resolve_upkeep(config: Config, findings: list[ConfigFinding]) -> UpkeepSettings:
    """The settings; durations have been checked by `resolve`, sizes are checked here."""
    section = (config.session.maintenance if config.session else None) or MaintenanceSection()
    base = UpkeepSettings()
    after = section.prune_after if section.prune_after is not None else section.prune_days
    prune = _seconds(after, "d", base.prune_after)
    limits = {
        name: _bytes(name, value, findings)
        for name, value in (("maxDiskBytes", section.max_disk_bytes), ("highWaterBytes", section.high_water_bytes))
    }
    limit = limits["maxDiskBytes"]
    water = limits["highWaterBytes"]
    if limit is not None and (water is None or water > limit):
        water = int(limit * HIGH_WATER)
    return UpkeepSettings(
        enforce=section.mode != "warn",
        prune_after=prune,
        max_entries=section.max_entries or base.max_entries,
        archive_after=_seconds(section.reset_archive_retention, "d", prune),
        max_disk=limit,
        high_water=water if limit is not None else None,
        cron_after=_seconds(config.cron.session_retention if config.cron else None, "h", base.cron_after),
    )


def _seconds(value: str | int | bool | None, unit: str, otherwise: float | None) -> float | None:
    if value is None or value is True or value == "":
        return otherwise
    if value is False:
        return None
    found = durations.parse_duration(value, unit)
    return otherwise if found is None else found or None  # 0 turns it off: it never meant "everything at once"


def _bytes(name: str, value: str | int | None, findings: list[ConfigFinding]) -> int | None:
    if value is None or value == "":
        return None
    found = parse_size(value)
    if found is None:
        path = ("session", "maintenance", name)
        findings.append(ConfigFinding(path, "is not a size", "write it as 500mb, 2gb or a number of bytes"))
    return found or None
