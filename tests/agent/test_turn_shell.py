"""A turn's own promises: it ends in time, what it knows is on disk before it is handed back, and people are told only
what is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import pytest

from flow.test_app import CONFIG, running, settings, transcript
from flow.test_compaction import LONG, Crew, tell
from flow.test_compaction import running as compacting
from flow.test_stop import as_if_killed
from palinurus.agent.turn import MAX_ATTEMPTS
from palinurus.app import App
from palinurus.clock import Clock, SystemClock
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Sender
from palinurus.errors import DiskFull
from palinurus.store.factory import open_reader, open_store
from palinurus.store.port import InboxItem, Store
from palinurus.testing.channel import FakeChannel
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound

OWNER = Sender("me", owner=True)


class Wrapped:
    """A store with something between it and the program."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.fails: dict[str, int] = {}
        self.before: dict[str, Callable[[], None]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in ("append", "settle", "save_session", "yield_back", "queue_replies"):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            self.calls.append(name)
            if self.fails.get(name, 0) > 0:
                self.fails[name] -= 1
                raise DiskFull("the disk is full")
            self.before.get(name, lambda: None)()
            if name == "save_session" and self.fails.get("expected", 0) > 0:
                self.fails["expected"] -= 1
                return False
            return await found(*args, **more)

        return call


class Quick(SystemClock):
    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


@asynccontextmanager
async def wrapped(
    home: Path, model: Any, channel: FakeChannel | None = None, **changes: Any
) -> AsyncIterator[tuple[App, Wrapped]]:
    made: list[Wrapped] = []

    async def open_wrapped(folder: str, clock: Clock) -> Store:
        made.append(Wrapped(await open_store(folder, clock)))
        return cast("Store", made[0])

    app = App(settings(home, **changes), {}, Quick(), model=model, channels={"fake": channel} if channel else None)
    app.open_store = open_wrapped
    await app.start()
    try:
        yield app, made[0]
    finally:
        await app.stop()


def limited(**changes: Any) -> dict[str, Any]:
    return {"agents": {"defaults": {**CONFIG["agents"]["defaults"], **changes}}}


async def test_a_run_whose_time_is_over_ends_though_the_model_says_nothing(tmp_path: Path) -> None:
    """By itself, not by whoever looks after late runs half a minute later."""
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never"), gate, 0), say("next")])
    async with running(tmp_path / "h", model, **limited(timeoutSeconds=1)) as app:
        app.dispatcher.grace = 600.0
        seen: list[RunEvent] = []
        made = await app.submit(inbound("go", push=False), seen.append)
        async with asyncio.timeout(60):
            row = await app.wait(made.id)
        assert row.outcome == "failed" and isinstance(seen[-1], AgentEnd) and seen[-1].end == "timeout"
        assert (await app.wait((await app.submit(inbound("and?", push=False))).id)).note == "next"


async def test_the_clock_of_a_run_that_has_ended_stops_no_other(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([say("quick")]), **limited(timeoutSeconds=1)) as app:
        await app.wait((await app.submit(inbound("go", push=False))).id)
        loop = asyncio.get_running_loop()
        timers = [t for t in loop._scheduled if "timeout" in repr(t._args) and not t.cancelled()]  # type: ignore[attr-defined]
        assert timers == []


async def test_a_turn_that_is_handed_back_has_all_it_knows_on_disk(tmp_path: Path) -> None:
    """The question, what was said so far and what that cost: the first lines of a run are flushed by nothing else."""
    home, gate = tmp_path / "h", StreamGate()
    model = ScriptedModel([hold_at(say("a long answer that is cut"), gate, 2)])
    async with wrapped(home, model) as (app, store):
        made = await app.submit(inbound("go", push=False, sender=OWNER))
        await gate.wait_reached()
        await app.stop()
        assert store.calls[-2:] == ["append", "yield_back"]
    said = [line["message"]["role"] for line in transcript(home)[1:]]
    assert said[0] == "user" and "assistant" in said
    with closing(sqlite3.connect(home / "state.db")) as conn:
        assert conn.execute("SELECT state, attempts FROM inbox").fetchall() == [("queued", 0)]
    second = ScriptedModel([say("finished")])
    async with running(home, second) as app:
        assert (await app.wait(made.id)).note == "finished"
    assert check_home(str(home)) == []


async def test_a_compaction_is_on_disk_before_the_model_is_asked_again(tmp_path: Path) -> None:
    """What it was asked with must be found after a crash; the end of the turn may be far."""
    home, gate = tmp_path / "h", StreamGate()

    def slow_at_last(request: Any) -> Any:
        return hold_at(say("done"), gate, 0) if crew.asked["summary"] else say(LONG)

    crew = Crew([slow_at_last])
    async with compacting(home, crew) as app:
        asked = 0
        while not crew.asked["summary"]:
            asked += 1
            assert asked < 40
            made = asyncio.ensure_future(tell(app, f"question {asked} {LONG}"))
            while not made.done() and not crew.asked["summary"]:
                await asyncio.sleep(0.005)
        async with asyncio.timeout(60):
            await gate.wait_reached()
        assert [line["type"] for line in transcript(home)].count("compaction") == 1
        gate.open()
        await made


async def test_a_full_disk_in_the_middle_is_explained_and_the_next_turn_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("write", {"path": "x", "content": "y"})), say("next")])
    channel = FakeChannel(owner=True)
    async with wrapped(tmp_path / "h", model, channel) as (app, store):
        store.fails["append"] = 1
        (ident,) = await channel.receive("go", event="1")
        row = await app.wait(ident)
        assert row.outcome == "failed" and "the turn was stopped: the disk is full" in row.note
        assert not (tmp_path / "h" / "workspace" / "x").exists()  # no intent on disk: nothing was begun
        (after,) = await channel.receive("and?", event="2")
        assert (await app.wait(after)).note == "next"
        async with asyncio.timeout(60):
            while len(channel.seen) < 2:
                await asyncio.sleep(0.005)
    assert "disk is full" in channel.texts[0] and channel.texts[1] == "next"


async def test_a_turn_that_a_full_disk_ends_is_settled_when_its_tools_have_ended(tmp_path: Path) -> None:
    model, channel = ScriptedModel([call_tools(("exec", {"command": "sleep 1000"}))]), FakeChannel(owner=True)
    async with wrapped(tmp_path / "h", model, channel) as (app, store):
        left: list[str] = []
        store.before["settle"] = lambda: left.extend(
            name
            for task in asyncio.all_tasks()
            if "ToolBatch" in (name := task.get_coro().__qualname__)  # type: ignore[union-attr]
        )
        store.fails["queue_replies"] = 1  # what tells people that the tool is at work
        (ident,) = await channel.receive("/verbose on go", event="1")
        async with asyncio.timeout(60):
            row = await app.wait(ident)
        assert row.outcome == "failed" and "the disk is full" in row.note, row
        assert store.fails["queue_replies"] == 0 and left == []
    assert [text for text in check_home(str(tmp_path / "h")) if "has no result" in text] == []


async def test_the_end_is_shown_when_it_is_on_disk_and_tried_until_it_is(tmp_path: Path) -> None:
    async with wrapped(tmp_path / "h", ScriptedModel([say("hello")])) as (app, store):
        store.fails["settle"] = 3
        seen: list[RunEvent] = []
        store.before["settle"] = lambda: seen.append(cast("Any", "settling"))
        made = await app.submit(inbound("go", push=False), seen.append)
        assert (await app.wait(made.id)).note == "hello" and store.calls.count("settle") == 4
        async with asyncio.timeout(60):
            while not isinstance(seen[-1], AgentEnd):
                await asyncio.sleep(0.005)
        assert seen[-2] == "settling"


async def test_somebody_who_changes_the_session_meanwhile_makes_it_begin_again(tmp_path: Path) -> None:
    model = ScriptedModel([say("hello")])
    async with wrapped(tmp_path / "h", model) as (app, store):
        store.fails["expected"] = 2
        made = await app.submit(inbound("go", push=False))
        assert (await app.wait(made.id)).note == "hello" and store.calls.count("save_session") == 3
    assert len(model.requests) == 1


async def test_a_session_that_changes_all_the_time_is_no_reason_to_wait_for_ever(tmp_path: Path) -> None:
    async with wrapped(tmp_path / "h", ScriptedModel([])) as (app, store):
        store.fails["expected"] = 100
        row = await app.wait((await app.submit(inbound("go", push=False))).id)
        assert row.outcome == "failed" and "the session changed while the turn began" in row.note


async def test_a_stored_message_that_nobody_can_read_ends_with_a_word(tmp_path: Path) -> None:
    home = tmp_path / "h"
    store = await open_store(str(home), SystemClock())
    await store.accept(InboxItem("m1", "fake//1", "agent:main:main", "main", b"\xff not json", 1), claim=False)
    await store.close()
    model = ScriptedModel([])
    async with running(home, model) as app:
        row = await app.wait("m1")
    assert (row.outcome, row.note) == ("dead", "the stored message cannot be read") and model.requests == []


async def test_a_stop_as_the_answer_ends_is_a_stop(tmp_path: Path) -> None:
    """It was acknowledged: no answer follows, whatever the model has said already."""
    channel, model = FakeChannel(), ScriptedModel([say("too late")])
    async with wrapped(tmp_path / "h", model, channel) as (app, store):
        stopped: list[asyncio.Future[Any]] = []

        def stop(event: RunEvent) -> None:
            if type(event).__name__ == "MessageEnd" and len(stopped) == 0 and model.requests:
                stopped.append(asyncio.ensure_future(app.dispatcher.stop("agent:main:main", "user")))
                app.dispatcher._running["agent:main:main"].abort.set("user")

        (ident,) = await channel.receive("go", event="1")
        app.watch(ident, stop)
        row = await app.wait(ident)
        assert stopped and await stopped[0]
        assert row.outcome == "aborted" and channel.texts in ([], ["⚠️ Stopped."]), channel.texts
        assert "too late" not in channel.texts
        del store


@pytest.mark.parametrize("tries", [1, 3])
async def test_a_steered_message_whose_line_is_not_on_disk_gets_there_before_the_end(
    tmp_path: Path, tries: int
) -> None:
    home, gate = tmp_path / "h", StreamGate()
    model = ScriptedModel([hold_at(say("first"), gate, 0), say("both")])
    channel = FakeChannel()
    async with wrapped(home, model, channel) as (app, store):
        (first,) = await channel.receive("one", event="1")
        await gate.wait_reached()
        (second,) = await channel.receive("two", event="2")
        store.fails["settle"] = tries
        gate.open()
        rows = [await app.wait(ident) for ident in (first, second)]
        assert [row.id for row in rows] == [first, first]
        async with asyncio.timeout(60):
            while "sent" not in [step.what for step in await app.store.trace(first)]:
                await asyncio.sleep(0.005)
    assert check_home(str(home)) == []
    with closing(sqlite3.connect(home / "state.db")) as conn:
        assert conn.execute("SELECT count(*) FROM spent").fetchone() == (2,)  # each answer is paid once


async def test_a_steered_message_that_could_not_be_written_down_is_part_of_the_run_that_read_it(
    tmp_path: Path,
) -> None:
    home, gate, channel = tmp_path / "h", StreamGate(), FakeChannel()
    model = ScriptedModel([hold_at(say("first"), gate, 0), say("both")])
    async with wrapped(home, model, channel) as (app, store):
        (first,) = await channel.receive("one", event="1")
        await gate.wait_reached()
        (second,) = await channel.receive("two", event="2")
        store.fails["append"] = 1
        gate.open()
        rows = [await app.wait(ident) for ident in (first, second)]
        async with asyncio.timeout(60):
            while await app.store.list_due_replies("fake", 1 << 60):
                await asyncio.sleep(0.005)
    assert [(row.id, row.outcome) for row in rows] == [(first, "failed")] * 2 and len(model.requests) == 1
    assert check_home(str(home)) == []
    with closing(sqlite3.connect(home / "state.db")) as conn:
        assert conn.execute("SELECT count(*) FROM spent").fetchone() == (1,)


WRITES = call_tools(("write", {"path": "x", "content": "y"}), text="First this.")


async def answer_and_drain(home: Path, first: tuple[Any, ...] = (WRITES,)) -> str:
    """A message whose answer is on disk when the gateway stops, and whose end is not."""
    channel = FakeChannel(owner=True)
    model = ScriptedModel([*first, say("all done")])
    async with wrapped(home, model, channel) as (app, store):
        drained: list[asyncio.Future[Any]] = []

        def drain(event: RunEvent) -> None:
            if type(event).__name__ == "MessageEnd" and len(model.requests) == len(first) + 1 and not drained:
                app.dispatcher._running["agent:main:main"].abort.set("drain")
                drained.append(asyncio.ensure_future(app.stop()))

        (ident,) = await channel.receive("go", event="1")
        app.watch(ident, drain)
        async with asyncio.timeout(60):
            while not drained or not drained[0].done():
                await asyncio.sleep(0.005)
        assert store.calls[-2:] == ["append", "yield_back"] and "settle" not in store.calls
    assert channel.texts == []
    return ident


async def test_an_answer_that_was_on_disk_when_the_gateway_stopped_is_given_without_asking_again(
    tmp_path: Path,
) -> None:
    """The drain came as the answer ended: the next start has it, with what tools did before it, and sends it once."""
    home, model, channel = tmp_path / "h", ScriptedModel([]), FakeChannel(owner=True)
    ident = await answer_and_drain(home)
    async with running(home, model, channel) as app:
        row = await app.wait(ident)
        async with asyncio.timeout(60):
            while "sent" not in [step.what for step in await app.store.trace(ident)]:
                await asyncio.sleep(0.005)
    assert (row.outcome, row.note) == ("answered", "First this.\n\nall done") and model.requests == []
    assert channel.texts == ["First this.\n\nall done"] and check_home(str(home)) == []


async def test_an_answer_that_was_on_disk_is_not_given_when_its_message_is_stopped_after_the_start(
    tmp_path: Path,
) -> None:
    home, model, channel = tmp_path / "h", ScriptedModel([]), FakeChannel(owner=True)
    ident = await answer_and_drain(home)
    app = App(settings(home), {}, SystemClock(), model=model, channels={"fake": channel})

    async def stop(_payload: dict[str, Any]) -> dict[str, Any]:
        await app.dispatcher.stop("agent:main:main", "user")
        return {}

    app.hooks.on("inbound_claim", stop)
    await app.start()
    try:
        row = await app.wait(ident)
    finally:
        await app.stop()
    assert row.outcome == "aborted" and "all done" not in "".join(channel.texts) and model.requests == []
    with open_reader(str(home)) as reader:
        assert "all done" not in str([reply.data for reply in reader.replies(ident)])


@pytest.mark.parametrize(("attempts", "outcome"), [(MAX_ATTEMPTS - 1, "answered"), (MAX_ATTEMPTS, "dead")])
async def test_a_message_is_tried_so_often_and_no_more(tmp_path: Path, attempts: int, outcome: str) -> None:
    home = tmp_path / "h"
    model = ScriptedModel([say("hello")])
    async with running(home, ScriptedModel([hold_at(say("never"), StreamGate(), 0)])) as app:
        made = await app.submit(inbound("go", push=False))
    with closing(sqlite3.connect(home / "state.db")) as conn, conn:
        conn.execute("UPDATE inbox SET attempts = ?", (attempts,))
    async with running(home, model) as app:
        row = await app.wait(made.id)
    said = {"answered": "hello", "dead": f"this message stopped the gateway {attempts} times and is not tried again"}
    assert (row.outcome, row.note) == (outcome, said[outcome])
    assert len(model.requests) == (outcome == "answered")


async def test_a_message_that_is_not_tried_again_leaves_no_tool_call_open(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with running(home, ScriptedModel([call_tools(("ls", {"path": "."})), say("done")])) as app:
        made = await app.submit(inbound("look", push=False))
        await app.wait(made.id)
    as_if_killed(home, "toolResult")
    with closing(sqlite3.connect(home / "state.db")) as conn, conn:
        conn.execute("UPDATE inbox SET attempts = ?", (MAX_ATTEMPTS,))
    async with running(home, ScriptedModel([])) as app:
        assert (await app.wait(made.id)).outcome == "dead"
    assert check_home(str(home)) == []


async def test_hooks_hear_of_the_end_with_the_time_it_took(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    async with running(tmp_path / "h", ScriptedModel([say("hello")])) as app:
        app.hooks.on("agent_end", heard.append)
        await app.wait((await app.submit(inbound("go", push=False))).id)
        async with asyncio.timeout(60):
            while not heard:
                await asyncio.sleep(0.005)
    assert 0 <= heard[0]["durationMs"] < 60_000


@pytest.mark.parametrize(("first", "said"), [((), "all done"), ((WRITES,), "First this.\n\nall done")])
async def test_an_answer_that_was_on_disk_needs_no_leave_and_is_shown_whole(
    tmp_path: Path, first: tuple[Any, ...], said: str
) -> None:
    home, model, channel = tmp_path / "h", ScriptedModel([]), FakeChannel(owner=True)
    ident = await answer_and_drain(home, first)
    app = App(settings(home), {}, SystemClock(), model=model, channels={"fake": channel})
    app.hooks.on("before_agent_run", lambda _told: {"block": True, "message": "not today"})
    await app.start()
    try:
        row = await app.wait(ident)
    finally:
        await app.stop()
    assert (row.outcome, row.note) == ("answered", said)


@pytest.mark.parametrize(("taken", "outcome"), [("by a plugin", "answered"), ("", "silent")])
async def test_what_a_plugin_takes_is_ended_shown_and_handed_to_who_sends(
    tmp_path: Path, taken: str, outcome: str
) -> None:
    channel, model, seen = FakeChannel(), ScriptedModel([]), list[RunEvent]()
    async with running(tmp_path / "h", model, channel) as app:
        app.hooks.on("inbound_claim", lambda _told: {"handled": True, "reply": taken})
        accepted = await app.submit(inbound("go"), seen.append)
        row = await app.wait(accepted.id)
        async with asyncio.timeout(60):
            while "".join(channel.texts) != taken:
                await asyncio.sleep(0.005)
    assert (row.outcome, row.note) == (outcome, taken) and model.requests == []
    assert [type(event) for event in seen] == [AgentEnd]
