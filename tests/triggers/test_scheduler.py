"""Jobs under a virtual clock: every slot once, missed ones as configured, through kills and clocks that jump."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from palinurus.core.schedule.fire import DAY_MS, CronSchedule, find_next_due
from palinurus.core.types.inbound import TurnOptions
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow
from palinurus.testing.clock import START_MS, run_ready_tasks
from palinurus.tools.program.cron import CronJobMaker
from palinurus.triggers.scheduler import Scheduler
from triggers.world import Killed, World

HOUR = 3_600_000
TURN = {"kind": "agentTurn", "message": "look at the sea"}
CHAT = CronJobMaker("agent:main:main", "main", "fake", "chat", "default")


def job(schedule: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "sea", "schedule": schedule, "payload": TURN, **more}


async def hop(world: World, work: Scheduler, until: int) -> None:
    """From one due time to the next, as the timer does, but without the minutes between."""
    while True:
        due = await work.tick()
        await run_ready_tasks(8)
        due = min([j["state"]["nextRunAtMs"] for j in work.jobs() if "nextRunAtMs" in j["state"]], default=until)
        if due >= until:
            break
        await world.clock.advance(max(0.001, (due - world.clock.now()) / 1000))
    await world.clock.advance(max(0, until - world.clock.now()) / 1000)


@pytest.mark.parametrize("years", [3, pytest.param(10, marks=pytest.mark.torture)])  # a leap day is in the first three
async def test_years_of_schedules_with_summer_time_and_restarts(years: int) -> None:
    world = World()
    work = await world.up()
    lines = ["30 2 * * 0", "0 9 1 * *", "15 3 29 2 *", "45 1 * * sun", "0 0 L * *", "0 12 1-7 * mon"]
    made = [await work.add(job({"kind": "cron", "expr": e, "tz": "Europe/Berlin"}), CHAT) for e in lines]
    for year in range(years):
        if year % 3 == 2:
            await work.close()
            work = await world.up()
        await hop(world, work, START_MS + (year + 1) * 365 * DAY_MS)
    for expr, one in zip(lines, made, strict=True):
        wanted, at = [], START_MS
        while (
            found := find_next_due(CronSchedule(expr, "Europe/Berlin"), at)
        ) is not None and found < START_MS + years * 365 * DAY_MS:
            wanted.append(at := found)
        assert wanted
        assert world.inbox.fires(one["id"]) == wanted
        assert len({s for s in world.memory.slots if s[0] == one["id"]}) == len(wanted)
    assert len(world.inbox.taken) > 120 * years
    await work.close()


@pytest.mark.parametrize(("misfire", "count"), [("skip", 0), ("once", 1), ("all", 24)])
async def test_three_days_of_downtime_are_made_up_for_as_configured(misfire: str, count: int) -> None:
    world = World()
    work = await world.up()
    made = await work.add(job({"kind": "cron", "expr": "30 * * * *"}, misfire=misfire), CHAT)
    await world.step(work, 1800)
    assert len(world.inbox.fires(made["id"])) == 1
    await work.close()
    await world.clock.advance(3 * 86_400 - 600)  # 00:20: nothing is due right now
    work = await world.up()
    for _ in range(30):  # with `all` one after the other
        await world.step(work, 1)
    fires = world.inbox.fires(made["id"])
    assert len(fires) == 1 + count and len(set(fires)) == len(fires)
    entries = await work.runs(made["id"])
    skipped = [e["summary"] for e in entries if e["status"] == "skipped"]
    assert bool(skipped) and f"{71 - count} due times missed" in skipped[-1]
    await world.step(work, 600)
    assert len(world.inbox.fires(made["id"])) == 2 + count  # and it goes on
    await work.close()


async def test_a_reminder_missed_by_three_days_is_still_told_and_says_so() -> None:
    world = World()
    work = await world.up()
    at = datetime.fromtimestamp(START_MS / 1000 + 3600, UTC).isoformat()
    made = await work.add(
        {"schedule": {"kind": "at", "at": at}, "payload": {"kind": "systemEvent", "text": "Tea"}}, CHAT
    )
    assert made["deleteAfterRun"] and made["sessionTarget"] == "main" and made["name"] == "Tea"
    await work.close()
    await world.clock.advance(3 * 86_400)
    work = await world.up()
    await world.step(work, 1)
    (message,) = world.inbox.taken.values()
    assert "Tea" in message.text and "due 2 days ago" in message.text and message.session == "agent:main:main"
    assert work.jobs(True) == [] and (await work.runs(made["id"]))[0]["status"] == "ok"
    await work.close()


async def test_five_hundred_jobs_in_one_minute() -> None:
    world = World()
    work = await world.up()
    for n in range(500):
        await work.add(job({"kind": "cron", "expr": "0 9 * * *"}, name=f"j{n}"), CHAT)
    await world.step(work, 9 * 3600)
    await world.step(work, 30)
    assert len(world.inbox.taken) == 500 == len(world.memory.slots)
    assert all(j["state"]["lastRunStatus"] == "ok" for j in work.jobs())
    await work.close()


async def test_a_clock_that_jumps_a_day_neither_skips_nor_repeats_a_slot() -> None:
    world = World()
    work = await world.up()
    hourly = await work.add(job({"kind": "cron", "expr": "0 * * * *"}), CHAT)
    every = await work.add(job({"kind": "every", "everyMs": HOUR}, name="e"), CHAT)
    for _ in range(4):
        await world.step(work, 1800)
    world.clock.jump(86_400)  # somebody sets the clock a day ahead …
    for _ in range(4):
        await world.step(work, 1800)
    world.clock.jump(-86_400)  # … and back again
    for _ in range(96):
        await world.step(work, 1800)
    fires = world.inbox.fires(hourly["id"])
    assert len(fires) == len(set(fires))
    day = [START_MS + n * HOUR for n in range(1, 29)]
    wrong = [START_MS + n * HOUR for n in (3, 4)]  # the hours that were tomorrow's then
    assert [due for due in day if due not in fires] == wrong  # the right day lacks nothing else
    assert len(world.inbox.fires(every["id"])) >= 48  # an interval goes on at once, whatever the clock said
    await work.close()


async def test_a_job_made_while_the_clock_was_a_year_ahead_runs_when_it_is_right_again() -> None:
    world = World()
    world.clock.jump(365 * 86_400)
    work = await world.up()
    made = await work.add(job({"kind": "every", "everyMs": 2000}), CHAT)
    for _ in range(5):
        await world.step(work, 2)
    before = len(world.inbox.fires(made["id"]))
    world.clock.jump(-365 * 86_400)
    for _ in range(35):
        await world.step(work, 2)
    assert before >= 4 and len(world.inbox.fires(made["id"])) >= before + 30
    await work.close()


async def test_a_job_never_runs_beside_itself() -> None:
    world = World()
    world.inbox.held = True
    work = await world.up()
    made = await work.add(job({"kind": "every", "everyMs": 60_000}), CHAT)
    for _ in range(10):
        await world.step(work, 60)
    assert len(world.inbox.fires(made["id"])) == 1 and work.job(made["id"])["state"]["runningAtMs"]
    assert await work.run(made["id"]) == {"ok": True, "enqueued": False, "ran": False, "reason": "already-running"}
    world.inbox.held = False
    world.inbox.ended |= dict.fromkeys(world.inbox.taken, ("answered", "late"))
    await world.step(work, 2)
    await world.step(work, 0)
    assert len(world.inbox.fires(made["id"])) == 2  # what came due meanwhile is one missed time
    await work.close()


async def sweep(at: int) -> tuple[bool, World, str]:
    """Kill at the n-th write of a fire's life, start again, and go on."""
    world = World()
    work = await world.up()
    made = await work.add(job({"kind": "cron", "expr": "0 9 * * *"}), CHAT)
    world.memory.writes, world.memory.dies = 0, at
    died = False
    try:
        await world.clock.advance(9 * 3600)
        await work.tick()
        await run_ready_tasks()
        await world.clock.advance(2)
        died = world.memory.writes >= at
    except Killed:
        died = True
    world.memory.dies = 0
    await work.close()
    work = await world.up()
    for _ in range(3):
        await world.step(work, 60)
    await world.step(work, 86_400)
    state = work.job(made["id"])["state"]
    assert "runningAtMs" not in state and state["lastRunStatus"] == "ok"
    runs = [e["runAtMs"] for e in await work.runs(made["id"])]
    assert len(runs) == len(set(runs)) == 2
    await work.close()
    return died, world, made["id"]


async def test_killed_at_any_write_every_slot_has_one_fire(recwarn: pytest.WarningsRecorder) -> None:
    reached = 0
    for at in range(1, 12):
        died, world, ident = await sweep(at)
        assert world.inbox.fires(ident) == [START_MS + 9 * HOUR, START_MS + 9 * HOUR + DAY_MS], at
        reached += died
    assert 6 <= reached < 11  # the sweep went over the end


async def test_an_edit_while_it_runs_counts_from_the_next_slot_and_pausing_stops_it() -> None:
    world = World()
    world.inbox.held = True
    work = await world.up()
    made = await work.add(job({"kind": "cron", "expr": "0 9 * * *"}), CHAT)
    await world.step(work, 9 * 3600)
    await work.update(made["id"], {"schedule": {"kind": "cron", "expr": "0 15 * * *"}, "payload": {"message": "new"}})
    world.inbox.held = False
    world.inbox.ended |= dict.fromkeys(world.inbox.taken, ("answered", "ok"))
    await world.step(work, 6 * 3600)
    await world.step(work, 2)
    hours = [(due - START_MS) // HOUR for due in world.inbox.fires(made["id"])]
    texts = [m.text for m in world.inbox.taken.values()]
    assert hours == [9, 15] and "look at the sea" in texts[0] and "new" in texts[1]
    await work.update(made["id"], {"enabled": False})
    await world.step(work, 3 * 86_400)
    assert len(world.inbox.fires(made["id"])) == 2 and work.jobs() == []
    await work.update(made["id"], {"enabled": True})
    await world.step(work, 1)
    assert len(world.inbox.fires(made["id"])) == 2  # what passed while it was paused was not missed
    await work.close()


async def test_what_a_fire_says_where_it_goes_and_what_it_may() -> None:
    world = World()
    work = await world.up()
    options = {
        "model": "fake/small",
        "thinking": "low",
        "timeoutSeconds": 30,
        "toolsAllow": ["read"],
        "lightContext": True,
    }
    made = await work.add(job({"kind": "every", "everyMs": HOUR}, payload={**TURN, **options}), CHAT)
    assert made["delivery"] == {"mode": "announce", "channel": "fake", "to": "chat", "accountId": "default"}
    await world.step(work, 3600)
    (message,) = world.inbox.taken.values()
    due = START_MS + HOUR
    assert message.session == f"agent:main:cron:{made['id']}:run:{due}" and message.push and message.system
    assert (message.target.channel, message.target.to) == ("fake", "chat")
    assert message.options == TurnOptions(
        model="fake/small",
        thinking="low",
        queue="followup",
        trigger="cron",
        timeout_seconds=30,
        tools_allow=("read",),
        prompt_mode="minimal",
        slot=(made["id"], due),
    )
    assert work.events.has_waiting("agent:main:main")  # the main session hears of what the person was told
    told = await work.events.take("agent:main:main", "i1")
    assert "'sea' told the person: done" in told.text and told.source == "session"
    await work.close()


async def test_current_is_the_session_that_asks_and_none_says_nothing() -> None:
    world = World()
    key = SessionKey("main", "fake:group:g1")
    record = msgspec.structs.replace(SessionRecord.fresh(key, 0, "s"), lastChannel="fake", lastTo="g1")
    world.memory.rows[str(key)] = SessionRow(str(key), "main", "s", 0, record.encode())
    work = await world.up()
    asks = msgspec.structs.replace(CHAT, session=str(key))
    await work.add(job({"kind": "every", "everyMs": HOUR}, sessionTarget="current"), asks)
    await work.add(job({"kind": "every", "everyMs": HOUR}, name="q", delivery={"mode": "none"}), asks)
    await world.step(work, 3600)
    first, second = world.inbox.taken.values()
    assert (first.session, first.target.to, first.push) == (str(key), "g1", True)
    assert not second.push and second.session.startswith("agent:main:cron:")
    await work.close()


async def test_a_webhook_gets_the_result_with_a_key_that_tells_repeats() -> None:
    world = World()
    work = await world.up()
    hook = {"mode": "webhook", "to": "https://example.org/h"}
    made = await work.add(job({"kind": "every", "everyMs": HOUR}, delivery=hook), CHAT)
    await world.step(work, 3600)
    await world.step(work, 1)
    ((url, body, headers),) = world.posts
    run = f"{made['id']}:{START_MS + HOUR}"
    assert url == hook["to"] and headers["Idempotency-Key"] == run
    assert json.loads(body) | {"status": "ok", "summary": "done", "runId": run} == json.loads(body)
    assert (await work.runs(made["id"]))[0]["deliveryStatus"] == "delivered"
    await work.close()


async def test_an_event_for_the_next_heartbeat_is_told_in_one_turn_only() -> None:
    world = World()
    work = await world.up()
    event = {"kind": "systemEvent", "text": "The tide turns"}
    await work.add(job({"kind": "every", "everyMs": HOUR}, payload=event, wakeMode="next-heartbeat"), CHAT)
    await world.step(work, 3600)
    assert world.inbox.taken == {}
    await work.close()
    work = await world.up()  # it is on disk
    told = await work.events.take("agent:main:main", "m1")
    assert told.text == "System: The tide turns"
    assert await work.events.take("agent:main:main", "m1") == told  # the same turn, taken up again
    assert (await work.events.take("agent:main:main", "m2")).text == ""
    assert not [key for key in world.memory.records if key[0] == "event"]
    await work.close()


async def test_failures_are_kept_and_counted_and_history_is_bounded() -> None:
    world = World()
    world.inbox.answer = ("failed", "no key")
    work = await world.up()
    made = await work.add(job({"kind": "every", "everyMs": 1000}), CHAT)
    for _ in range(60):
        await world.step(work, 1)
    state = work.job(made["id"])["state"]
    assert state["lastRunStatus"] == "error" and state["lastError"] == "no key" and state["consecutiveErrors"] == 60
    assert len(await work.runs(made["id"], 500)) == 50
    assert {p["action"] for _, p in world.told} == {"added", "started", "finished"}
    once = await work.add(job({"kind": "at", "at": world.clock.now()}), CHAT)
    await world.step(work, 0)
    await world.step(work, 1)
    assert work.job(once["id"])["enabled"] is False  # a reminder that failed is not thrown away
    await work.close()


async def test_asked_for_by_hand_while_the_timer_looks_it_runs_once() -> None:
    world = World()
    world.inbox.held = True
    work = await world.up()
    made = await work.add(job({"kind": "every", "everyMs": HOUR}), CHAT)
    await world.clock.advance(3600)
    answers = await asyncio.gather(work.run(made["id"]), work.tick(), work.run(made["id"]), work.tick())
    await run_ready_tasks()
    assert len(world.inbox.taken) == 1 and [a["enqueued"] for a in answers if isinstance(a, dict)] == [True, False]
    assert len([p for _, p in world.told if p["action"] == "started"]) == 1
    await work.close()


async def test_a_channel_that_is_not_there_is_an_error_of_the_run() -> None:
    world = World()
    work = await world.up()
    away = {"mode": "announce", "channel": "pigeon", "to": "x"}
    made = await work.add(job({"kind": "every", "everyMs": HOUR}, delivery=away), CHAT)
    await world.step(work, 3600)
    assert world.inbox.taken == {} and "pigeon" in work.job(made["id"])["state"]["lastError"]
    await work.close()


async def test_run_now_leaves_the_schedule_alone_and_bad_jobs_are_refused() -> None:
    world = World()
    work = await world.up()
    made = await work.add(job({"kind": "cron", "expr": "0 9 * * *"}), CHAT)
    assert (await work.run(made["id"][:8], force=False))["reason"] == "not-due"
    assert (await work.run("sea"))["runId"].startswith(f"manual:{made['id']}:")
    await run_ready_tasks()
    assert work.job("sea")["state"]["nextRunAtMs"] == START_MS + 9 * HOUR
    bad: list[dict[str, Any]] = [
        job({"kind": "cron", "expr": "nonsense"}),
        job({"kind": "at", "at": "2001-01-01T00:00:00Z"}),
        job({"kind": "every", "everyMs": 1}),
        job({"kind": "cron", "expr": "0 9 * * *", "tz": "Mars/Base"}),
        job({"kind": "every", "everyMs": HOUR}, payload={"kind": "agentTurn", "message": " "}),
        job({"kind": "every", "everyMs": HOUR}, sessionTarget="somewhere"),
        job({"kind": "every", "everyMs": HOUR}, agentId="nobody"),
        job({"kind": "every", "everyMs": HOUR}, misfire="often"),
        job({"kind": "every", "everyMs": HOUR}, delivery={"mode": "webhook", "to": "file:///x"}),
    ]
    for one in bad:
        with pytest.raises(BadRequest, match=r".{8}"):
            await work.add(one, CHAT)
    with pytest.raises(BadRequest, match="has no colour"):
        await work.update("sea", {"colour": "red"})
    with pytest.raises(NotFound):
        work.job("nobody")
    assert await work.remove("sea") and not await work.remove("sea") and work.status()["jobs"] == 0
    await work.close()


async def test_the_timer_itself_fires_on_time_and_notices_new_jobs() -> None:
    world = World()
    work = await world.up()
    work.start()
    await world.clock.until_sleeping()
    made = await work.add(job({"kind": "every", "everyMs": 5000}), CHAT)
    await run_ready_tasks()
    await world.clock.advance(16)
    assert world.inbox.fires(made["id"]) == [START_MS + n * 5000 for n in (1, 2, 3)]
    await work.close()
