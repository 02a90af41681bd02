"""Active hours, over midnight too."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from palinurus.core.schedule.heartbeat import HeartbeatHours, parse_minutes

UTC, HOUR = ZoneInfo("UTC"), 3_600_000


@pytest.mark.parametrize(
    ("start", "end", "hour", "wanted"),
    [("08:00", "22:00", 8, True), ("08:00", "22:00", 22, False), ("22:00", "06:00", 23, True),
     ("22:00", "06:00", 6, False), ("22:00", "06:00", 5, True), ("08:00", "24:00", 23, True),
     ("09:00", "09:00", 9, False)],
)  # fmt: skip
def test_open(start: str, end: str, hour: int, wanted: bool) -> None:
    assert HeartbeatHours(parse_minutes(start, 0), parse_minutes(end, 1440)).open(hour * HOUR, UTC) is wanted


def test_the_zone_counts_and_nonsense_is_not_said() -> None:
    assert HeartbeatHours(8 * 60, 22 * 60).open(6 * HOUR, ZoneInfo("Asia/Tokyo"))
    assert (parse_minutes("x", 7), parse_minutes(None, 7), parse_minutes("99:00", 7)) == (7, 7, 7)
