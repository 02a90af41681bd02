"""Each due time has one receipt, whatever happened to the gateway and to its clock; a reminder ends once."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from palinurus.core.schedule.fire import DAY_MS, find_next_due, unfold_history
from palinurus.core.schedule.job import parse_schedule
from palinurus.testing.clock import START_MS, run_ready_tasks
from palinurus.tools.program.cron import CronJobMaker
from palinurus.triggers.scheduler import Scheduler
from triggers.world import Killed, World

HOUR = 3_600_000
CHAT = CronJobMaker("agent:main:main", "main", "fake", "chat", "default")
TURN = {"kind": "agentTurn", "message": "look at the sea"}
LINES = [
    ("30 2 * 3,10 *", "Europe/Berlin", "once"),
    ("30 2 * 3,11 *", "America/New_York", "all"),
    ("45 1 * * sun", "Europe/Berlin", "skip"),
    ("15 3 29 2 *", "UTC", "once"),
    ("0 0 L * *", "Australia/Lord_Howe", "all"),
    ("0 3,17 1-3 * *", "Africa/Casablanca", "skip"),
    ("0 12 1-7 * mon", "Asia/Kolkata", "once"),
]


def generated(schedule: dict[str, Any], after: int, upto: int) -> list[int]:
    found, parsed = [], parse_schedule(schedule, START_MS, "UTC")
    while (at := find_next_due(parsed, after, "UTC")) is not None and at <= upto:
        found.append(after := at)
    return found


class Histories:
    """Whole histories of jobs, put together of the short ones that are kept; a run is known by its id."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[str, dict[str, Any]]] = {}

    async def look(self, work: Scheduler) -> None:
        for entry in await work.runs("", 100_000):
            self.lines.setdefault(entry["jobId"], {})[entry["runId"]] = entry


@pytest.mark.parametrize(
    ("seed", "years"), [(0, 3), *(pytest.param(n, 10, marks=pytest.mark.torture) for n in range(6))]
)
async def test_years_with_sleeps_restarts_and_clock_steps_every_due_time_has_one_receipt(seed: int, years: int) -> None:
    chance = random.Random(seed)
    world = World()
    work = await world.up()
    kept, made = Histories(), {}
    for expr, tz, misfire in LINES:
        schedule = {"kind": "cron", "expr": expr, "tz": tz}
        asked = {"name": "sea", "schedule": schedule, "payload": TURN, "misfire": misfire}
        made[(await work.add(asked, CHAT))["id"]] = schedule
    end = START_MS + years * 365 * DAY_MS
    furthest = looked = START_MS
    while world.clock.now() < end:
        await work.tick()
        await run_ready_tasks(6)
        furthest = max(furthest, world.clock.now())
        if furthest - looked > 20 * DAY_MS:
            await kept.look(work)
            looked = furthest
        event = chance.random()
        if event < 0.01:  # off for a while: minutes, days, a long holiday
            await work.close()
            await world.clock.advance(chance.choice([90, 3 * 86_400, 40 * 86_400]))
            work = await world.up()
        elif event < 0.015:
            world.clock.jump(chance.choice([-86_400, 86_400, -90, 90]))
        else:  # from one due time to the next, as the timer does; some looks come late
            due = min([j["state"]["nextRunAtMs"] for j in work.jobs() if "nextRunAtMs" in j["state"]])
            late = chance.choice([0, 0, 0, 0, 30, 7200])
            await world.clock.advance(max(0.001, (due - world.clock.now()) / 1000) + late)
    for _ in range(120):  # what is to be made up for comes one after the other
        await world.step(work, 1)
    furthest = max(furthest, world.clock.now())
    await kept.look(work)
    states = Counter[str]()
    for ident, schedule in made.items():
        entries = list(kept.lines[ident].values())
        receipts = Counter(e["runAtMs"] for e in unfold_history(entries))
        assert max(receipts.values()) == 1
        assert sorted(receipts) == generated(schedule, START_MS, furthest)
        assert sorted(e["runAtMs"] for e in entries if e["status"] == "ok") == world.inbox.fires(ident)
        states.update(e["status"] for e in unfold_history(entries))
    assert states["ok"] > 150 * years and states["skipped"] > 10 * years
    await work.close()


@pytest.mark.parametrize(("misfire", "fired"), [("skip", 1), ("once", 2), ("all", 25)])
async def test_every_missed_time_is_one_line_when_asked_for_and_one_row_when_not(misfire: str, fired: int) -> None:
    world = World()
    work = await world.up()
    schedule = {"kind": "cron", "expr": "30 * * * *"}
    asked = {"name": "sea", "schedule": schedule, "payload": TURN, "misfire": misfire}
    made = await work.add(asked, CHAT)
    await world.step(work, 1800)
    await work.close()
    await world.clock.advance(3 * 86_400 - 600)
    work = await world.up()
    for _ in range(30):
        await world.step(work, 1)
    entries = await work.runs(made["id"])
    assert sum(e["status"] == "skipped" for e in entries) == 1 and len(entries) == fired + 1
    lines = list(unfold_history(entries))
    assert sorted(e["runAtMs"] for e in lines) == generated(schedule, START_MS, world.clock.now()) and len(lines) == 72
    assert Counter(e["status"] for e in lines) == {"ok": fired, "skipped": 72 - fired}
    assert len({e["runId"] for e in lines}) == 72
    await work.close()


async def receipts(at: int, misfire: str) -> bool:
    """Kill at the n-th write after a downtime; start again later. Was it reached?"""
    world = World()
    work = await world.up()
    schedule = {"kind": "cron", "expr": "0 * * * *"}
    made = await work.add({"name": "s", "schedule": schedule, "payload": TURN, "misfire": misfire}, CHAT)
    await world.clock.advance(5.5 * 3600)
    world.memory.writes, world.memory.dies = 0, at
    try:
        await work.tick()
        await run_ready_tasks()
    except Killed:
        pass
    died, world.memory.dies = world.memory.writes >= at, 0
    await work.close()
    work = await world.up()
    for _ in range(8):
        await world.step(work, 1000)
    lines = list(unfold_history(await work.runs(made["id"])))
    assert sorted(e["runAtMs"] for e in lines) == generated(schedule, START_MS, world.clock.now()), at
    assert sorted(e["runAtMs"] for e in lines if e["status"] == "ok") == world.inbox.fires(made["id"])
    await work.close()
    return died


@pytest.mark.parametrize("misfire", ["skip", "once", "all"])
async def test_killed_at_any_write_after_a_downtime_every_due_time_has_one_receipt(misfire: str) -> None:
    reached = [await receipts(at, misfire) for at in range(1, 9)]
    assert reached[1] and (misfire == "skip" or reached[4])


async def reminder(at: int, outcome: str) -> tuple[bool, list[str], World]:
    world = World()
    world.inbox.answer = (outcome, "Tea!")
    work = await world.up()
    made = await work.add({"name": "t", "schedule": {"kind": "at", "at": START_MS + HOUR}, "payload": TURN}, CHAT)
    world.memory.writes, world.memory.dies = 0, at
    try:
        await world.step(work, 3600)
        await world.step(work, 2)
    except Killed:
        pass
    died, world.memory.dies = world.memory.writes >= at, 0
    await work.close()
    work = await world.up()
    for _ in range(3):
        await world.step(work, 60)
    assert [e["runAtMs"] for e in await work.runs(made["id"])] == [START_MS + HOUR], at
    assert len(world.inbox.taken) == 1
    states = [key for key in world.memory.records if key[0] == "jobstate"]
    left = [f"{'on' if job['enabled'] else 'off'}" for job in work.jobs(True)]
    assert len(states) == len(left)
    assert "runningAtMs" not in str(work.jobs(True))
    await work.close()
    return died, left, world


@pytest.mark.parametrize(("outcome", "left"), [("answered", []), ("failed", ["off"])])
async def test_killed_at_any_write_a_reminder_is_told_once_and_then_over(outcome: str, left: list[str]) -> None:
    reached = 0
    for at in range(1, 14):
        died, found, _ = await reminder(at, outcome)
        assert found == left, at
        reached += died
    assert 6 <= reached < 13


ONCE = {"name": "once", "schedule": {"kind": "at", "at": START_MS + HOUR}, "payload": TURN}
HOURLY = {"name": "hourly", "schedule": {"kind": "every", "everyMs": HOUR}, "payload": TURN}


async def failing(config: dict[str, Any], why: str, hours: int = 1, asked: dict[str, Any] = HOURLY) -> World:
    world = World()
    world.configure(**config)
    world.inbox.answer = ("failed", why)
    work = await world.up()
    await work.add(asked, CHAT)
    for _ in range(hours):
        await world.step(work, 3601)
        await work.tick()
    await work.close()
    return world


@pytest.mark.parametrize(
    ("retry", "why", "fires"),
    [
        (None, "HTTP 429", 1),
        ({}, "HTTP 429", 4),
        ({"maxAttempts": 1}, "HTTP 429", 2),
        ({}, "the key was refused", 1),
        ({"retryOn": ["timeout"]}, "HTTP 429", 1),
        ({"retryOn": ["timeout"]}, "it timed out", 4),
    ],
)
async def test_a_job_for_one_time_is_tried_again_where_the_config_says_so(
    retry: dict[str, Any] | None, why: str, fires: int
) -> None:
    world = World()
    world.configure(**({} if retry is None else {"retry": {"backoffMs": [1000, 5000], **retry}}))
    world.inbox.answer = ("failed", why)
    work = await world.up()
    ident = (await work.add(ONCE, CHAT))["id"]
    await world.step(work, 3601)
    for number in range(12):
        if number == 5:  # also after a restart
            await work.close()
            work = await world.up()
        await world.step(work, 1)
    done = world.inbox.fires(ident)
    assert len(done) == fires
    assert [round((b - a) / 1000) for a, b in pairwise(done)][1:2] in ([], [5], [6])
    assert len(await work.runs(ident, 9)) == fires
    assert all("nextRunAtMs" not in job["state"] for job in work.jobs())  # it is over


async def test_somebody_hears_of_a_job_that_keeps_failing() -> None:
    there = {"failureDestination": {"mode": "announce", "channel": "fake", "to": "ops", "accountId": "two"}}
    every = await failing(there, "boom", hours=3)
    assert [(t.to, t.account) for t, _ in every.said.values()] == [("ops", "two")] * 3
    assert "'hourly' failed (3 times in a row): boom" in list(every.said.values())[-1][1]
    alert = {"enabled": True, "after": 2, "cooldownMs": 2 * HOUR}
    assert len((await failing({**there, "failureAlert": alert}, "boom", hours=6)).said) == 3  # 2nd, 4th, 6th
    assert len((await failing({**there, "failureAlert": {**alert, "after": 7}}, "boom", hours=6)).said) == 0
    assert len((await failing({"failureAlert": {**alert, "enabled": False}}, "boom", hours=6)).said) == 0


async def test_where_failures_are_told_without_a_place_of_their_own() -> None:
    asked = {**HOURLY, "delivery": {"mode": "announce", "channel": "fake", "to": "home"}}
    world = await failing({"failureAlert": {"enabled": True, "after": 1, "accountId": "b"}}, "boom", asked=asked)
    assert [(t.to, t.account) for t, _ in world.said.values()] == [("home", "b")]
    hook = {"webhook": "https://hook.example/", "failureAlert": {"enabled": True, "after": 1, "mode": "webhook"}}
    (post,) = (await failing(hook, "boom")).posts
    assert post[0] == "https://hook.example/" and b'"error":"boom"' in post[1]


async def test_missed_times_count_as_failures_where_the_config_says_so() -> None:
    for counted in (True, False):
        world = World()
        alert = {"enabled": True, "after": 1, "includeSkipped": counted}
        world.configure(failureAlert=alert, failureDestination={"channel": "fake", "to": "ops"})
        work = await world.up()
        await work.add({**HOURLY, "misfire": "skip"}, CHAT)
        await world.step(work, 40 * 3600)
        await work.close()
        assert bool(world.said) is counted


async def test_the_history_of_a_job_stays_within_its_bytes() -> None:
    small, large = await failing({"runLog": {"maxBytes": 900}}, "boom", hours=9), await failing({}, "boom", hours=9)
    sizes = [next(len(d) for (kind, _), d in w.memory.records.items() if kind == "jobruns") for w in (small, large)]
    assert sizes[0] <= 900 < sizes[1]
