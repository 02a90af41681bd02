"""Stopping, through the whole App: it is on disk before it is acknowledged, and nothing is heard of it afterwards."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from flow.test_app import running, settings, transcript, until
from palinurus.app import App
from palinurus.clock import Clock, SystemClock
from palinurus.core.types.inbound import Sender, TurnOptions
from palinurus.store.factory import open_store
from palinurus.store.port import Acceptance, InboxItem, Store
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound

MAIN, OTHER = "agent:main:main", "agent:main:other"
OWNER = Sender("me", owner=True)


async def test_after_a_stop_is_answered_nothing_more_is_heard_of_the_run(tmp_path: Path) -> None:
    gate = StreamGate()
    model, channel = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        (first,) = await channel.receive("hello", event="1")
        await gate.wait_reached()
        stop = await app.submit(inbound("/stop", sender=OWNER))
        assert [(await app.wait(i)).outcome for i in (first, stop.id)] == ["aborted", "answered"]
        await channel.receive("more", event="3")
        await until(lambda: len(channel.seen) == 2)
    assert channel.texts == ["⚙️ Agent was aborted.", "next"]
    assert [e["message"]["role"] for e in transcript(tmp_path / "h")[1:3]] == ["user", "assistant"]  # it is on file


@pytest.mark.parametrize("way", ["/stop", "user", "rpc", "item"])
async def test_a_stop_is_on_disk_when_it_is_acknowledged(tmp_path: Path, way: str) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")])
    async with running(tmp_path / "h", model) as app:
        one = await app.submit(inbound("one"))
        await gate.wait_reached()
        waits = await app.submit(inbound("waits", options=TurnOptions(queue="followup")))
        if way == "/stop":
            stop = await app.submit(inbound("/stop", sender=OWNER, push=False))
            assert (await app.wait(stop.id)).note == "⚙️ Agent was aborted. 1 waiting message dropped."
        elif way == "item":
            assert await app.dispatcher.stop_item(one.id)
        else:
            assert (await app.dispatcher.stop(MAIN, way)).ran
        steps = [step.what for step in await app.store.trace(one.id)]
        rows = [row for row in [await app.store.item(one.id), await app.store.item(waits.id)] if row is not None]
        assert "stopped" in steps and rows[0].outcome == "aborted"
        if way in ("/stop", "user"):
            assert (rows[1].state, rows[1].outcome, rows[1].note) == ("done", "aborted", "not answered: stopped")
        else:
            assert (await app.wait(waits.id)).note == "next"


async def test_an_interrupted_run_is_so_on_disk_when_the_new_message_is_accepted(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")])
    async with running(tmp_path / "h", model, messages={"queue": {"mode": "interrupt"}}) as app:
        one = await app.submit(inbound("one"))
        await gate.wait_reached()
        two = await app.submit(inbound("two"))
        row = await app.store.item(one.id)
        assert row is not None and row.outcome == "aborted"
        assert (await app.wait(two.id)).note == "next"


async def test_a_message_dropped_for_another_is_so_on_disk_when_that_is_accepted(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one"), gate, 0), say("rest")])
    queue = {"mode": "followup", "cap": 1, "drop": "old"}
    async with running(tmp_path / "h", model, messages={"queue": queue}) as app:
        await app.submit(inbound("one"))
        await gate.wait_reached()
        dropped = await app.submit(inbound("dropped"))
        last = await app.submit(inbound("last"))
        row = await app.store.item(dropped.id)
        assert row is not None and (row.state, row.outcome) == ("done", "refused")
        assert await app.store.reply(f"{dropped.id}.end") is not None
        gate.open()
        assert (await app.wait(last.id)).note == "rest"


class Halting:
    """A store that has taken a message for the other session, and says so only when it is let."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.taken, self.told = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def accept(self, item: InboxItem, **more: Any) -> Acceptance:
        done = await self._inner.accept(item, **more)
        if item.session == OTHER and b"ahoy" in item.body:
            self.taken.set()
            await self.told.wait()
        return done


async def test_a_stop_during_sessions_send_leaves_the_other_session_alive(tmp_path: Path) -> None:
    """The run that sends a letter is stopped when the letter is on disk and nobody knows it yet."""
    letter = call_tools(("sessions_send", {"sessionKey": OTHER, "message": "ahoy", "timeoutSeconds": 60}))
    model = ScriptedModel(
        [lambda request: letter if request.messages[-1].text == "send" else say("heard")], repeat=True
    )
    made: list[Halting] = []

    async def open_halting(home: str, clock: Clock) -> Store:
        made.append(Halting(await open_store(home, clock)))
        return cast("Store", made[0])

    app = App(settings(tmp_path / "h", tools={"sessions": {"visibility": "agent"}}), {}, SystemClock(), model=model)
    app.open_store = open_halting
    await app.start()
    try:
        async with asyncio.timeout(60):
            assert (await app.wait((await app.submit(inbound("be there", session=OTHER))).id)).note == "heard"
            sent = await app.submit(inbound("send", sender=OWNER))
            await made[0].taken.wait()
            await app.dispatcher.stop(MAIN, "rpc")
            assert (await app.wait(sent.id)).outcome == "aborted"
            made[0].told.set()
            asked = await app.submit(inbound("are you there?", session=OTHER, options=TurnOptions(queue="followup")))
            assert (await app.wait(asked.id)).note == "heard"
            assert await app.store.list_running() == []
    finally:
        await app.stop()


async def test_a_model_call_is_in_the_ledger_before_the_run_has_ended(tmp_path: Path) -> None:
    """A gateway that dies in the second call has the first one on its books, once."""
    gate = StreamGate()
    model = ScriptedModel([call_tools(("ls", {"path": "."})), hold_at(say("done"), gate, 0)])
    async with running(tmp_path / "h", model) as app:
        asked = await app.submit(inbound("look"))
        await gate.wait_reached()
        assert [call.item for call in await app.store.list_usage(0)] == [asked.id]
        gate.open()
        await app.wait(asked.id)
        assert [call.item for call in await app.store.list_usage(0)] == [asked.id, asked.id]


def as_if_killed(home: Path, last: str) -> None:
    """As if the program had been killed in every turn: of the transcripts no line from `last` on was written."""
    with closing(sqlite3.connect(home / "state.db")) as db, db:
        db.execute("UPDATE inbox SET state = 'running', outcome = NULL, note = '', settled = 0")
        db.execute("DELETE FROM journal")
    for file in (home / "agents" / "main" / "sessions").glob("*.jsonl"):
        lines = file.read_text().splitlines(keepends=True)
        cut = next((n for n, line in enumerate(lines) if f'"role":"{last}"' in line), len(lines))
        file.write_text("".join(lines[:cut]))


async def test_a_message_stopped_while_it_waits_to_go_on_leaves_no_tool_call_open(tmp_path: Path) -> None:
    home = tmp_path / "h"
    model = ScriptedModel([say("there"), call_tools(("ls", {"path": "."})), say("done")])
    one_slot = {"agents": {"defaults": {"maxConcurrent": 1, "model": {"primary": "fake/m"}}}}
    async with running(home, model) as app:
        await app.wait((await app.submit(inbound("be there", session=OTHER, push=False))).id)
        ident = (await app.submit(inbound("look", push=False))).id
        await app.wait(ident)
    as_if_killed(home, "toolResult")
    gate = StreamGate()
    again = ScriptedModel([hold_at(say("there"), gate, 0), say("next")])
    for file in (home / "agents" / "main" / "sessions").glob("*.jsonl"):
        if "be there" in file.read_text():
            file.unlink()  # so that this one is asked again, and holds the only slot
    async with running(home, again, **one_slot) as app:
        await gate.wait_reached()
        assert await app.dispatcher.stop(MAIN, "user") == (False, 1, 0)
        row = await app.store.item(ident)
        assert row is not None and row.outcome == "aborted"
        gate.open()
        await until(lambda: not app.dispatcher.busy)
    left = [line for file in (home / "agents" / "main" / "sessions").glob("*.jsonl") for line in file.open()]
    assert sum('"toolCall"' in line for line in left) == 1 == sum('"role":"toolResult"' in line for line in left)
    assert "unknown" in next(line for line in left if '"role":"toolResult"' in line)


async def test_a_message_stopped_while_it_is_claimed_to_go_on_leaves_no_tool_call_open(tmp_path: Path) -> None:
    """As a sub-agent whose parent is gone, at a start: its run was taken back before it began, with its calls open."""
    home = tmp_path / "h"
    async with running(home, ScriptedModel([call_tools(("ls", {"path": "."})), say("done")])) as app:
        ident = (await app.submit(inbound("look", push=False))).id
        await app.wait(ident)
    as_if_killed(home, "toolResult")
    app = App(settings(home), {}, SystemClock(), model=ScriptedModel([]))

    async def open_claiming(home: str, clock: Clock) -> Store:
        store: Any = await open_store(home, clock)
        claim = store.claim

        async def claim_late(*args: Any, **more: Any) -> Any:
            found = await claim(*args, **more)
            assert not found or (await app.dispatcher.stop(MAIN, "user")).ran
            return found

        store.claim = claim_late
        return cast("Store", store)

    app.open_store = open_claiming
    await app.start()
    try:
        assert (await app.wait(ident)).outcome == "aborted"
        await until(lambda: not app.dispatcher.lanes.busy)
    finally:
        await app.stop()
    assert [entry["message"]["role"] for entry in transcript(home)[1:]] == ["user", "assistant", "toolResult"]


async def test_a_stop_that_a_kill_cut_off_stops_what_came_before_it_and_nothing_behind(tmp_path: Path) -> None:
    """It is done again at the start, and took what had been accepted after it along: said, and never heard."""
    home, gate = tmp_path / "h", StreamGate()
    async with running(home, ScriptedModel([say("old"), say("hi")])) as app:
        asked = []
        for text in ("old", "/stop", "hello"):
            asked.append((await app.submit(inbound(text, push=False, sender=OWNER))).id)
            await app.wait(asked[-1])
    with closing(sqlite3.connect(home / "state.db")) as db, db:
        db.execute("UPDATE inbox SET state = 'queued', outcome = NULL, note = '', settled = 0")
        db.execute("UPDATE inbox SET state = 'running' WHERE id != ?", (asked[-1],))
        db.execute("DELETE FROM journal")
    for file in (home / "agents" / "main" / "sessions").glob("*.jsonl"):
        file.unlink()
    async with running(home, ScriptedModel([hold_at(say("one"), gate, 0), say("two")])) as app:
        before = await app.wait(asked[0])
        gate.open()
        ends = [before.outcome, *[(await app.wait(ident)).outcome for ident in asked[1:]]]
    assert ends == ["aborted", "answered", "answered"]


@pytest.mark.parametrize("busy", [False, True])
async def test_a_message_stopped_before_its_dispatcher_knew_it_is_never_worked_on(tmp_path: Path, busy: bool) -> None:
    """It is on disk, claimed or waiting, and the stop, too, before whoever put it in hears that it was accepted."""
    gate, made = StreamGate(), list[Halting]()
    first = [hold_at(say("first"), gate, 1)] if busy else []
    model = ScriptedModel([*first, say("heard")])

    async def open_halting(home: str, clock: Clock) -> Store:
        made.append(Halting(await open_store(home, clock)))
        return cast("Store", made[0])

    app = App(settings(tmp_path / "h"), {}, SystemClock(), model=model)
    app.open_store = open_halting
    await app.start()
    later = TurnOptions(queue="followup")
    try:
        async with asyncio.timeout(60):
            if busy:
                await app.submit(inbound("first", session=OTHER, options=later, push=False))
                await gate.wait_reached()
            coming = asyncio.ensure_future(app.submit(inbound("ahoy", session=OTHER, options=later, push=False)))
            await made[0].taken.wait()
            report = await app.dispatcher.stop(OTHER, "user")
            assert (report.ran, report.dropped) == ((True, 1) if busy else (True, 0))
            made[0].told.set()
            assert (await app.wait((await coming).id)).outcome == "aborted"
            after = await app.submit(inbound("are you there?", session=OTHER, options=later, push=False))
            assert (await app.wait(after.id)).note == "heard"
            await until(lambda: OTHER not in app.dispatcher._book and not app.dispatcher.lanes.busy)
    finally:
        gate.open()
        await app.stop()
    assert not any("ahoy" in request.messages[-1].text for request in model.requests)
