"""session.maintenance: defaults, durations, sizes."""

from __future__ import annotations

from typing import Any

import pytest

from configs import read_settings
from palinurus.config.check import check_config
from palinurus.config.forms import parse_size
from palinurus.config.sections.schedule import UpkeepSettings

DAY = 86_400.0


def made(maintenance: dict[str, Any], **more: Any) -> UpkeepSettings:
    settings, findings = read_settings({"session": {"maintenance": maintenance}, **more})
    assert findings == []
    return settings.session.upkeep


def test_defaults() -> None:
    assert read_settings({})[0].session.upkeep == made({}) == UpkeepSettings()
    base = UpkeepSettings()
    assert (base.enforce, base.prune_after, base.max_entries, base.archive_after) == (True, 30 * DAY, 500, 30 * DAY)
    assert (base.max_disk, base.high_water, base.cron_after) == (None, None, DAY)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"mode": "warn"}, {"enforce": False}),
        ({"pruneAfter": "7d"}, {"prune_after": 7 * DAY, "archive_after": 7 * DAY}),
        ({"pruneAfter": 7}, {"prune_after": 7 * DAY, "archive_after": 7 * DAY}),
        ({"pruneDays": 3}, {"prune_after": 3 * DAY, "archive_after": 3 * DAY}),
        ({"resetArchiveRetention": False}, {"archive_after": None}),
        ({"resetArchiveRetention": "12h"}, {"archive_after": DAY / 2}),
        ({"pruneAfter": 0}, {"prune_after": None, "archive_after": None}),
        ({"maxEntries": 9}, {"max_entries": 9}),
        ({"maxDiskBytes": "1kb"}, {"max_disk": 1024, "high_water": 819}),
        ({"maxDiskBytes": 1000, "highWaterBytes": 500}, {"max_disk": 1000, "high_water": 500}),
        ({"maxDiskBytes": 1000, "highWaterBytes": 5000}, {"max_disk": 1000, "high_water": 800}),
        ({"highWaterBytes": 5000}, {}),
        ({"rotateBytes": "10mb"}, {}),
    ],
)
def test_settings(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    settings = made(raw)
    rules = {"pruneAfter": {"age", "archive"}, "pruneDays": {"age", "archive"}, "resetArchiveRetention": {"archive"}}
    expected["people"] = frozenset().union(*((rules | {"maxEntries": {"count"}}).get(name, ()) for name in raw))
    base = {name: getattr(UpkeepSettings(), name) for name in UpkeepSettings.__struct_fields__}
    assert settings == UpkeepSettings(**{**base, **expected})


def test_cron() -> None:
    assert made({}, cron={"sessionRetention": "2h"}).cron_after == 7200
    assert made({}, cron={"sessionRetention": False}).cron_after is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500mb", 500 << 20), ("2 GB", 2 << 30), ("1.5k", 1536), (77, 77), ("many", None), ("", None), ("-1", None)],
)
def test_sizes(text: str | int, expected: int | None) -> None:
    assert parse_size(text) == expected


def test_a_size_that_cannot_be_read_is_a_finding() -> None:
    findings = check_config({"session": {"maintenance": {"maxDiskBytes": "lots"}}}).late
    assert [f.path for f in findings] == [("session", "maintenance", "maxDiskBytes")]
