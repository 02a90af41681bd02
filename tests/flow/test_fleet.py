"""Real `pal gateway` processes on one PostgreSQL: one is killed, one freezes beyond its lease; nothing is lost, nothing
happens twice, and the frozen one is ended with its command before others take over. The judge is the nemesis'
(`make torture PART=fleet`)."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import nursery as nurseries
from palinurus.testing.home import check_snapshot, make_provider_entry
from palinurus.testing.server import ModelServer
from palinurus.testing.telegram.server import CHATS, FakeTelegram
from store.postgres.server import connected, empty_tables, read_fleet
from torture.fleet.history import Ack, Death, FleetStory, Mark, judge_fleet
from torture.fleet.world import Fleet, now_ms

LEASE = 10.0  # a machine that is busy with other tests starts a gateway in seconds
SESSIONS, EACH = 60, 2
LONG = "agent:main:long"
RUNNING = "SELECT node FROM inbox WHERE state = 'running' AND lane = $1"
OPEN = """SELECT 1 FROM inbox WHERE state IN ('queued', 'running') UNION ALL SELECT 1 FROM outbox
  WHERE state IN ('pending', 'sending') UNION ALL SELECT 1 FROM kept WHERE kind = 'draft' UNION ALL SELECT 1 FROM kept
  WHERE kind = 'child' AND convert_from(data, 'UTF8')::jsonb ->> 'state' <> 'told'"""


async def test_a_killed_and_a_frozen_gateway_lose_and_double_nothing(server: str, tmp_path: Path) -> None:
    await empty_tables(server)
    marks = tmp_path / "work" / "marks.txt"
    marks.parent.mkdir()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelServer(remember=False))
        fleet = Fleet(tmp_path, server, nurseries.nursery(), lease=LEASE)
        stack.callback(fleet.kill)
        agents = {"workspace": str(marks.parent), "model": {"primary": "fake/model"}, "maxConcurrent": 8}
        config = {"models": {"providers": {"fake": make_provider_entry(model.url)}}, "agents": {"defaults": agents}}
        await fleet.begin(config)
        acks: list[Ack] = []
        for first in range(0, SESSIONS * EACH, SESSIONS):
            acks += await asyncio.gather(*(_send(fleet, first + n) for n in range(SESSIONS)))
        wait = f"sleep 2; echo h00001 $(date +%s%3N) >> {marks}; sleep 120; echo h00001.late 1 >> {marks}"
        order = "TOOL exec " + json.dumps({"command": wait, "yieldMs": 200_000})
        asked = {"sessionKey": LONG, "message": f"{order}\nSAY done", "idempotencyKey": "h00001"}
        await fleet.call(fleet.nodes[1], "chat.send", asked, 60)
        acks.append(Ack("h00001", LONG, now_ms()))
        async with asyncio.timeout(120):
            while not marks.exists():
                await asyncio.sleep(0.05)
        ((busy,),) = await fleet.read("SELECT node FROM inbox WHERE session = $1", LONG)  # whoever had room for it
        frozen = next(node for node in fleet.nodes if node.name == busy)
        killed = next(node for node in fleet.nodes if node is not frozen)
        killed.wanted = frozen.wanted = False
        killed.signal(signal.SIGKILL)
        frozen.signal(signal.SIGSTOP)
        deaths = [Death(node.name, now_ms()) for node in (killed, frozen)]
        await _finish(server)
        async with asyncio.timeout(60):
            while frozen.process.poll() is None:
                await asyncio.sleep(0.05)
        assert frozen.process.returncode == -signal.SIGKILL  # its guard did that, though it was stopped
        assert await fleet.end() == []
    story = await _read(server, acks, deaths, marks)
    assert {rule: found for rule, found in judge_fleet(story).items() if found} == {}
    assert Counter(row["outcome"] for row in story.rows.inbox if row["state"] == "done").keys() == {"answered"}
    assert any(step["what"] == f"node {frozen.name} lost" for step in story.steps)
    assert [mark.token for mark in story.marks] == ["h00001"]


async def test_a_sub_agent_and_a_draft_of_a_killed_gateway_are_taken_up(server: str, tmp_path: Path) -> None:
    """Killed while its answer grows on a screen and its sub-agent works: the answer stands there once, whole, and what
    the sub-agent found is told once."""
    await empty_tables(server)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelServer(remember=False))
        telegram = await stack.enter_async_context(FakeTelegram())
        fleet = Fleet(tmp_path, server, nurseries.nursery(), lease=LEASE, size=2)
        stack.callback(fleet.kill)
        agents = {"workspace": str(tmp_path), "model": {"primary": "fake/model"}, "heartbeat": {"every": "0m"}}
        known = {"dmPolicy": "allowlist", "allowFrom": [str(CHATS["ann"])], "streaming": "partial"}
        config = {
            "models": {"providers": {"fake": make_provider_entry(model.url)}},
            "agents": {"defaults": agents},
            "channels": {"telegram": {"enabled": True, **known, **telegram.section}},
        }
        await fleet.begin(config)
        task = "SLOW 100\n" + f"TOOL exec {json.dumps({'command': 'sleep 3'})}\nSAY SAY the child is done"
        await telegram.say(f"TOOL sessions_spawn {json.dumps({'task': task})}\nSLOW 300\nWORDS 40", chat="ann")
        async with asyncio.timeout(120):
            while not (any("w3" in text for text in telegram.read("ann")) and await fleet.read(RUNNING, "subagent")):
                await asyncio.sleep(0.05)
        ((busy,),) = await fleet.read(RUNNING, "main")
        killed = next(node for node in fleet.nodes if node.name == busy)
        killed.wanted = False
        killed.signal(signal.SIGKILL)
        assert not any("w39" in text for text in telegram.read("ann"))  # it was in the middle
        async with asyncio.timeout(180):
            while "the child is done" not in " ".join(telegram.read("ann")) or await fleet.read(OPEN):
                await asyncio.sleep(0.2)
        assert await fleet.end() == []
    words = " ".join(telegram.read("ann")).split()  # what the child found is said with the answer, or after it
    assert words == [*(f"w{n}" for n in range(40)), *"the child is done".split()]
    assert check_snapshot(await read_fleet(server)) == []


async def _send(fleet: Fleet, number: int) -> Ack:
    """One message, through the nodes in turn; the sessions one after the other."""
    token, session = f"m{number:05}", f"agent:main:s{number % SESSIONS}"
    asked = {"sessionKey": session, "message": f"SLOW 20\nSAY answer {token}", "idempotencyKey": token}
    told = await fleet.call(fleet.nodes[number % 3], "chat.send", asked, 60)
    assert told["status"] == "started"
    return Ack(token, session, now_ms())


async def _finish(server: str) -> None:
    async with asyncio.timeout(240), connected(server) as conn:
        while await conn.fetchval("SELECT count(*) FROM inbox WHERE state IN ('queued', 'running')"):
            await asyncio.sleep(0.2)


async def _read(server: str, acks: list[Ack], deaths: list[Death], marks: Path) -> FleetStory:
    async with connected(server) as conn:
        steps = [dict(row) for row in await conn.fetch("SELECT item, at, what, detail FROM steps ORDER BY n")]
    seen = [line.split() for line in marks.read_text().splitlines()]
    return FleetStory(
        int(LEASE * 1000),
        await read_fleet(server),
        tuple(steps),
        tuple(acks),
        marks=tuple(Mark(token, int(at)) for token, at in seen),
        deaths=tuple(deaths),
        calm=False,  # how long it took says something on a quiet machine only
    )
