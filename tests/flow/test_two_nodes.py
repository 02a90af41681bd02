"""Two Apps that share one state in one process: neither believes what only it knows.

With a seed the reads of both take a while, as those of a database elsewhere do; "fleet" is such a database, and each
App has a home of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from flow.test_app import settings
from gateway.host import TOKEN
from palinurus.app import App
from palinurus.clock import Clock, SystemClock
from palinurus.core.types.approval import ApprovalRequest
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Sender, TurnOptions
from palinurus.core.types.model import Model
from palinurus.files import write_whole_file
from palinurus.gateway.client import make_identity
from palinurus.gateway.rpc import MethodError
from palinurus.gateway.server import GatewayServer
from palinurus.inbox.route import build_item
from palinurus.store.factory import POINTER, open_store
from palinurus.store.news import StoreNews
from palinurus.store.port import Store
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember
from palinurus.testing.channel import FakeChannel
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.home import check_home, check_snapshot
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from palinurus.testing.slowstore import SharedStates, open_slow_store
from palinurus.tools.program.cron import CronJobMaker
from store.postgres.server import empty_tables, read_fleet
from support import inbound

MAIN = "agent:main:main"
LEASE = 40.0  # seconds: nothing here waits for its end, and a busy machine may hold up the loop for long
LATER = TurnOptions(queue="followup")
Slow: TypeAlias = int | str | None
SEEDS = pytest.mark.parametrize("slow", [None, 1, 2, 3, "fleet"])
BOTH = pytest.mark.parametrize("slow", [None, "fleet"])


@pytest.fixture(autouse=True)
def _server(request: pytest.FixtureRequest) -> None:
    """Where a test wants a fleet: its address, for `two`."""
    if "slow" in request.fixturenames and request.getfixturevalue("slow") == "fleet":
        request.getfixturevalue("monkeypatch").setenv("FLEET", request.getfixturevalue("server"))


@asynccontextmanager
async def two(
    home: Path, one: Model, other: Model, *channels: FakeChannel, slow: Slow = None, **config: Any
) -> AsyncIterator[tuple[App, App]]:
    """A and B. Both have the same channels, of which A is the first to ask for each."""
    fleet = await empty_fleet() if slow == "fleet" else ""
    shared = SharedStates(open_slow_store(slow, 0.02) if isinstance(slow, int) else open_store)
    apps = []
    for name, model in (("a", one), ("b", other)):
        if fleet:
            home.mkdir(exist_ok=True)
        there = settings(home / name if fleet else home, store={"sharedWorkspaces": True}, **config)
        app = App(there, {}, SystemClock(), model=model, channels={c.name: c for c in channels})
        app.open_store = partial(open_node, fleet, name) if fleet else shared.open
        apps.append(app)
        await app.start()
    try:
        yield apps[0], apps[1]
    finally:
        for app in apps[::-1]:
            await app.stop()


async def empty_fleet() -> str:
    """The address of a fleet in which nothing has happened yet."""
    url = os.environ["FLEET"]
    await empty_tables(url)
    return url


async def open_node(url: str, name: str, home: str, clock: Clock) -> Store:
    write_whole_file(os.path.join(home, POINTER), url.encode(), sync=False)  # as `open_fleet_store` does
    return await open_postgres_store(url, home, clock, FleetMember(name, LEASE))


async def check(home: Path, slow: Slow) -> list[str]:
    """What is wrong after both have stopped."""
    return check_snapshot(await read_fleet(os.environ["FLEET"])) if slow == "fleet" else check_home(str(home))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def end(app: App, ident: str) -> tuple[str | None, str]:
    async with asyncio.timeout(60):
        row = await app.wait(ident)
    assert row.state == "done"
    return row.outcome, row.note


async def sent(app: App) -> None:
    """All replies are out."""
    async with asyncio.timeout(60):
        while await app.store.list_due_replies("fake", 2**60):
            await asyncio.sleep(0.01)


async def said(app: App) -> list[str]:
    """The main session as the node shows it."""
    row = await app.store.session(MAIN)
    assert row is not None
    loaded = await app.program.transcripts.load(f"agents/main/sessions/{row.session_id}.jsonl")
    return [str(getattr(message, "text", "")).rpartition("] ")[2] for message in loaded.messages()]


def held(gate: StreamGate, *more: Any) -> ScriptedModel:
    return ScriptedModel([hold_at(say("first"), gate, 1), *more])


def nobody() -> ScriptedModel:
    """A model that is never asked."""
    return ScriptedModel([])


@SEEDS
async def test_a_message_that_waits_on_one_node_is_started_when_the_other_is_done(tmp_path: Path, slow: Slow) -> None:
    gate, channel = StreamGate(), FakeChannel()
    async with two(tmp_path / "h", held(gate, say("by a")), ScriptedModel([say("by b")]), channel, slow=slow) as (a, b):
        first = await a.submit(inbound("one", options=LATER))
        await gate.wait_reached()
        second = await b.submit(inbound("two", options=LATER))
        assert second.state == "queued"
        gate.open()
        assert await end(b, first.id) == ("answered", "first")
        outcome, note = await end(b, second.id)
        assert outcome == "answered" and note in ("by a", "by b")
        assert await said(a) == await said(b) == ["one", "first", "two", note]
        await sent(b)
    assert channel.texts == ["first", note] and await check(tmp_path / "h", slow) == []


@SEEDS
async def test_messages_of_one_session_run_one_at_a_time_and_in_order(tmp_path: Path, slow: Slow) -> None:
    home, channel = tmp_path / "h", FakeChannel()
    models = [ScriptedModel([say("ok")], repeat=True) for _ in range(2)]
    async with two(home, models[0], models[1], channel, slow=slow) as apps:
        all_sent = [await apps[n % 2].submit(inbound(f"m{n}", options=LATER)) for n in range(12)]
        for n, one in enumerate(all_sent):
            assert await end(apps[n % 2], one.id) == ("answered", "ok")
        rows = [await apps[0].store.item(one.id) for one in all_sent]
        spans = [(row.claimed, row.settled) for row in rows if row is not None]
        assert spans == sorted(spans) and all(before[1] <= after[0] for before, after in pairwise(spans))
        for app in apps:
            assert [text for text in await said(app) if text != "ok"] == [f"m{n}" for n in range(12)]
        await sent(apps[0])
    assert len(channel.texts) == 12 and not channel.duplicate_ids and await check(home, slow) == []


@SEEDS
async def test_what_is_written_on_one_node_is_steered_into_the_run_on_the_other(tmp_path: Path, slow: Slow) -> None:
    gate, channel = StreamGate(), FakeChannel()
    model = ScriptedModel([hold_at(call_tools(("ls", {})), gate, 0), say("both")])
    async with two(tmp_path / "h", model, nobody(), channel, slow=slow) as (a, b):
        first = await a.submit(inbound("one"))
        await gate.wait_reached()
        second = await b.submit(inbound("two"))
        await until(lambda: a.dispatcher._book.row(MAIN, second.id) is not None)
        gate.open()
        assert await end(b, second.id) == ("answered", "both")
        assert await end(b, first.id) == ("answered", "both")
        row = await a.store.item(second.id)
        assert row is not None and (row.state, row.absorbed_by) == ("absorbed", first.id)
        await sent(b)
    assert channel.texts == ["both"] and await check(tmp_path / "h", slow) == []


@SEEDS
@pytest.mark.parametrize("stop", ["session", "item", "command"])
async def test_a_stop_on_one_node_stops_the_run_on_the_other(tmp_path: Path, slow: Slow, stop: str) -> None:
    gate, channel = StreamGate(), FakeChannel(owner=True)
    async with two(tmp_path / "h", held(gate), nobody(), channel, slow=slow) as (a, b):
        told = stop == "command"  # else whoever stops it knows
        first = await a.submit(inbound("one", options=LATER, push=told))
        await gate.wait_reached()
        second = await b.submit(inbound("two", options=LATER, push=told))
        if stop == "session":
            assert await b.dispatcher.stop(MAIN, "user") == (True, 1, 0)
        elif stop == "item":
            # the one that waits first: else it may have run by then
            assert await a.dispatcher.stop_item(second.id) and await b.dispatcher.stop_item(first.id)
        else:
            await end(b, (await b.submit(inbound("/stop", sender=Sender("human", owner=True, allowed=True)))).id)
        row = await b.store.item(first.id)  # on disk before it was acknowledged
        assert row is not None and row.outcome == "aborted"
        assert (await end(b, first.id))[0] == "aborted"
        assert (await end(a, second.id))[0] == "aborted"
        await until(lambda: not (a.dispatcher.busy or a.dispatcher.lanes.busy or b.dispatcher.lanes.busy))
        await sent(a)
    assert await check(tmp_path / "h", slow) == []
    assert stop != "command" or channel.texts == ["⚙️ Agent was aborted. 1 waiting message dropped."]


@BOTH
async def test_who_watches_elsewhere_sees_the_answer(tmp_path: Path, slow: Slow) -> None:
    gate, seen = StreamGate(), list[RunEvent]()
    async with two(tmp_path / "h", held(gate, say("second")), nobody(), slow=slow) as (a, b):
        b.dispatcher._pump.serves = ()  # B takes messages in, A runs them
        await a.submit(inbound("one", options=LATER))
        await gate.wait_reached()
        second = await b.submit(inbound("two", options=LATER), seen.append)
        gate.open()
        assert await end(b, second.id) == ("answered", "second")
        await until(lambda: bool(seen))
    assert isinstance(seen[-1], AgentEnd) and seen[-1].messages[-1].text == "second"


@SEEDS
async def test_a_conversation_that_moves_between_nodes_is_whole_on_each(tmp_path: Path, slow: Slow) -> None:
    """The model of each node sees what was said through the other."""
    models = [ScriptedModel([say(f"{name}{n}") for n in range(3)]) for name in "ab"]
    async with two(tmp_path / "h", models[0], models[1], slow=slow) as apps:
        for n in range(6):
            await end(apps[n % 2], (await apps[n % 2].submit(inbound(f"q{n}", push=False))).id)
        whole = [text for n in range(6) for text in (f"q{n}", f"{'ab'[n % 2]}{n // 2}")]
        assert await said(apps[0]) == whole == await said(apps[1])
    asked = [str(getattr(m, "text", "")).rpartition("] ")[2] for m in models[1].requests[-1].messages]
    assert asked[-11:] == whole[:11]


@SEEDS
async def test_a_job_fires_once_whoever_made_it(tmp_path: Path, slow: Slow) -> None:
    home, channel = tmp_path / "h", FakeChannel()
    models = [ScriptedModel([say("done")], repeat=True) for _ in range(2)]
    async with two(home, models[0], models[1], channel, slow=slow) as (a, b):
        asked = {"name": "j", "schedule": {"kind": "every", "everyMs": 1000}, "payload": {"message": "do it"}}
        made = await b.scheduler.add({**asked, "delivery": {"mode": "none"}}, CronJobMaker(agent="main"))
        async with asyncio.timeout(60):
            while len(await b.scheduler.runs(made["id"])) < 3:
                await asyncio.sleep(0.05)
        fires = [run["runAtMs"] for run in await a.scheduler.runs(made["id"])]
        assert len(set(fires)) == len(fires)
        assert a.scheduler.job(made["id"])["state"]["lastRunStatus"] == "ok"
        await b.scheduler.remove(made["id"])
        await until(lambda: not a.scheduler.jobs())
    assert await check(home, slow) == []


@BOTH
async def test_when_one_node_goes_the_other_keeps_time_receives_and_sends(tmp_path: Path, slow: Slow) -> None:
    channel = FakeChannel()
    async with two(tmp_path / "h", ScriptedModel([say("a")]), ScriptedModel([say("b")]), channel, slow=slow) as (a, b):
        await channel.receive("hello", event="e1")
        await until(lambda: channel.texts == ["a"])
        await a.stop()
        await until(lambda: b.receivers.all()[0].running)
        await channel.receive("again", event="e2")
        await until(lambda: channel.texts == ["a", "b"])
        assert await b.store.grant("clock")
    assert not channel.duplicate_ids


@SEEDS
async def test_an_approval_answered_on_one_node_is_heard_on_the_other(tmp_path: Path, slow: Slow) -> None:
    async with two(tmp_path / "h", nobody(), nobody(), slow=slow) as (a, b):
        heard: list[str] = []
        b.approvals.listen(lambda what, row: heard.append(what))
        ask = ApprovalRequest(
            kind="exec",
            agent="main",
            session=MAIN,
            run="r",
            call="c",
            tool="exec",
            title="rm",
            command="rm x",
            timeout=60.0,
        )
        waiting = asyncio.ensure_future(a.approvals.ask(ask, lambda ident, text: None))
        await until(lambda: heard == ["requested"])
        (row,) = await b.approvals.pending()
        assert (await b.approvals.answer(row.id, "allow-once", "b")).problem == ""
        async with asyncio.timeout(60):
            answer = await waiting
        assert (answer.decision, answer.by) == ("allow-once", "b")
        assert "already answered" in (await a.approvals.answer(row.id, "deny", "a")).problem


@BOTH
async def test_a_device_revoked_on_one_node_is_refused_on_the_other(tmp_path: Path, slow: Slow) -> None:
    async with two(tmp_path / "h", nobody(), nobody(), slow=slow) as apps:
        servers = [GatewayServer(app, app.clock, TOKEN) for app in apps]
        for server in servers:
            await server.start("127.0.0.1", 0)
        try:
            identity, there = make_identity(), servers[1].clients.pairing
            async with connect_to_gateway(servers[1].port, apps[1].clock, token=TOKEN, identity=identity) as link:
                (device,) = (await link.call("device.pair.list", {}))["paired"]
                ident = device["deviceId"]
                await until(lambda: servers[0].clients.pairing.device(ident) is not None)
                await servers[0].clients.pairing.remove(ident, device["scopes"])
                await until(lambda: bool(there.device(ident) and there.device(ident).blocked))  # type: ignore[union-attr]
                async with asyncio.timeout(60):
                    assert await link.wait_closed() == 4001
            with pytest.raises(MethodError):
                async with connect_to_gateway(servers[1].port, apps[1].clock, token=TOKEN, identity=identity):
                    pass
        finally:
            for server in servers:
                await server.stop()


@pytest.mark.parametrize("slow", ["fleet"])  # nodes of one process have no names
async def test_a_sub_agent_of_a_node_that_has_gone_is_told_of_by_another(tmp_path: Path, slow: Slow) -> None:
    """Its run goes on elsewhere; so must whoever waits for its end."""
    gates = [StreamGate(), StreamGate()]
    spawn = call_tools(("sessions_spawn", {"task": "look"}))
    one = ScriptedModel(
        [spawn, *(hold_at(say("never heard"), gate, 0) for gate in gates)]
    )  # who spawned, and the child
    other = ScriptedModel([say("found it")], repeat=True)
    async with two(tmp_path / "h", one, other, slow=slow) as (a, b):
        first = await a.submit(inbound("go", push=False))
        b.dispatcher._pump.serves = ()  # all of it happens on A
        for gate in gates:
            await gate.wait_reached()
        b.dispatcher._pump.serves = None
        await a.stop()
        assert await end(b, first.id) == ("answered", "found it")
        await until(lambda: [child.state for child in b.subagents.registry.every()] == ["told"])


@pytest.mark.parametrize("slow", ["fleet"])
async def test_a_run_that_was_stopped_and_whose_node_died_is_told_of_by_another(tmp_path: Path, slow: Slow) -> None:
    """The stop is acknowledged, and the node that runs never hears of it."""
    gate = StreamGate()
    async with two(tmp_path / "h", held(gate), nobody(), FakeChannel(), slow=slow) as (a, b):
        first = await a.submit(inbound("go", options=LATER))
        await gate.wait_reached()
        a.store._link._listeners.clear()  # type: ignore[attr-defined]
        assert (await b.dispatcher.stop(MAIN, "rpc")).ran
        assert await b.store.fleet.evict("a")  # type: ignore[attr-defined]
        b.store._link.lease._hurry.set()  # type: ignore[attr-defined]
        assert (await end(b, first.id))[0] == "aborted"
        async with asyncio.timeout(60):
            while not (replies := (await read_fleet(os.environ["FLEET"])).outbox):
                await asyncio.sleep(0.05)
        assert [(row["item"], b"stopped" in row["data"]) for row in replies] == [(first.id, True)]
        gate.open()


@BOTH
async def test_a_message_of_which_a_node_never_heard_is_started_at_the_next_look(tmp_path: Path, slow: Slow) -> None:
    """News can be lost; a store that can lose some says again and again that something waits."""
    async with two(tmp_path / "h", nobody(), ScriptedModel([say("found")] * 2), slow=slow) as (a, b):
        a.dispatcher._pump.serves = ()
        for number in range(2):
            heard = inbound(f"q{number}", event=f"e{number}", push=False)
            route = b.reader.route(heard)
            item = build_item(heard, route, b.clock)
            await b.store.accept(item, claim=False)  # as if another had taken it in, and B had not been told
            b.dispatcher.hear(StoreNews("waiting", "main"))
            assert await end(b, item.id) == ("answered", "found")
    assert await check(tmp_path / "h", slow) == []


@SEEDS
@pytest.mark.parametrize("asked", ["/compact", "/verbose on"])
async def test_a_command_for_a_run_reaches_the_node_that_runs(tmp_path: Path, slow: Slow, asked: str) -> None:
    gate, channel, owner = StreamGate(), FakeChannel(owner=True), Sender("human", owner=True, allowed=True)
    async with two(tmp_path / "h", held(gate), nobody(), channel, slow=slow) as (a, b):
        first = await a.submit(inbound("one", options=LATER))
        await gate.wait_reached()
        outcome, note = await end(b, (await b.submit(inbound(asked, sender=owner))).id)
        assert outcome == "answered"
        if asked == "/compact":
            assert "compacted before its next model call" in note
        else:
            await until(lambda: MAIN in a.turns._s.switched)
            assert a.turns._s.switched[MAIN].verboseLevel == "on"
        gate.open()
        await end(b, first.id)
        await sent(a)
    assert await check(tmp_path / "h", slow) == []


@BOTH
async def test_commands_are_done_where_the_agent_is_served(tmp_path: Path, slow: Slow) -> None:
    owner = Sender("human", owner=True, allowed=True)
    async with two(tmp_path / "h", nobody(), nobody(), FakeChannel(owner=True), slow=slow) as (a, b):
        a.dispatcher._pump.serves, b.dispatcher._pump.serves = ("agent:main:",), ("agent:other:",)
        for app in (a, b):
            outcome, note = await end(app, (await app.submit(inbound("/whoami", sender=owner))).id)
            assert outcome == "answered" and "human" in note


@pytest.mark.parametrize("slow", ["fleet"])
async def test_a_note_stands_behind_what_another_node_has_said_meanwhile(tmp_path: Path, slow: Slow) -> None:
    """It hung on what was the end when it was asked for: the answer given meanwhile was in no conversation."""
    reached, go, key = asyncio.Event(), asyncio.Event(), "agent:main:one"
    answers = ScriptedModel([say("one"), say("two")])
    async with two(tmp_path / "h", answers, ScriptedModel([]), slow=slow) as (a, b):
        server = GatewayServer(b, b.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        try:
            async with connect_to_gateway(server.port, b.clock, token=TOKEN) as link:
                await a.wait((await a.submit(inbound("first", session=key, push=False))).id)
                find = b.store.list_waiting

                async def find_late(session: str) -> Any:
                    reached.set()
                    await go.wait()
                    return await find(session)

                b.store.list_waiting = find_late  # type: ignore[method-assign]
                note = asyncio.ensure_future(link.call("chat.inject", {"sessionKey": key, "message": "a note"}))
                await asyncio.wait_for(reached.wait(), 60)
                await a.wait((await a.submit(inbound("second", session=key, push=False))).id)
                go.set()
                assert (await note)["ok"]
        finally:
            go.set()
            await server.stop()
    assert await check(tmp_path / "h", slow) == []
