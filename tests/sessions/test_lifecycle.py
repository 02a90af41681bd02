"""Freshness at the boundary, across the changes of the clock, and what a new session keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest

from palinurus.core.types.keys import SessionKey
from palinurus.sessions.lifecycle import ResetPolicy, find_day_boundary, find_stale_reason, read_reset_policy, roll_over
from palinurus.sessions.record import SessionRecord

MAIN = SessionKey("main", "main")
GROUP = SessionKey("main", "telegram:group:7")
TOPIC = SessionKey("main", "telegram:group:7:topic:3")
BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
DAILY = ResetPolicy(4, None)


def ms(*parts: int, tz: ZoneInfo = BERLIN, fold: int = 0) -> int:
    return int(datetime(*parts, tzinfo=tz, fold=fold).timestamp() * 1000)  # type: ignore[arg-type]


def record(started: int, last: int | None = None, updated: int = 0) -> SessionRecord:
    return SessionRecord(sessionId="s", sessionStartedAt=started, lastInteractionAt=last, updatedAt=updated)


@pytest.mark.parametrize(
    ("started", "now", "expected"),
    [
        (ms(2026, 6, 10, 3, 59, 59), ms(2026, 6, 10, 4, 0, 0), "daily"),
        (ms(2026, 6, 10, 4, 0, 0), ms(2026, 6, 10, 4, 0, 0), None),
        (ms(2026, 6, 9, 4, 0, 0), ms(2026, 6, 10, 3, 59, 59), None),
        (ms(2026, 6, 9, 3, 59, 59), ms(2026, 6, 10, 3, 59, 59), "daily"),
        (ms(2026, 6, 1, 12), ms(2026, 6, 10, 12), "daily"),
        (ms(2026, 6, 11, 12), ms(2026, 6, 10, 12), None),  # the clock went back
    ],
)
def test_daily_boundary(started: int, now: int, expected: str | None) -> None:
    assert find_stale_reason(record(started), DAILY, now, BERLIN) == expected


def test_boundary_in_the_nights_of_the_clock_change() -> None:
    # Berlin 2026-03-29: 02:00 -> 03:00; the day before 04:00 is 23 hours earlier.
    assert find_day_boundary(ms(2026, 3, 29, 12), 4, BERLIN) == ms(2026, 3, 29, 4)
    assert ms(2026, 3, 29, 4) - find_day_boundary(ms(2026, 3, 29, 3, 30), 4, BERLIN) == 23 * 3_600_000
    # Berlin 2026-10-25: 03:00 -> 02:00; the night has an hour more.
    assert ms(2026, 10, 25, 4) - find_day_boundary(ms(2026, 10, 25, 3, 30), 4, BERLIN) == 25 * 3_600_000


def test_an_hour_that_does_not_exist_is_the_moment_of_the_change() -> None:
    change = int(datetime(2026, 3, 8, 7, tzinfo=UTC).timestamp() * 1000)  # 02:00 EST becomes 03:00 EDT
    assert find_day_boundary(change, 2, NEW_YORK) == change
    assert find_day_boundary(change - 1, 2, NEW_YORK) == ms(2026, 3, 7, 2, tz=NEW_YORK)


def test_an_hour_that_comes_twice_counts_once() -> None:
    first = ms(2026, 11, 1, 1, tz=NEW_YORK)
    second = ms(2026, 11, 1, 1, 30, tz=NEW_YORK, fold=1)
    assert second - first == 90 * 60_000
    assert find_day_boundary(second, 1, NEW_YORK) == first
    assert find_stale_reason(record(first + 1), ResetPolicy(1, None), second, NEW_YORK) is None


def test_idle_counts_people_only() -> None:
    rule = ResetPolicy(None, 60)
    now = ms(2026, 6, 10, 12)
    hour = 3_600_000
    assert find_stale_reason(record(now - 9 * hour, now - hour), rule, now) is None
    assert find_stale_reason(record(now - 9 * hour, now - hour - 1), rule, now) == "idle"
    # A heartbeat touched the row a moment ago: it does not extend the session.
    assert find_stale_reason(record(now - 9 * hour, now - 2 * hour, updated=now), rule, now) == "idle"
    # Rows without a last interaction fall back to the start; rows without either are left alone.
    assert find_stale_reason(record(now - 2 * hour), rule, now) == "idle"
    assert find_stale_reason(SessionRecord(sessionId="s", updatedAt=1), ResetPolicy(4, 60), now) is None


def test_either_limit_ends_it() -> None:
    rule = ResetPolicy(4, 30)
    now = ms(2026, 6, 10, 12)
    assert find_stale_reason(record(ms(2026, 6, 10, 5), now), rule, now, BERLIN) is None
    assert find_stale_reason(record(ms(2026, 6, 10, 5), now - 31 * 60_000), rule, now, BERLIN) == "idle"
    assert find_stale_reason(record(ms(2026, 6, 10, 3), now), rule, now, BERLIN) == "daily"


@pytest.mark.parametrize(
    ("settings", "key", "channel", "expected"),
    [
        ({}, MAIN, "", ResetPolicy(4, None)),
        ({"idleMinutes": 30}, MAIN, "", ResetPolicy(None, 30)),
        ({"mode": "daily", "atHour": 0}, MAIN, "", ResetPolicy(0, None)),
        ({"mode": "idle", "idleMinutes": 5}, MAIN, "", ResetPolicy(None, 5)),
        ({"reset": {"mode": "idle"}}, MAIN, "", ResetPolicy(None, 60)),
        ({"reset": {"mode": "daily", "atHour": 6, "idleMinutes": 90}}, MAIN, "", ResetPolicy(6, 90)),
        ({"reset": {"mode": "daily", "atHour": 99}}, MAIN, "", ResetPolicy(4, None)),
        ({"reset": {"mode": "idle", "idleMinutes": 0}}, MAIN, "", ResetPolicy(None, None)),
        (
            {"reset": {"atHour": 6}, "resetByType": {"group": {"mode": "idle", "idleMinutes": 9}}},
            GROUP,
            "",
            ResetPolicy(None, 9),
        ),
        ({"reset": {"atHour": 6}, "resetByType": {"group": {"mode": "idle"}}}, MAIN, "", ResetPolicy(6, None)),
        ({"resetByType": {"dm": {"atHour": 7}}}, MAIN, "", ResetPolicy(7, None)),
        ({"resetByType": {"thread": {"atHour": 8}, "group": {"atHour": 9}}}, TOPIC, "", ResetPolicy(8, None)),
        (
            {
                "resetByType": {"group": {"atHour": 9}},
                "resetByChannel": {"telegram": {"mode": "idle", "idleMinutes": 1}},
            },
            GROUP,
            "telegram",
            ResetPolicy(None, 1),
        ),
        ({"resetByChannel": {"telegram": {"atHour": 1}}}, MAIN, "discord", ResetPolicy(4, None)),
    ],
)
def test_policy(settings: dict[str, object], key: SessionKey, channel: str, expected: ResetPolicy) -> None:
    assert read_reset_policy(settings, key, channel) == expected


FULL = SessionRecord(
    sessionId="old",
    updatedAt=5,
    sessionStartedAt=1,
    thinkingLevel="high",
    verboseLevel="on",
    traceLevel="on",
    reasoningLevel="stream",
    ttsAuto="always",
    label="work",
    displayName="Work",
    spawnedBy="agent:main:main",
    spawnDepth=1,
    fastMode=True,
    elevatedLevel="on",
    queueMode="collect",
    inputTokens=5,
    totalTokens=9,
    compactionCount=2,
    memoryFlushAt=3,
    systemSent=True,
    abortedLastRun=True,
    modelOverride="m",
    providerOverride="p",
    modelOverrideSource="user",
    authProfileOverride="a",
    lastChannel="telegram",
    lastTo="42",
)
DROPPED = (
    "fastMode",
    "elevatedLevel",
    "queueMode",
    "inputTokens",
    "totalTokens",
    "compactionCount",
    "memoryFlushAt",
    "systemSent",
    "abortedLastRun",
)
ASKED = (
    "thinkingLevel",
    "verboseLevel",
    "traceLevel",
    "reasoningLevel",
    "ttsAuto",
    "label",
    "displayName",
    "spawnedBy",
    "spawnDepth",
)
CHOICE = ("modelOverride", "providerOverride", "modelOverrideSource", "authProfileOverride")


@pytest.mark.parametrize("asked", [True, False])
def test_rollover_table(asked: bool) -> None:
    new = roll_over(FULL, MAIN, 100, "new", asked=asked)
    assert (new.sessionId, new.sessionStartedAt, new.updatedAt) == ("new", 100, 100)
    for name in DROPPED:
        assert getattr(new, name) is None, name
    for name in ASKED:
        assert getattr(new, name) == (getattr(FULL, name) if asked else None), name
    for name in CHOICE:
        assert getattr(new, name) == getattr(FULL, name), name
    assert (new.lastChannel, new.lastTo) == ("telegram", "42")


def test_a_model_the_program_chose_is_not_kept() -> None:
    auto = msgspec.structs.replace(FULL, modelOverrideSource="auto")
    new = roll_over(auto, MAIN, 100, "new", asked=True)
    assert all(getattr(new, name) is None for name in CHOICE)


def test_usage_family_chains_the_ids() -> None:
    second = roll_over(FULL, MAIN, 100, "second", asked=False)
    third = roll_over(second, MAIN, 200, "third", asked=False)
    assert third.usageFamilySessionIds == ("old", "second")
    assert third.usageFamilyKey == "agent:main:main"
