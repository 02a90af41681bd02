"""The judge of a fleet finds what it is there for: in stories made by hand, and in what a store does whose fences were
taken away."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.clock import SystemClock
from palinurus.store.port import InboxItem, Settlement, StaleClaim
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember
from palinurus.store.postgres.schema import read_schema
from palinurus.store.postgres.store import PostgresStore
from palinurus.testing.home import HomeSnapshot
from store.postgres.server import connected, read_fleet
from torture.fleet.history import RULES, Ack, Death, FleetStory, Mark, StopAck, find_slowest_takeover, judge_fleet

LEASE = 4000
BODY = msgspec.json.encode({"push": False})


def row(ident: str, token: str = "", **more: Any) -> dict[str, Any]:
    usual = {"state": "done", "outcome": "answered", "session": "s", "lane": "main", "absorbed_by": "", "note": "x"}
    return {"id": ident, "dedupe": f"web:{token or ident}", "body": BODY, **usual, **more}


def steps(*told: tuple[int, str, str]) -> tuple[dict[str, Any], ...]:
    return tuple({"item": item, "at": at, "what": what, "detail": "attempt 1"} for at, item, what in told)


def story(*rows: dict[str, Any], **more: Any) -> FleetStory:
    return FleetStory(LEASE, HomeSnapshot(tuple(rows), more.pop("outbox", ()), {}), **more)


ONE = (Ack("c00001", "s", 5),)
RUN = steps((10, "1", "claimed"), (20, "1", "settled"))
WRONG: dict[str, tuple[str, FleetStory]] = {
    "a message that is nowhere": ("lost", story(acks=ONE)),
    "a message that never ends": ("lost", story(row("1", "c00001", state="queued", outcome=None), acks=ONE)),
    "a message that is there twice": ("doubled", story(row("1", "c00001"), row("2", "c00001"), acks=ONE)),
    "an effect that happened twice": ("doubled", story(marks=(Mark("t00001.a", 1), Mark("t00001.a", 2)))),
    "a reply that was shown twice": ("doubled", story(shown=("reply c00001", "reply c00001"))),
    "two runs of a session": (
        "overlap",
        story(row("1"), row("2"), steps=steps((10, "1", "claimed"), (15, "2", "claimed"), (20, "1", "settled"))),
    ),
    "a run that begins before a lost one is over": (
        "overlap",
        story(row("1"), row("2"), steps=steps((10, "1", "claimed"), (15, "2", "claimed"), (16, "1", "node a lost"))),
    ),
    "a command that goes on without its run": (
        "overlap",
        story(row("1", "c00001"), acks=ONE, steps=RUN, marks=(Mark("c00001.b", 5000),)),
    ),
    "messages stored in another order": (
        "out of order",
        story(row("2", "c00002"), row("1", "c00001"), acks=(*ONE, Ack("c00002", "s", 6))),
    ),
    "messages begun in another order": (
        "out of order",
        story(
            row("1"),
            row("2"),
            steps=steps((1, "2", "claimed"), (2, "2", "settled"), (3, "1", "claimed"), (4, "1", "settled")),
        ),
    ),
    "an answer after a stop": ("after a stop", story(row("1", "c00001"), acks=ONE, stops=(StopAck("c00001", 9),))),
    "words after a stop": (
        "after a stop",
        story(
            row("1", "c00001", outcome="aborted"),
            acks=ONE,
            stops=(StopAck("c00001", 9),),
            steps=steps((12, "1", "reply queued")),
        ),
    ),
    "an effect after a stop": (
        "after a stop",
        story(acks=ONE, stops=(StopAck("c00001", 9),), marks=(Mark("c00001.late", 9000),)),
    ),
    "a takeover that took too long": (
        "late",
        story(row("1"), steps=steps((1, "1", "claimed"), (9000, "1", "node a lost")), deaths=(Death("a", 10),)),
    ),
    "a budget that was overspent": (
        "overspent",
        story(spent=(("thrifty", 60),) * 3, limits=(("thrifty", 100),), nodes=1),
    ),
    "a message that waits in a free session": (
        "late",
        story(row("1", "c00001"), acks=ONE, steps=steps((9000, "1", "claimed"), (9001, "1", "settled"))),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found(what: str) -> None:
    rule, told = WRONG[what]
    assert judge_fleet(told)[rule]


def test_a_story_without_faults() -> None:
    """One run was cut off by its node's death, and another took it up."""
    told = story(
        row("1", "c00001"),
        acks=ONE,
        steps=steps((10, "1", "claimed"), (4500, "1", "node a lost"), (4600, "1", "claimed"), (4700, "1", "settled")),
        deaths=(Death("a", 500),),
        marks=(Mark("c00001.a", 300), Mark("c00001.b", 4650)),
    )
    found = judge_fleet(told)
    assert {rule: found[rule] for rule in RULES if rule != "otherwise"} == {r: [] for r in RULES if r != "otherwise"}
    assert find_slowest_takeover(told) == 4000


# --- faults planted in the store

FENCE = """CREATE OR REPLACE FUNCTION check_held(op jsonb, OUT kept inbox) LANGUAGE plpgsql AS $$
BEGIN SELECT * INTO kept FROM inbox WHERE id = op ->> 'id'; END $$"""
STOP = """CREATE OR REPLACE FUNCTION op_stop(op jsonb, blobs bytea[], now bigint) RETURNS done LANGUAGE sql AS $$
  SELECT give(jsonb_build_array('[]'::jsonb, jsonb_agg(id))) FROM inbox WHERE session = op ->> 'session'
$$"""
ONE_RUN = """DROP INDEX inbox_running; CREATE OR REPLACE FUNCTION op_claim(op jsonb, me text, mine bigint, now bigint)
RETURNS done LANGUAGE plpgsql AS $$
DECLARE r inbox; got jsonb := '[]';
BEGIN
  FOR r IN SELECT * FROM inbox WHERE state = 'queued' ORDER BY seq LOOP
    UPDATE inbox SET state = 'running', fence = fence + 1, node = me, epoch = mine WHERE seq = r.seq;
    PERFORM add_step(r.id, now, 'claimed', 'attempt 1');
    got := got || jsonb_build_array(jsonb_build_array(r.id, r.session, r.lane, encode(r.body, 'base64'), r.at, 1, 1));
  END LOOP;
  RETURN give(got);
END $$"""


async def _answer_late(a: PostgresStore, b: PostgresStore) -> tuple[StopAck, ...]:
    """What A runs is given to others, B answers, and then A does too."""
    held = (await a.accept(InboxItem("1", "web:c00001", "s", "main", BODY, 1), claim=True)).claim
    assert held is not None
    await b.requeue(["1"])
    (taken,) = await b.claim("main")
    await b.settle(taken, Settlement("answered", "b"))
    with suppress(StaleClaim):
        await a.settle(held, Settlement("answered", "a"))
    return ()


async def _answer_stopped(a: PostgresStore, b: PostgresStore) -> tuple[StopAck, ...]:
    """B stops what A runs, and A answers all the same."""
    held = (await a.accept(InboxItem("1", "web:c00001", "s", "main", BODY, 1), claim=True)).claim
    assert held is not None
    told = await b.stop("s", "user")
    await a.settle(held, Settlement("answered", "a"))
    return (StopAck("c00001", 5),) if told.marked else ()


async def _run_two(a: PostgresStore, b: PostgresStore) -> tuple[StopAck, ...]:
    for number in ("1", "2"):
        await a.accept(InboxItem(number, f"web:c0000{number}", "s", "main", BODY, 1), claim=False)
    held = [*await a.claim("main"), *await b.claim("main")]
    for one in held:
        await a.settle(one, Settlement("answered", "x"))
    for one in await b.claim("main"):
        await b.settle(one, Settlement("answered", "x"))
    return ()


PLANTED = {
    "no fence": (FENCE, _answer_late, "doubled"),
    "a stop that is not kept": (STOP, _answer_stopped, "after a stop"),
    "no head of a session": (ONE_RUN, _run_two, "overlap"),
}


@pytest.mark.parametrize("plant", [False, True])
@pytest.mark.parametrize("name", PLANTED)
async def test_a_fault_planted_in_the_database_is_found(fleet: str, tmp_path: Path, name: str, plant: bool) -> None:
    sql, act, rule = PLANTED[name]
    stores = [await open_postgres_store(fleet, str(tmp_path), SystemClock(), FleetMember(n, 60.0)) for n in "ab"]
    try:
        async with connected(fleet) as conn:
            if plant:
                await conn.execute(f"SET search_path TO {read_schema().search_path}")
                await conn.execute(sql)
            async with asyncio.timeout(60):
                stops = await act(*stores)
            told = await conn.fetch("SELECT item, at, what, detail FROM steps ORDER BY n")
            rows = await read_fleet(fleet)
            acks = tuple(Ack(row["dedupe"][4:], "s", 5) for row in rows.inbox)
            found = judge_fleet(FleetStory(LEASE, rows, tuple(dict(one) for one in told), acks, stops, calm=False))
    finally:
        for store in stores:
            await store.close()
        if plant:
            async with connected(fleet) as conn:
                await conn.execute(f"DROP SCHEMA palinurus, {read_schema().place} CASCADE")
    assert bool(found[rule]) == plant, found
    assert plant or not any(found[name] for name in RULES if name != "otherwise")
