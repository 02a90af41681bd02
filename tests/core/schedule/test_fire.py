"""Which instants schedules mean: summer time, leap days, missed times, and ten years against a slow reference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from palinurus.core.schedule.cron import parse_cron
from palinurus.core.schedule.fire import (
    DAY_MS,
    GRACE_MS,
    MAX_CATCH_UP,
    AtSchedule,
    CronSchedule,
    EverySchedule,
    check_schedule,
    choose_stagger,
    decide_misfires,
    find_next_due,
    list_past_dues,
)

HOUR = 3_600_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def fires(expr: str, tz: str, start: str, count: int) -> list[str]:
    at, made = ms(start), []
    for _ in range(count):
        found = find_next_due(CronSchedule(expr, tz), at)
        assert found is not None and found > at
        at = found
        made.append(datetime.fromtimestamp(at / 1000, ZoneInfo(tz)).isoformat())
    return made


def test_a_time_that_does_not_exist_is_the_first_after_the_gap_and_comes_once() -> None:
    assert fires("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00+01:00", 3) == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert fires("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ]


def test_an_hour_that_comes_twice_has_one_fire_but_hourly_lines_follow_the_elapsed_time() -> None:
    assert fires("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00+02:00", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    assert fires("30 * * * *", "Europe/Berlin", "2026-10-25T01:45:00+02:00", 3) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:30:00+01:00",
    ]
    assert fires("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:15:00+01:00", 3) == [
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ]
    # half an hour of summer time, and a zone whose gap is at midnight
    assert fires("15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", 1) == ["2026-10-04T02:30:00+11:00"]
    assert fires("0 0 * * *", "America/Santiago", "2026-09-05T12:00:00-04:00", 1) == ["2026-09-06T01:00:00-03:00"]


def test_days_months_names_steps_and_the_last_day() -> None:
    assert fires("0 9 29 2 *", "UTC", "2026-01-01T00:00:00+00:00", 1) == ["2028-02-29T09:00:00+00:00"]
    assert fires("0 9 L * *", "UTC", "2026-02-01T00:00:00+00:00", 2) == [
        "2026-02-28T09:00:00+00:00",
        "2026-03-31T09:00:00+00:00",
    ]
    assert fires("0 9 13 * fri", "UTC", "2026-02-01T00:00:00+00:00", 2) == [  # one of the two is enough
        "2026-02-06T09:00:00+00:00",
        "2026-02-13T09:00:00+00:00",
    ]
    assert fires("@weekly", "UTC", "2026-02-03T00:00:00+00:00", 1) == ["2026-02-08T00:00:00+00:00"]
    assert fires("*/20 30 9 * * fri-mon", "UTC", "2026-02-03T00:00:00+00:00", 1) == ["2026-02-06T09:30:00+00:00"]


@pytest.mark.parametrize(
    "expr", ["", "* * * *", "61 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *",
             "5-1 * * * *", "a * * * *", "0 0 31 2 *", "1,,2 * * * *", "-1 * * * *"],
)  # fmt: skip
def test_what_is_no_cron_line_is_said_to_be_none(expr: str) -> None:
    with pytest.raises(ValueError, match=r".{10}"):
        check_schedule(CronSchedule(expr))


def test_bad_zones_intervals_and_times_are_refused() -> None:
    for bad in (
        CronSchedule("* * * * *", "Mars/Base"),
        EverySchedule(10),
        AtSchedule(-1),
        CronSchedule("* * * * *", stagger_ms=DAY_MS),
    ):
        with pytest.raises(ValueError, match=r".{5}"):
            check_schedule(bad)


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kolkata", "America/Santiago"]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.integers(0, 59),
    st.sampled_from(["2", "0-3", "*/6", "1,2,3", "*"]),
    st.integers(0, 3650),
)
def test_two_days_agree_with_a_slow_reference(zone: str, minute: int, hours: str, day: int) -> None:
    """The reference walks through every minute of the elapsed time and looks at the clock on the wall."""
    tz, line = ZoneInfo(zone), parse_cron(f"{minute} {hours} * * *")
    start = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)
    assume(line.hourly or not start.astimezone(tz).fold)  # the reference knows no hour that began before it looked
    seen: set[datetime] = set()
    wanted: list[datetime] = []
    previous = (start - timedelta(minutes=1)).astimezone(tz).replace(tzinfo=None)
    for step in range(2 * 1440):
        at = start + timedelta(minutes=step)
        wall = at.astimezone(tz).replace(tzinfo=None)
        skipped = [previous + timedelta(minutes=n) for n in range(1, int((wall - previous) / timedelta(minutes=1)))]
        hits = any(line.after(w) == w for w in skipped) and not line.hourly
        own = line.after(wall) == wall and (line.hourly or wall not in seen)
        if hits or own:
            wanted.append(at)
        seen.add(wall)
        previous = wall
    end, at, got = start + timedelta(days=2), int(start.timestamp() * 1000) - 1, []
    while (
        found := find_next_due(CronSchedule(f"{minute} {hours} * * *", zone), at)
    ) is not None and found < end.timestamp() * 1000:
        at = found
        got.append(datetime.fromtimestamp(found / 1000, UTC))
    assert got == wanted


def test_intervals_count_from_their_anchor() -> None:
    assert find_next_due(EverySchedule(1000, 500), 0) == 500
    assert find_next_due(EverySchedule(1000, 500), 500) == 1500
    assert find_next_due(AtSchedule(5), 4) == 5 and find_next_due(AtSchedule(5), 5) is None


def test_stagger_is_the_same_every_time_and_its_jobs_are_spread() -> None:
    line = CronSchedule("0 9 * * *", "UTC", 600_000)
    delays = {choose_stagger(f"job{n}", 600_000) for n in range(500)}
    assert len(delays) > 200 and max(delays) < 600_000
    first = find_next_due(line, 0, "", "job1")
    assert first is not None and find_next_due(line, first, "", "job1") == first + DAY_MS


def test_missed_times_by_policy_and_window() -> None:
    now = 10 * DAY_MS
    dues = [now - 3 * DAY_MS, now - DAY_MS + 1000, now - HOUR, now]
    assert decide_misfires(dues, now, "skip", DAY_MS).fires == (now,)
    assert decide_misfires(dues, now, "once", DAY_MS).fires == (now,)
    assert decide_misfires(dues[:3], now, "once", DAY_MS).fires == (now - HOUR,)
    assert decide_misfires(dues[:1], now, "once", DAY_MS) == decide_misfires(dues[:1], now, "skip", None)
    assert decide_misfires(dues[:1], now, "once", None).fires == (now - 3 * DAY_MS,)
    assert decide_misfires(dues, now, "all", DAY_MS).fires == tuple(dues[1:])
    assert decide_misfires(dues[:3], now, "skip", None).skipped == 3
    assert decide_misfires([now - GRACE_MS], now, "skip", 0).fires == (now - GRACE_MS,)
    assert decide_misfires([], now, "all", None).fires == ()


def test_very_many_missed_times_are_counted_not_listed() -> None:
    dues, left = list_past_dues(EverySchedule(1000), 0, 3 * DAY_MS, "", "")
    assert len(dues) == MAX_CATCH_UP and left + MAX_CATCH_UP == 3 * DAY_MS // 1000 and dues[-1] == 3 * DAY_MS
    dues, left = list_past_dues(CronSchedule("* * * * *"), 0, 3 * DAY_MS, "", "")
    assert len(dues) + left == 3 * 1440 and dues[-1] == 3 * DAY_MS and len(dues) >= MAX_CATCH_UP
