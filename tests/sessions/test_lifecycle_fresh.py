"""Which session a message belongs to: kept, new, or the successor of one that went stale."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.sections.session import SessionSettings
from palinurus.core.types.keys import SessionKey
from palinurus.errors import StateBroken
from palinurus.sessions.lifecycle import (
    CurrentSession,
    MessageMoment,
    ResetPolicy,
    find_current_session,
    find_reset_policy,
    make_end_payload,
    make_reset_payload,
    make_start_payload,
    read_start_time,
    touch_record,
)
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow

MAIN = SessionKey("main", "main")
GROUP = SessionKey("main", "telegram:group:-100")
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


def ms(year: int, month: int, day: int, hour: int, minute: int = 0, fold: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=BERLIN, fold=fold).timestamp() * 1000)


def row(start: int | None, last: int | None = None, **fields: Any) -> SessionRow:
    record = SessionRecord(sessionId="old", sessionStartedAt=start, lastInteractionAt=last or start, **fields)
    return record.row(MAIN)


async def at(
    stored: SessionRow | None, now: int, settings: SessionSettings | None = None, person: bool = True
) -> CurrentSession:
    moment = MessageMoment(now, BERLIN, "telegram", person)
    return await find_current_session(stored, MAIN, settings or SessionSettings(), moment, "new")


async def test_no_row_is_a_new_session() -> None:
    found = await at(None, 1_000)
    assert (found.record.sessionId, found.stored, found.ended, found.is_new) == ("new", False, None, True)
    assert found.record.sessionStartedAt == 1_000
    assert make_start_payload(MAIN, found) == {
        "sessionId": "new",
        "sessionKey": "agent:main:main",
        "agentId": "main",
        "resumedFrom": None,
    }


@pytest.mark.seed(375)
async def test_the_id_stays_until_the_boundary_and_is_ours_after_it() -> None:
    begun = row(ms(2026, 6, 9, 22), label="work", thinkingLevel="high", modelOverride="m", modelOverrideSource="user")
    before = await at(begun, ms(2026, 6, 10, 3, 59))
    assert (before.record.sessionId, before.stored, before.ended) == ("old", True, None)
    after = await at(begun, ms(2026, 6, 10, 4, 0))
    assert (after.record.sessionId, after.stored) == ("new", False)
    assert after.ended is not None
    assert (after.ended.record.sessionId, after.ended.reason) == ("old", "daily")
    assert (after.record.thinkingLevel, after.record.label, after.record.modelOverride) == (None, None, "m")
    assert make_end_payload(MAIN, after.ended, "new") == {
        "sessionId": "old",
        "sessionKey": "agent:main:main",
        "agentId": "main",
        "reason": "daily",
        "nextSessionId": "new",
    }
    assert make_start_payload(MAIN, after)["resumedFrom"] == "old"


async def test_work_in_a_folder_goes_on_after_the_night_unless_the_owner_set_a_rule() -> None:
    begun = row(ms(2026, 6, 9, 22), folder="/home/eve/project")
    morning = ms(2026, 6, 12, 9)
    assert (await at(begun, morning)).record.sessionId == "old"
    for rule in ({"mode": "daily"}, {"mode": "idle", "idleMinutes": 30}):
        assert (await at(begun, morning, SessionSettings(reset=rule))).record.sessionId == "new"


@pytest.mark.seed(58)
async def test_the_session_level_stays_with_the_session() -> None:
    begun = row(ms(2026, 6, 10, 9), thinkingLevel="high")
    for hour in range(9, 24):
        assert (await at(begun, ms(2026, 6, 10, hour))).record.thinkingLevel == "high"
    assert (await at(begun, ms(2026, 6, 11, 4))).record.thinkingLevel is None


@pytest.mark.parametrize("day", [(2026, 3, 29), (2026, 10, 25)])
async def test_four_o_clock_on_the_days_the_clocks_change(day: tuple[int, int, int]) -> None:
    """The boundary is what the clock on the wall says, also when the night had 23 or 25 hours."""
    evening = row(ms(day[0], day[1], day[2] - 1, 20))
    assert (await at(evening, ms(*day, 3, 59))).stored
    assert not (await at(evening, ms(*day, 4, 0))).stored
    assert (await at(row(ms(*day, 4, 0)), ms(day[0], day[1], day[2] + 1, 3, 59))).stored
    # Twenty-four hours after the last boundary is not the boundary.
    span = ms(*day, 4) - ms(day[0], day[1], day[2] - 1, 4)
    assert span == (23 if day[1] == 3 else 25) * HOUR


async def test_a_heartbeat_neither_ends_nor_extends_a_session() -> None:
    idle = SessionSettings(reset={"mode": "idle", "idleMinutes": 60})
    noon = ms(2026, 6, 10, 12)
    record = SessionRecord(sessionId="old", sessionStartedAt=noon, lastInteractionAt=noon)
    for minutes in (30, 60, 90):
        beat = noon + minutes * 60_000
        found = await at(record.row(MAIN), beat, idle, person=False)
        assert (found.stored, found.ended) == (True, None)
        record = touch_record(found.record, beat, person=False)
    assert (record.updatedAt, record.lastInteractionAt) == (noon + 90 * 60_000, noon)
    said = await at(record.row(MAIN), noon + 91 * 60_000, idle)
    assert said.ended is not None
    assert said.ended.reason == "idle"
    spoke = touch_record(record, noon + 90 * 60_000, person=True)
    assert (await at(spoke.row(MAIN), noon + 91 * 60_000, idle)).stored


async def test_a_resumed_turn_finds_the_same_session() -> None:
    """Killed after the new row was written: the message is as old as before, and the row is now its own."""
    accepted = ms(2026, 6, 10, 4, 1)
    first = await at(row(ms(2026, 6, 9, 22)), accepted)
    assert first.ended is not None
    again = await at(first.record.row(MAIN), accepted)
    assert (again.record.sessionId, again.stored, again.ended) == ("new", True, None)
    # Accepted before the boundary, started after it: still the session it was said in.
    late = await at(row(ms(2026, 6, 9, 22)), ms(2026, 6, 10, 3, 59))
    assert late.stored


@given(st.integers(0, 2**41), st.integers(0, 10**9), st.sampled_from(["daily", "idle"]), st.integers(1, 3000))
def test_a_session_that_just_began_is_never_stale(now: int, age: int, mode: str, minutes: int) -> None:
    settings = SessionSettings(reset={"mode": mode, "idleMinutes": minutes})
    first = asyncio.run(at(row(max(0, now - age)), now, settings))
    again = asyncio.run(at(first.record.row(MAIN), now, settings))
    assert again.stored
    assert again.record.sessionId == first.record.sessionId


async def test_rows_that_do_not_say_when_they_began(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    header = {"type": "session", "version": 3, "id": "old", "timestamp": "2026-06-01T10:00:00.000Z"}
    (folder / "old.jsonl").write_text(json.dumps(header) + "\n{}")
    bare = SessionRow(str(MAIN), "main", "old", 5, b'{"sessionId":"old","updatedAt":5}')
    moment = MessageMoment(ms(2026, 6, 10, 12), BERLIN)
    found = await find_current_session(bare, MAIN, SessionSettings(), moment, "new", str(tmp_path))
    assert found.ended is not None
    assert found.ended.reason == "daily"
    for content in ("", "nonsense\n", "{}\n", '{"type":"session","timestamp":"?"}\n'):
        (folder / "old.jsonl").write_text(content)
        assert read_start_time(str(folder / "old.jsonl")) is None
        assert (await find_current_session(bare, MAIN, SessionSettings(), moment, "new", str(tmp_path))).stored
    assert read_start_time(str(folder / "none.jsonl")) is None


async def test_a_broken_row_is_not_passed_over() -> None:
    with pytest.raises(StateBroken):
        await at(SessionRow(str(MAIN), "main", "x", 5, b"{broken"), 1_000)


def test_rules_by_channel_type_and_default() -> None:
    settings = SessionSettings(
        reset={"atHour": 6},
        reset_by_type={"group": {"mode": "idle", "idleMinutes": 9}},
        reset_by_channel={"discord": {"mode": "idle", "idleMinutes": 1}},
    )
    assert find_reset_policy(SessionSettings(), MAIN) == ResetPolicy(4, None)
    assert find_reset_policy(settings, MAIN, "telegram") == ResetPolicy(6, None)
    assert find_reset_policy(settings, GROUP, "telegram") == ResetPolicy(None, 9)
    assert find_reset_policy(settings, MAIN, "discord") == ResetPolicy(None, 1)
    old = SessionSettings(reset={"mode": "idle", "idleMinutes": 5})
    assert find_reset_policy(old, MAIN) == ResetPolicy(None, 5)


def test_reset_payload() -> None:
    record = SessionRecord(sessionId="old")
    assert make_reset_payload(MAIN, record, "new", [1]) == {
        "sessionId": "old",
        "sessionKey": "agent:main:main",
        "agentId": "main",
        "reason": "new",
        "messages": [1],
    }
    assert msgspec.json.encode(make_reset_payload(MAIN, record, "new", []))
