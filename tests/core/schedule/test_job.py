"""Jobs as people and models write them: what is left out is filled in, what cannot be is refused in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.schedule.cron import parse_cron
from palinurus.core.schedule.fire import AtSchedule, CronSchedule, EverySchedule
from palinurus.core.schedule.job import (
    CronJob,
    CronJobState,
    make_job,
    parse_moment,
    parse_schedule,
    patch_job,
    to_client_job,
)

NOW = 1_767_225_600_000
HOUR = 3_600_000


def job(**asked: Any) -> CronJob:
    body = {"schedule": {"kind": "every", "everyMs": HOUR}, "payload": {"message": "look"}, **asked}
    return make_job(body, "id", NOW, "main", "Europe/Berlin")


def test_what_is_left_out() -> None:
    turn = job()
    assert (turn.session_target, turn.delivery.mode, turn.name, turn.misfire) == (
        "isolated",
        "announce",
        "look",
        "once",
    )
    told = job(payload={"text": "Tea"}, schedule={"at": NOW + HOUR})
    assert (told.session_target, told.payload.kind, told.delete_after_run, told.window) == (
        "main",
        "systemEvent",
        True,
        None,
    )
    assert job(deleteAfterRun=True).delete_after_run and job(misfireWindowMs=5).window == 5
    with pytest.raises(ValueError, match="a session that is there"):
        job(payload={"text": "Tea"}, sessionTarget="isolated")


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("2026-01-01T09:00", NOW + 8 * HOUR),  # the owner's zone
        ("2026-01-01T09:00Z", NOW + 9 * HOUR),
        ("2026-07-01T09:00:00+02:00", NOW + 181 * 24 * HOUR + 7 * HOUR),
        (NOW, NOW),
        (str(NOW), NOW),
    ],
)
def test_times(written: Any, wanted: int) -> None:
    assert parse_moment(written, NOW, "Europe/Berlin") == wanted


def test_schedules_in_their_looser_forms() -> None:
    assert parse_schedule({"cron": "0 9 * * *"}, NOW, "Asia/Tokyo") == CronSchedule("0 9 * * *", "Asia/Tokyo")
    assert parse_schedule({"everyMs": 5000.0}, NOW, "") == EverySchedule(5000, NOW)
    assert parse_schedule({"kind": "at", "atMs": 5}, NOW, "") == AtSchedule(5)
    for written in ({"every": "30m"}, {"kind": "every", "every": "30m"}, {"every": "30"}):
        assert parse_schedule(written, NOW, "") == EverySchedule(1_800_000, NOW)
    for wrong in ({"every": "often"}, {"every": ""}, {"every": "9" * 12 + "w"}):
        with pytest.raises(ValueError, match="30m"):
            parse_schedule(wrong, NOW, "")


def test_patches_change_parts_and_leave_the_rest() -> None:
    before = job(payload={"message": "look", "model": "x/y"})
    after = patch_job(before, {"payload": {"message": "see"}, "delivery": {"to": "5"}, "id": "other"}, NOW + 1, "")
    assert (after.payload.message, after.payload.model, after.id) == ("see", "x/y", "id")
    assert (after.delivery.mode, after.delivery.to, after.updated_at_ms) == ("announce", "5", NOW + 1)
    told = patch_job(before, {"payload": {"kind": "systemEvent", "text": "Tea"}, "sessionTarget": "main"}, NOW, "")
    assert (told.payload.model, told.payload.message) == ("", "")


def test_it_survives_the_disk_and_is_shown_whole() -> None:
    one = job(schedule={"at": NOW + HOUR})
    assert msgspec.json.decode(msgspec.json.encode(one), type=CronJob) == one
    seen = to_client_job(one, CronJobState(NOW), NOW + HOUR)
    assert seen["schedule"] == {"kind": "at", "at": "2026-01-01T01:00:00Z"} and seen["enabled"] is True
    assert seen["state"] == {"nextRunAtMs": NOW + HOUR} and seen["delivery"]["mode"] == "announce"


words = st.text(max_size=12) | st.sampled_from(["at", "every", "cron", "systemEvent", "agentTurn", "main", "now"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(
    ["name", "schedule", "payload", "sessionTarget", "delivery", "enabled", "agentId", "misfire", "deleteAfterRun",
     "misfireWindowMs", "wakeMode", "description"]
)  # fmt: skip
parts = st.sampled_from(["kind", "at", "atMs", "everyMs", "anchorMs", "expr", "tz", "staggerMs", "message", "text"])
hostile = st.dictionaries(names, values | st.dictionaries(parts, values, max_size=5), max_size=8)


@settings(max_examples=150, deadline=None)
@given(hostile)
def test_nothing_but_a_job_or_words_comes_out(asked: dict[str, Any]) -> None:
    for way in (lambda: make_job(asked, "id", NOW, "main", "UTC"), lambda: patch_job(job(), asked, NOW, "UTC")):
        try:
            assert isinstance(way(), CronJob)
        except ValueError as exc:
            assert str(exc)


@settings(max_examples=200, deadline=None)
@given(st.text("0123456789*/-,?Llmonfr@ ", max_size=30) | st.text(max_size=20))
def test_cron_lines_are_read_or_refused(text: str) -> None:
    try:
        line = parse_cron(text)
    except ValueError as exc:
        assert str(exc)
        return
    assert line.seconds and line.minutes and line.hours and line.days and line.months and line.weekdays


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), 10**400, -(10**20), True, "1e9", []])
def test_numbers_no_clock_can_show(bad: Any) -> None:
    for schedule in ({"kind": "every", "everyMs": bad}, {"kind": "at", "at": bad}):
        with pytest.raises(ValueError, match=r".{8}"):
            job(schedule=schedule)
