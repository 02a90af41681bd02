"""The dispatcher with a real store and turns that do as they are told: control, order, slots, late runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from palinurus.abort import Abort
from palinurus.agent.mailbox import Mailbox
from palinurus.agent.turn import ClaimedMessage
from palinurus.clock import SystemClock
from palinurus.config.sections.session import QueueSettings
from palinurus.config.settings import AgentSettings, LaneSettings, Settings
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound, InlineDirectives, Route, Sender
from palinurus.core.types.outbound import Reply
from palinurus.errors import BadRequest, Draining, StateError
from palinurus.inbox.dispatch import Dispatcher
from palinurus.inbox.message import InboxMessage, MessageReader
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, RunClaim, Settlement, Store
from support import inbound

MAIN = "agent:main:main"


class Turns:
    """Settles each message when it may: `go(text)` lets the run of that message end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._gates: dict[str, asyncio.Event] = {}
        self.began: list[str] = []
        self.closed: list[str] = []  # whose open tool calls were answered
        self.inline: list[InlineDirectives] = []
        self.boxes: dict[str, Mailbox] = {}

    def gate(self, text: str) -> asyncio.Event:
        return self._gates.setdefault(text, asyncio.Event())

    async def close_calls(self, route: Route, item: str, *, idle: bool = False) -> None:
        """There are no transcripts here."""
        self.closed.append(item)

    async def turn(self, claimed: ClaimedMessage, abort: Abort, mailbox: Mailbox, audience: Any) -> None:
        claim, message = claimed.claim, claimed.inbound
        self.began.append(message.text)
        self.inline.append(claimed.inline)
        self.boxes[message.text] = mailbox
        try:
            await abort.wait(self.gate(message.text).wait())
        except Exception:
            await self._store.settle(claim, Settlement("aborted", str(abort.reason)))
            return
        await self._store.settle(claim, Settlement("answered", f"did {message.text}"))


class Reader(MessageReader):
    """Everything that begins with a slash is for the program."""

    def read(self, inbound: Inbound, route: Route) -> InboxMessage:
        return replace(super().read(inbound, route), control=inbound.text.startswith("/"))


class Control:
    """See `Reader`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.slow = asyncio.Event()
        self.done: list[str] = []

    async def turn(self, claim: RunClaim, asked: InboxMessage, audience: Any, abort: Any = None) -> None:
        assert str(asked.route.key) == MAIN
        message = asked.inbound
        if message.text == "/slow":
            await self.slow.wait()
        if message.text == "/break":
            raise RuntimeError("broken")
        self.done.append(message.text)
        await self._store.settle(claim, Settlement("answered", f"did {message.text}"))


class World:
    def __init__(self, store: Store, dispatcher: Dispatcher, turns: Turns, control: Control) -> None:
        self.store, self.dispatcher, self.turns, self.control = store, dispatcher, turns, control
        self.told: list[Reply] = []

    async def send(self, text: str, **changes: Any) -> str:
        return (await self.dispatcher.submit(inbound(text, **changes))).id

    async def outcome(self, ident: str) -> Any:
        async with asyncio.timeout(60):
            row = await self.dispatcher.wait(ident)
        assert row is not None
        return row


@asynccontextmanager
async def world(tmp_path: Path, **changes: Any) -> AsyncIterator[World]:
    store = await open_store(str(tmp_path / "h"), SystemClock())
    agents = {"main": AgentSettings("main", "main", str(tmp_path), timeout=changes.pop("timeout", 60.0))}
    settings = Settings(str(tmp_path / "h"), agents, "main", **changes)
    turns, control = Turns(store), Control(store)
    told: list[Reply] = []
    dispatcher = Dispatcher(settings, store, SystemClock(), Reader(settings), told.extend, 0.05)
    dispatcher.attach(turns, control)  # type: ignore[arg-type]
    made = World(store, dispatcher, turns, control)
    made.told = told
    await dispatcher.resume()
    try:
        yield made
    finally:
        for event in turns._gates.values():
            event.set()
        control.slow.set()
        await dispatcher.drain(1)
        await store.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.002)


async def test_control_messages_pass_the_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run = await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        assert (await w.outcome(await w.send("/status"))).note == "did /status"
        row = await w.store.item(run)
        assert row is not None and row.state == "running" and w.dispatcher.running(MAIN)
        w.turns.gate("run").set()
        assert (await w.outcome(run)).outcome == "answered"


async def test_control_messages_of_a_session_keep_their_order_unless_one_is_slow(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        made = [await w.send(f"/{n}") for n in range(8)]
        for ident in made:
            await w.outcome(ident)
        assert w.control.done == [f"/{n}" for n in range(8)]
        slow = await w.send("/slow")
        stop = await w.send("/stop")
        assert (await w.outcome(stop)).outcome == "answered"
        row, beside = await w.store.item(slow), await w.store.item(stop)
        assert row is not None and (row.state, row.session) == ("running", f"control:{MAIN}")
        assert beside is not None and beside.session == f"control/{stop}:{MAIN}"
        w.control.slow.set()
        assert (await w.outcome(slow)).outcome == "answered"


async def test_a_control_message_that_breaks_is_explained(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        row = await w.outcome(await w.send("/break"))
        assert (row.outcome, row.note) == ("failed", "the turn broke: RuntimeError: broken")
        await until(lambda: bool(w.told))  # it is told once it is stored
        assert [reply.text for reply in w.told] == ["⚠️ The turn broke: RuntimeError: broken."]


async def test_clearing_says_how_many_will_not_run_also_after_an_abort(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup")) as w:
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        made = [await w.send(text) for text in "ab"]
        assert await w.dispatcher.stop(MAIN, "user") == (True, 2, 0)
        assert [(await w.outcome(i)).outcome for i in made] == ["aborted", "aborted"]
        assert await w.dispatcher.stop(MAIN, "user") == (False, 0, 0)
        assert w.turns.began == ["run"] and w.told == []


async def test_what_waits_is_cleared_though_all_slots_are_taken_by_others(tmp_path: Path) -> None:
    async with world(tmp_path, lanes=LaneSettings(main=1), queue=QueueSettings("followup")) as w:
        await w.send("other", session="s")
        waiting = await w.send("a")
        assert await w.dispatcher.stop(MAIN, "user") == (False, 1, 0)
        assert (await w.outcome(waiting)).note == "not answered: stopped"
        assert w.turns.began == ["other"]


async def test_another_reason_to_stop_leaves_what_waits(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup")) as w:
        await w.send("run")
        waiting = await w.send("a")
        assert (await w.dispatcher.stop(MAIN, "restart")).ran
        w.turns.gate("a").set()
        assert (await w.outcome(waiting)).outcome == "answered"


async def test_a_stopped_run_takes_nothing_more_in(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        steered = await w.send("steered")
        assert w.turns.boxes["run"].waiting
        assert (await w.dispatcher.stop(MAIN, "timeout")).ran
        assert not w.turns.boxes["run"].waiting and w.turns.boxes["run"].take() == []
        w.turns.gate("steered").set()
        assert (await w.outcome(steered)).note == "did steered"


async def test_the_same_event_twice_at_once_leaves_no_slot_behind(tmp_path: Path) -> None:
    async with world(tmp_path, lanes=LaneSettings(main=1)) as w:
        ids = await asyncio.gather(*(w.send("run", event="e") for _ in range(3)))
        assert len(set(ids)) == 1
        other = await w.send("other", session="s")
        w.turns.gate("run").set()
        w.turns.gate("other").set()
        assert (await w.outcome(other)).outcome == "answered"
        await until(lambda: not w.dispatcher.lanes.busy)


async def test_a_refused_message_leaves_no_watcher_and_no_slot(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        seen: list[RunEvent] = []
        with pytest.raises(BadRequest):
            await w.dispatcher.submit(inbound(""), seen.append)
        assert not w.dispatcher.lanes.busy and not w.dispatcher.feeds._sinks


async def test_watchers_of_a_cleared_message_see_its_end(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup")) as w:
        await w.send("run")
        seen: list[RunEvent] = []
        made = await w.dispatcher.submit(inbound("a"), seen.append)
        await w.dispatcher.stop(MAIN, "user")
        await w.outcome(made.id)
        (end,) = seen
        assert isinstance(end, AgentEnd) and end.end == "aborted" and end.failure is not None


@pytest.mark.seed(371, 373)
async def test_lanes_serialise_a_session_and_let_sessions_run_beside_each_other(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup")) as w:
        for text, session in (("a1", "a"), ("a2", "a"), ("b1", "b")):
            await w.send(text, session=session)
        await until(lambda: len(w.turns.began) == 2)
        assert w.turns.began == ["a1", "b1"]
        w.turns.gate("a1").set()
        await until(lambda: w.turns.began == ["a1", "b1", "a2"])


async def test_messages_of_a_session_run_in_the_order_of_arrival(tmp_path: Path) -> None:
    async with world(tmp_path, lanes=LaneSettings(main=2), queue=QueueSettings("followup")) as w:
        texts = [f"{session}{n}" for n in range(10) for session in "xyz"]
        for text in texts:
            w.turns.gate(text).set()
        made = [await w.send(text, session=text[0]) for text in texts]
        for ident in made:
            assert (await w.outcome(ident)).outcome == "answered"
        for session in "xyz":
            mine = [text for text in w.turns.began if text[0] == session]
            assert mine == sorted(mine)
        await until(lambda: not w.dispatcher.lanes.busy)
        assert not list(w.dispatcher._book) and w.dispatcher.lanes.backlog("main") == 0


async def test_a_run_that_does_not_end_in_time_is_ended(tmp_path: Path) -> None:
    async with world(tmp_path, timeout=0.05) as w:
        row = await w.outcome(await w.send("never"))
        assert (row.outcome, row.note) == ("failed", "the run did not end in time and was stopped")
        await until(lambda: not w.dispatcher.lanes.busy)
        assert len(w.told) == 1 and w.turns.closed == [row.id], "it writes no more: its tool calls get their results"


async def test_nothing_starts_while_draining(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("collect", 0.01)) as w:
        await w.send("run")
        await w.send("a")
        w.turns.gate("run").set()
        await w.dispatcher.drain(1)
        with pytest.raises(Draining):
            await w.send("late")
        assert w.turns.began == ["run"]
        assert [row.state for row in await w.store.list_waiting(MAIN)] == ["queued"]


async def test_an_abort_ends_the_sub_agents_too_unless_told_otherwise(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ended: list[str] = []

        async def end(session: str) -> int:
            ended.append(session)
            return 1

        w.dispatcher.attach(w.turns, w.control, end)  # type: ignore[arg-type]
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        assert await w.dispatcher.stop(MAIN, "rpc") == (True, 0, 1) and ended == [MAIN]
        await until(lambda: not w.dispatcher.running(MAIN))
        # they outlive the run that started them
        assert await w.dispatcher.stop(MAIN, "rpc") == (False, 0, 1) and ended == [MAIN, MAIN]
        assert await w.dispatcher.stop(MAIN, "stop", children=False) == (False, 0, 0) and len(ended) == 2


async def test_the_words_of_messages_that_were_dropped_are_no_directives(tmp_path: Path) -> None:
    """The run is told of them before its own message; what they ask is asked by nobody."""
    owner = {"sender": Sender("me", owner=True)}
    async with world(tmp_path, queue=QueueSettings(mode="followup", cap=1, drop="summarize")) as w:
        await w.send("run", **owner)
        await until(lambda: w.turns.began == ["run"])
        await w.send("please /model dear/est this", **owner)
        last = await w.send("do /think high it", **owner)
        w.turns.gate("run").set()
        await until(lambda: len(w.turns.began) == 2)
        assert "- please /model dear/est this" in w.turns.began[1] and w.turns.began[1].endswith("do it")
        assert (w.turns.inline[1].thinking, w.turns.inline[1].model) == ("high", "")
        w.turns.gate(w.turns.began[1]).set()
        assert (await w.outcome(last)).outcome == "answered"


async def test_a_submit_whose_caller_goes_away_runs_all_the_same(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup")) as w:
        caller = asyncio.create_task(w.send("first"))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        second = await w.send("second")
        for text in ("first", "second"):
            w.turns.gate(text).set()
        assert (await w.outcome(second)).outcome == "answered"
        assert w.turns.began == ["first", "second"]


async def test_whoever_handed_it_in_has_been_answered_when_the_turn_begins(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        wakes, began = asyncio.Event(), list[str]()

        async def write() -> None:  # as a connection does: what is answered wakes a task that writes
            await wakes.wait()
            began.extend(w.turns.began)

        writer = asyncio.create_task(write())
        await w.send("first")
        wakes.set()
        await writer
        assert began == []
        await until(lambda: w.turns.began == ["first"])


async def test_a_running_row_that_nobody_runs_is_given_back(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup")) as w:
        item = InboxItem("0lost", "fake//lost", MAIN, "main", msgspec.json.encode(inbound("lost")), 0)
        accepted = await w.store.accept(item, claim=True)  # as if whoever claimed it had vanished
        assert accepted.claim is not None
        later = await w.send("later")
        for text in ("lost", "later", "own"):
            w.turns.gate(text).set()
        own = await w.send("own", session="other")
        assert (await w.outcome(own)).outcome == "answered"
        assert await w.dispatcher.look_after() == 0  # it may just be on its way
        assert await w.dispatcher.look_after() == 1
        assert [(await w.outcome(i)).outcome for i in ("0lost", later)] == ["answered", "answered"]
        assert w.turns.began == ["own", "lost", "later"]
        assert await w.dispatcher.look_after() == 0


async def test_a_stop_that_a_full_disk_refuses_is_said_and_tried_again(tmp_path: Path) -> None:
    """What was stopped never runs, and what ran ends as stopped, once there is room."""
    async with world(tmp_path, queue=QueueSettings("followup")) as w:
        ran, waits = await w.send("a"), await w.send("b")
        with closing(sqlite3.connect(tmp_path / "h" / "state.db", isolation_level=None)) as db:
            db.execute(
                "CREATE TRIGGER broken BEFORE UPDATE ON inbox WHEN NEW.outcome IS NOT NULL"
                " BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
            with pytest.raises(StateError):
                await w.dispatcher.stop(MAIN, "user")
            db.execute("DROP TRIGGER broken")
        assert (await w.outcome(waits)).outcome == "aborted" == (await w.outcome(ran)).outcome
        assert w.turns.began == ["a"]
