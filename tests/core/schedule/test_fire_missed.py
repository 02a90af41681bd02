"""Missed due times, one by one again."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.schedule.fire import (
    DAY_MS,
    AtSchedule,
    CronSchedule,
    EverySchedule,
    MissedSpan,
    Schedule,
    find_next_due,
    list_missed_slots,
    list_past_dues,
    unfold_history,
)

BEGIN = 1_772_000_000_000
SCHEDULES: list[Schedule] = [
    AtSchedule(BEGIN + 5000),
    EverySchedule(7000, BEGIN + 12_345),
    EverySchedule(3_600_000, BEGIN - 1),
    CronSchedule("*/7 * * * *", "Europe/Berlin"),
    CronSchedule("30 2 * * *", "Europe/Berlin"),
    CronSchedule("0 9 29 2 *"),
    CronSchedule("0 0 1 * *", "America/New_York", 600_000),
]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SCHEDULES),
    st.integers(0, 3 * DAY_MS),
    st.integers(0, 3 * DAY_MS),
    st.sampled_from(["", "Asia/Tokyo"]),
)
def test_they_are_the_ones_that_follow_each_other(schedule: Schedule, begin: int, long: int, tz: str) -> None:
    after, upto = BEGIN + begin, BEGIN + begin + long
    wanted, at = list[int](), find_next_due(schedule, after, tz, "j")
    while at is not None and at <= upto:
        wanted.append(at)
        at = find_next_due(schedule, at, tz, "j")
    row = MissedSpan("j", after, upto, len(wanted), schedule, "missed", tz)
    assert list(list_missed_slots(row)) == wanted[::-1]
    assert list_past_dues(schedule, after, upto, tz, "j") == (wanted[-100:], max(0, len(wanted) - 100))
    assert list(list_missed_slots(msgspec.json.decode(msgspec.json.encode(row), type=MissedSpan))) == wanted[::-1]


@pytest.mark.parametrize("schedule", [EverySchedule(1000), CronSchedule("* * * * * *")])
def test_the_first_of_very_many_are_there_at_once(schedule: Schedule) -> None:
    row = MissedSpan("j", BEGIN, BEGIN + 365 * DAY_MS, 31_536_000, schedule, "missed")
    assert list(islice(list_missed_slots(row), 3)) == [BEGIN + 365 * DAY_MS - n * 1000 for n in range(3)]


def test_a_row_that_ran_after_all_has_the_line_of_its_run() -> None:
    every = EverySchedule(1000)

    def skipped(after: int, upto: int) -> dict[str, Any]:
        row = MissedSpan("j", after, upto, 3, every, "missed (misfire: skip)")
        return {"ts": 9, "jobId": "j", "status": "skipped", "runAtMs": upto, "missed": msgspec.to_builtins(row)}

    ran = {"ts": 9, "jobId": "j", "status": "ok", "runId": "j:2000", "runAtMs": 2000}
    other = {"ts": 9, "jobId": "k", "status": "ok", "runId": "k:3000", "runAtMs": 3000}
    lines = list(unfold_history([skipped(1000, 4000), ran, other, skipped(0, 3000)]))
    assert [(e["jobId"], e["runAtMs"], e["status"]) for e in lines] == [
        ("j", 4000, "skipped"),
        ("j", 3000, "skipped"),
        ("j", 2000, "ok"),
        ("k", 3000, "ok"),
        ("j", 1000, "skipped"),
    ]
    assert lines[0] | {"runId": "j:4000", "summary": "missed (misfire: skip)"} == lines[0] and "missed" not in lines[0]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["*/20 * * * * *", "*/5 * 1-3 * * *", "*/30 0 * * * mon-fri", "* 2,3 * * *"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]),
    st.sampled_from([1_774_656_000_000, 1_792_886_390_000, 1_793_500_000_000, 1_772_800_000_000, 1_775_300_000_000]),
    st.integers(0, DAY_MS),
    st.integers(0, 2 * DAY_MS),
)
def test_days_and_hours_are_counted_as_one_by_one(expr: str, tz: str, begin: int, offset: int, long: int) -> None:
    """Around the nights in which clocks change, from any second to any other."""
    after, schedule = begin - offset, CronSchedule(expr, tz)
    wanted, at = 0, find_next_due(schedule, after)
    while at is not None and at <= after + long:
        wanted, at = wanted + 1, find_next_due(schedule, at)
    found, left = list_past_dues(schedule, after, after + long, "", "j")
    assert len(found) + left == wanted


@pytest.mark.parametrize(("tz", "count"), [("UTC", 365 * 43_200), ("Europe/Berlin", 365 * 43_200)])
def test_a_year_of_seconds_is_counted_by_its_days(tz: str, count: int) -> None:
    """The clock went a year ahead: one by one they would take minutes, and the job would stand still."""
    last, left = list_past_dues(CronSchedule("*/2 * * * * *", tz), BEGIN, BEGIN + 365 * DAY_MS, "", "j")
    assert (len(last), left) == (100, count - 100)
    assert last[-1] == BEGIN + 365 * DAY_MS
