"""What the dispatcher does around the store: slots come back, duplicates are one message, a restart finds everything,
late and broken runs end, and what a person is told is on disk before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from inbox.test_dispatch import MAIN, Control, Reader, Turns, World, until, world
from palinurus.abort import Abort
from palinurus.agent.mailbox import Mailbox
from palinurus.agent.turn import ClaimedMessage
from palinurus.clock import SystemClock
from palinurus.config.sections.session import BurstSettings, QueueMode, QueueSettings
from palinurus.config.settings import AgentSettings, LaneSettings, Settings
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.outbound import Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import DiskFull, NotFound, QueueFull, StateError
from palinurus.inbox import queue, running
from palinurus.inbox.dispatch import BOUND, Dispatcher
from palinurus.store.factory import open_store
from palinurus.store.news import StoreNews
from palinurus.store.port import Dismissal, InboxItem, RunClaim, Settlement, Store
from support import inbound

FOLLOW = QueueSettings("followup")


class Flaky:
    """A store whose methods fail as often as `fails` says."""

    def __init__(self, inner: Store) -> None:
        self.inner, self.fails = inner, dict[str, int]()
        self.held: dict[str, asyncio.Event] = {}  # the next call of this name waits for it

    def __getattr__(self, name: str) -> Any:
        if name in self.held:
            return self._after(name, self.held.pop(name))
        if self.fails.get(name, 0) > 0:
            return self._fail(name)
        return getattr(self.inner, name)

    def _after(self, name: str, held: asyncio.Event) -> Any:
        async def call(*args: Any, **more: Any) -> Any:
            await held.wait()
            return await getattr(self.inner, name)(*args, **more)

        return call

    def _fail(self, name: str) -> Any:
        async def fail(*_: Any, **__: Any) -> Any:
            self.fails[name] -= 1
            raise DiskFull("full")

        return fail


@asynccontextmanager
async def flaky(tmp_path: Path, turns: type[Turns] = Turns, **changes: Any) -> AsyncIterator[tuple[World, Flaky]]:
    """As `world`, on a store that can fail."""
    store = changes.pop("store_kind", Flaky)(await open_store(str(tmp_path / "h"), SystemClock()))
    agents = {"main": AgentSettings("main", "main", str(tmp_path), timeout=changes.pop("timeout", 60.0))}
    settings = Settings(str(tmp_path / "h"), agents, "main", **changes)
    stored = cast("Store", store)
    made, control, told = turns(stored), Control(stored), list[Reply]()
    dispatcher = Dispatcher(settings, stored, SystemClock(), Reader(settings), told.extend, 0.05)
    dispatcher.attach(made, control)  # type: ignore[arg-type]
    await dispatcher.resume()
    w = World(stored, dispatcher, made, control)
    w.told = told
    try:
        yield w, store
    finally:
        for event in made._gates.values():
            event.set()
        await dispatcher.drain(1)
        await store.inner.close()


class Ear:
    """Hears of every message."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        self.heard.append(("accepted", item))

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        self.heard.append(("started", item))

    def on_event(self, item: str, event: RunEvent) -> None:
        pass

    def on_merged(self, item: str, into: str) -> None:
        self.heard.append(("merged", item))

    def on_ended(self, item: str) -> None:
        self.heard.append(("ended", item))


def row(ident: str, text: str, session: str = MAIN, **changes: Any) -> InboxItem:
    body = msgspec.json.encode(inbound(text, session=session.partition("main:")[2], **changes))
    return InboxItem(ident, f"fake//{ident}", session, "main", body, 0)


# --- duplicates and slots


async def test_the_same_event_after_its_answer_takes_no_slot_and_is_heard_of_once(tmp_path: Path) -> None:
    async with world(tmp_path, lanes=LaneSettings(main=1)) as w:
        ear = Ear()
        w.dispatcher.feeds.follow(ear)
        w.turns.gate("run").set()
        first = await w.send("run", event="e")
        await w.outcome(first)
        await until(lambda: not w.dispatcher.lanes.busy)
        seen: list[RunEvent] = []
        again = await w.dispatcher.submit(inbound("run", event="e"), seen.append)
        assert (again.id, again.duplicate) == (first, True)
        assert not w.dispatcher.lanes.busy and not w.dispatcher.feeds._sinks and seen == []
        assert ear.heard == [("accepted", first), ("started", first), ("ended", first)]
        w.turns.gate("next").set()
        assert (await w.outcome(await w.send("next"))).outcome == "answered"
    assert w.turns.began == ["run", "next"]


async def test_the_same_event_while_it_runs_watches_the_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.send("run", event="e")
        await until(lambda: w.turns.began == ["run"])
        seen: list[RunEvent] = []
        again = await w.dispatcher.submit(inbound("run", event="e"), seen.append)
        assert again.duplicate and list(w.dispatcher.feeds._sinks) == [first]
        w.dispatcher.feeds.show(first, AgentEnd((), "stop", cast("Any", None)))
        assert len(seen) == 1


async def test_whoever_waited_for_a_duplicates_slot_gets_it(tmp_path: Path) -> None:
    async with flaky(tmp_path, lanes=LaneSettings(main=1)) as (w, store):
        for text in ("run", "other"):
            w.turns.gate(text).set()
        await w.outcome(await w.send("run", event="e"))
        await until(lambda: not w.dispatcher.lanes.busy)
        store.held["accept"] = held = asyncio.Event()
        again = asyncio.ensure_future(w.send("run", event="e"))
        await until(lambda: not store.held)
        other = await w.send("other", session="s")
        await asyncio.sleep(0.05)
        assert w.turns.began == ["run"]
        held.set()
        await again
        assert (await w.outcome(other)).outcome == "answered"
        await until(lambda: not w.dispatcher.lanes.busy)


async def test_a_message_that_the_store_does_not_take_leaves_nothing_behind(tmp_path: Path) -> None:
    async with flaky(tmp_path, lanes=LaneSettings(main=1)) as (w, store):
        seen: list[RunEvent] = []
        store.fails["accept"] = 1
        with pytest.raises(DiskFull):
            await w.dispatcher.submit(inbound("run"), seen.append)
        assert not w.dispatcher.lanes.busy and not w.dispatcher.feeds._sinks and not w.dispatcher._coming
        w.turns.gate("run").set()
        assert (await w.outcome(await w.send("run"))).outcome == "answered"


async def test_two_at_once_for_an_idle_session_run_one_after_the_other(tmp_path: Path) -> None:
    async with world(tmp_path, queue=FOLLOW) as w:
        ids = await asyncio.gather(w.send("a"), w.send("b"))
        await until(lambda: bool(w.turns.began))
        await asyncio.sleep(0.05)
        assert w.turns.began == ["a"] and w.dispatcher.lanes.busy == {"main": 1}
        for text in "ab":
            w.turns.gate(text).set()
        assert [(await w.outcome(i)).outcome for i in ids] == ["answered", "answered"]


async def test_what_is_decided_about_a_message_already_is_not_decided_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        said = inbound("status please")
        reader = w.dispatcher._reader
        decided = replace(reader.read(said, reader.route(said)), control=True)
        accepted = await w.dispatcher.submit(said, message=decided)
        assert (await w.outcome(accepted.id)).note == "did status please" and w.turns.began == []


# --- too many


async def test_only_so_many_wait_also_of_those_that_come_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup", cap=2, drop="new")) as w:
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        got = await asyncio.gather(*(w.send(f"m{n}") for n in range(5)), return_exceptions=True)
        assert [isinstance(each, str) for each in got] == [True, True, False, False, False]
        assert all(isinstance(each, QueueFull) for each in got[2:])
        for text in ("run", "m0", "m1"):
            w.turns.gate(text).set()
        assert (await w.outcome(str(got[1]))).outcome == "answered"
        await until(lambda: not w.dispatcher.lanes.busy)
        w.turns.gate("later").set()
        assert (await w.outcome(await w.send("later"))).outcome == "answered"


@pytest.mark.parametrize(("mode", "held"), [("collect", 5.0), ("followup", 0.0)])
async def test_only_what_is_collected_is_held_for_all_who_share_the_store(
    tmp_path: Path, mode: QueueMode, held: float
) -> None:
    async with flaky(tmp_path, queue=QueueSettings(mode, debounce=5.0)) as (w, store):
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        holds = list[float]()

        async def accept(item: InboxItem, **more: Any) -> Any:
            holds.append(more["hold"])
            return await store.inner.accept(item, **more)

        store.accept = accept  # type: ignore[attr-defined]
        await w.send("more")
        assert holds == [held]


async def test_dropped_ones_count_until_somebody_was_told_of_them(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("followup", cap=1, drop="summarize")) as w:
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        taken = 0
        with pytest.raises(QueueFull):
            for _ in range(BOUND + 5):
                await w.send(f"m{taken}")
                taken += 1
        assert taken == BOUND


async def test_a_session_that_is_full_on_disk_refuses_and_takes_no_slot(tmp_path: Path) -> None:
    """Others may have put messages in: the store counts, too."""
    async with world(tmp_path, queue=FOLLOW) as w:
        for n in range(BOUND):
            await w.store.accept(row(f"x{n:03}", "x"), claim=False)
        with pytest.raises(QueueFull):
            await w.send("one too many")
        assert not w.dispatcher.lanes.busy


# --- after a restart


async def leave(home: Path, *rows: tuple[InboxItem, bool], ends: tuple[Dismissal, ...] = ()) -> None:
    """What a process that was killed left."""
    store = await open_store(str(home / "h"), SystemClock())
    for item, claim in rows:
        await store.accept(item, claim=claim)
    await store.dismiss(ends)
    await store.close()


async def test_a_restart_runs_what_ran_and_what_waited_in_order(tmp_path: Path) -> None:
    await leave(tmp_path, (row("m1", "one"), True), (row("m2", "two"), False), (row("m3", "three"), False))
    async with world(tmp_path, queue=FOLLOW) as w:
        for text in ("one", "two", "three"):
            w.turns.gate(text).set()
        assert [(await w.outcome(i)).outcome for i in ("m1", "m2", "m3")] == ["answered"] * 3
        assert w.turns.began == ["one", "two", "three"]
        assert await w.dispatcher.resume() == 0


async def test_a_restart_says_how_many_wait(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for n in range(3):
            await w.store.accept(row(f"m{n}", "x", f"agent:main:s{n}"), claim=n == 0)
        assert await w.dispatcher.resume() == 3


async def test_who_stopped_a_run_that_was_killed_is_told_after_the_restart_and_it_does_not_run(tmp_path: Path) -> None:
    stopped = tuple(Dismissal(f"m{n}", "aborted", f"stopped ({why})") for n, why in enumerate(("user", "stop")))
    rows = [(row(f"m{n}", "run", f"agent:main:s{n}"), True) for n in range(2)]
    await leave(tmp_path, *rows, ends=stopped)
    async with world(tmp_path) as w:
        assert [(await w.outcome(f"m{n}")).outcome for n in range(2)] == ["aborted", "aborted"]
        assert w.turns.began == [] and [reply.text for reply in w.told] == ["⚠️ The run was stopped."]
        assert [r.id for r in await w.store.list_due_replies("fake", 2**62)] == [w.told[0].client_id]


def looks() -> int:
    """How many looks are to come."""
    timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum("Dispatcher._look" in repr(timer) and not timer.cancelled() for timer in timers)


async def test_looking_after_lost_rows_goes_on_until_the_drain(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        assert looks() == 1
        w.dispatcher._look()
        assert looks() == 2
        await w.store.accept(row("0lost", "lost"), claim=True)
        w.turns.gate("lost").set()
        for _ in range(2):  # as the timer does
            w.dispatcher._look()
            await until(lambda: w.dispatcher._strays._seen == {"0lost"} or bool(w.turns.began))
            await asyncio.sleep(0.02)
        assert (await w.outcome("0lost")).outcome == "answered"
        await w.dispatcher.drain(0)
        await w.store.accept(row("1lost", "lost", "agent:main:x"), claim=True)
        w.dispatcher._look()
        await asyncio.sleep(0.05)
        assert "1lost" not in w.dispatcher._strays._seen


# --- steering and stopping


async def test_a_message_for_a_mailbox_that_is_closed_runs_next(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        w.turns.boxes["run"].close()
        waiting = await w.send("late")
        w.turns.gate("late").set()
        w.turns.gate("run").set()
        assert (await w.outcome(waiting)).note == "did late"


async def test_what_was_stopped_or_is_nobodys_is_not_put_together_with_others(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=QueueSettings("collect", 0.01)) as (w, store):
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        ids = [await w.send(text) for text in "abc"]
        await store.inner.accept(row("zz", "put there by somebody else"), claim=False)
        store.held["list_waiting"] = held = asyncio.Event()
        w.turns.gate("run").set()
        await until(lambda: not store.held)
        assert await w.dispatcher.stop_item(ids[1])
        held.set()
        await until(lambda: len(w.turns.began) == 2)
        together = w.turns.began[1]
        assert together.endswith("Queued #1\na")
        assert [ident for _, ident in w.turns.boxes[together].take()] == [ids[2]]


async def test_what_an_interrupt_ends_is_on_disk_when_the_interrupting_message_is_accepted(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("interrupt")) as w:
        first = await w.send("first")
        await until(lambda: w.turns.began == ["first"])
        await w.send("second")
        found = await w.store.item(first)
        assert found is not None and found.outcome == "aborted"


async def test_a_message_that_cannot_be_dropped_on_disk_is_accepted_all_the_same(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=QueueSettings("interrupt")) as (w, store):
        await w.send("first")
        await until(lambda: w.turns.began == ["first"])
        store.fails["dismiss"] = 1
        w.turns.gate("second").set()
        assert (await w.outcome(await w.send("second"))).outcome == "answered"


async def test_a_message_that_could_not_be_dropped_on_disk_is_dropped_when_there_is_room(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=QueueSettings("followup", cap=1, drop="old")) as (w, store):
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        dropped = await w.send("a")
        store.fails["dismiss"] = 1
        await w.send("b")
        async with asyncio.timeout(60):
            while (found := await w.store.item(dropped)) is None or found.state != "done":
                await asyncio.sleep(0.02)
        assert found.outcome == "refused" and w.turns.began == ["run"]


async def test_a_stop_that_cannot_be_written_is_an_error_and_tried_again(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=FOLLOW) as (w, store):
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        waiting = await w.send("a")
        store.fails["stop"] = 1
        with pytest.raises(StateError):
            await w.dispatcher.stop(MAIN, "user")
        async with asyncio.timeout(60):
            while (found := await w.store.item(waiting)) is None or found.state != "done":
                await asyncio.sleep(0.02)
        assert found.outcome == "aborted" and w.turns.began == ["run"]


async def test_one_message_is_stopped_whether_it_runs_or_waits(tmp_path: Path) -> None:
    async with world(tmp_path, queue=FOLLOW) as w:
        run = await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        one, two = await w.send("a"), await w.send("b")
        assert await w.dispatcher.stop_item(one) and (await w.outcome(one)).note == "not answered: stopped"
        assert not await w.dispatcher.stop_item(one) and not await w.dispatcher.stop_item("nobody")
        found = await w.store.item(two)
        assert found is not None and found.state == "queued"
        w.turns.gate("b").set()
        assert await w.dispatcher.stop_item(run)
        assert (await w.outcome(run)).outcome == "aborted" and (await w.outcome(two)).outcome == "answered"


class _SlowToTell(Turns):
    """Their end is on disk before they say it."""

    async def turn(self, claimed: ClaimedMessage, abort: Abort, mailbox: Mailbox, audience: Any) -> None:
        await super().turn(claimed, abort, mailbox, audience)
        await self.gate("told").wait()
        audience.show(AgentEnd((), "stop", TokenUsage()))


async def test_who_waits_for_a_message_that_runs_here_has_heard_its_last_event(tmp_path: Path) -> None:
    """A heartbeat once took what the settled row says for what the model had said last."""
    async with flaky(tmp_path, _SlowToTell) as (w, _):
        w.turns.gate("run").set()
        seen: list[RunEvent] = []
        first = (await w.dispatcher.submit(inbound("run"), seen.append)).id
        async with asyncio.timeout(60):
            while (row := await w.store.item(first)) is None or row.state != "done":
                await asyncio.sleep(0.002)
        waiting = asyncio.ensure_future(w.dispatcher.wait(first))
        assert (await w.dispatcher.wait(first, 0.01)).state == "done"  # whoever has no time is told what is on disk
        await asyncio.wait((waiting,), timeout=0.05)
        assert not waiting.done() and seen == []
        w.turns.gate("told").set()
        assert (await waiting).outcome == "answered" and len(seen) == 1


async def test_waiting_for_nothing_is_not_found(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        with pytest.raises(NotFound):
            await w.dispatcher.wait("nobody")
        running = await w.send("run")
        assert (await w.dispatcher.wait(running, 0.01)).state == "running"
        assert w.dispatcher.busy == (MAIN,) and w.dispatcher.running(MAIN) and not w.dispatcher.running("x")


# --- runs that go wrong


class Stubborn(Turns):
    """Runs that cannot be cancelled, or break."""

    async def turn(self, claimed: Any, abort: Any, mailbox: Any, audience: Any) -> None:
        if claimed.inbound.text == "break":
            raise StateError("no disk")
        if claimed.inbound.text != "stubborn":
            return await super().turn(claimed, abort, mailbox, audience)
        self.began.append("stubborn")
        while not self.gate("stubborn").is_set():
            try:
                await self.gate("stubborn").wait()
            except asyncio.CancelledError:
                continue
        return None


async def test_a_run_that_cannot_be_cancelled_is_left_alone_and_its_session_goes_on(tmp_path: Path) -> None:
    async with flaky(tmp_path, Stubborn, timeout=0.05, queue=FOLLOW, lanes=LaneSettings(main=1)) as (w, _):
        first = await w.send("stubborn")
        agents = w.dispatcher._settings.agents
        agents["main"] = replace(agents["main"], timeout=60.0)  # for the next one, which is to be in time
        waiting = await w.send("next")
        w.turns.gate("next").set()
        found = await w.outcome(first)
        assert (found.outcome, found.note) == ("failed", "the run did not end in time and could not be stopped")
        assert (await w.outcome(waiting)).outcome == "answered"
        w.turns.gate("stubborn").set()  # it comes back late: its slot is not given back twice
        await asyncio.sleep(0.05)
        assert not w.dispatcher.lanes.busy and not w.dispatcher.running(MAIN)
        assert [reply.text for reply in w.told] == ["⚠️ The run did not end in time and could not be stopped."]
        assert w.turns.closed == [], "it may still write"


async def test_a_turn_that_breaks_is_explained_and_the_next_one_runs(tmp_path: Path) -> None:
    async with flaky(tmp_path, Stubborn, queue=FOLLOW) as (w, store):
        seen: list[RunEvent] = []
        store.fails["list_waiting"] = 1
        made = await w.dispatcher.submit(inbound("break"), seen.append)
        w.turns.gate("next").set()
        waiting = await w.send("next")
        found = await w.outcome(made.id)
        assert (found.outcome, found.note) == ("failed", "the turn broke: no disk")
        (end,) = seen
        assert isinstance(end, AgentEnd) and end.failure is not None and end.failure.message == found.note
        assert (await w.outcome(waiting)).outcome == "answered" and not w.dispatcher.feeds._sinks


@pytest.mark.parametrize("text", ["break", "hang"])
async def test_a_deadline_does_not_cut_off_the_end_that_is_being_written(tmp_path: Path, text: str) -> None:
    """Else those who wait are told before it is on disk, look, and wait for ever."""
    async with flaky(tmp_path, Stubborn, timeout=0.05) as (w, store):
        held = store.held["settle"] = asyncio.Event()
        made = await w.dispatcher.submit(inbound(text))
        waiting = asyncio.ensure_future(w.outcome(made.id))
        await until(lambda: "settle" not in store.held)
        await asyncio.sleep(0.4)  # its time is up meanwhile, and the grace after it
        assert not waiting.done()
        held.set()
        found = await waiting
        assert found.outcome == "failed" and len(w.told) == 1
        await until(lambda: not w.dispatcher.lanes.busy)


async def test_the_deadline_of_a_run_that_has_ended_ends_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, timeout=60) as w:
        w.turns.gate("quick").set()
        await w.outcome(await w.send("quick"))
        await until(lambda: not w.dispatcher.lanes.busy)
        loop = asyncio.get_running_loop()
        assert not [t for t in loop._scheduled if "keep_deadline" in repr(t) and not t.cancelled()]  # type: ignore[attr-defined]


# --- the drain


class Slow(Turns):
    """Says when it was told to drain, and gives its message back."""

    async def turn(self, claimed: Any, abort: Any, mailbox: Any, audience: Any) -> None:
        self.began.append(claimed.inbound.text)
        try:
            await abort.wait(self.gate(claimed.inbound.text).wait())
        except Exception:
            self.began.append(str(abort.reason))
            await self._store.yield_back(claimed.claim)
            return
        await self._store.settle(claimed.claim, Settlement("answered", "done"))


async def test_a_drain_waits_then_asks_runs_to_give_their_messages_back(tmp_path: Path) -> None:
    async with flaky(tmp_path, Slow) as (w, store):
        ident = await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        await w.dispatcher.drain(0.05)
        assert w.turns.began == ["run", "drain"] and w.dispatcher.draining and not w.dispatcher.busy
        found = await store.inner.item(ident)
        assert found is not None and (found.state, found.attempts) == ("queued", 0)


async def test_a_drain_lets_a_run_that_is_nearly_done_end(tmp_path: Path) -> None:
    async with flaky(tmp_path, Slow) as (w, store):
        ident = await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        asyncio.get_running_loop().call_later(0.05, w.turns.gate("run").set)
        await w.dispatcher.drain(60)
        found = await store.inner.item(ident)
        assert found is not None and found.outcome == "answered" and w.turns.began == ["run"]


async def test_what_was_doomed_while_it_was_being_claimed_is_ended_and_gives_its_slot_back(tmp_path: Path) -> None:
    async with world(tmp_path, queue=FOLLOW, lanes=LaneSettings(main=1)) as w:
        claim = (await w.store.accept(row("m1", "doomed"), claim=True)).claim
        assert isinstance(claim, RunClaim) and w.dispatcher.lanes.take("main")
        made = running.make_row("m1", inbound("doomed"), await _rules(w), 0.0)
        w.dispatcher._step(MAIN, "main", queue.RestoreEvent(made))
        w.dispatcher._book.step(MAIN, "main", queue.QueueStopEvent(("m1",)))
        seen: list[RunEvent] = []
        w.dispatcher.feeds.watch("m1", seen.append)
        w.dispatcher._start(claim)
        assert (await w.outcome("m1")).outcome == "aborted" and w.turns.began == []
        await until(lambda: not w.dispatcher.lanes.busy and MAIN not in w.dispatcher._book)
        assert len(seen) == 1


async def _rules(w: World) -> Any:
    reader = w.dispatcher._reader
    said = inbound("x")
    return await w.dispatcher._rules.find(reader.read(said, reader.route(said)), MAIN)


async def test_a_message_that_is_being_accepted_when_the_drain_begins_is_no_running_row(tmp_path: Path) -> None:
    async with flaky(tmp_path) as (w, store):
        store.held["accept"] = gate = asyncio.Event()
        coming = asyncio.create_task(w.send("late"))
        await until(lambda: "accept" not in store.held)
        draining = asyncio.create_task(w.dispatcher.drain(0))
        await asyncio.sleep(0.02)
        gate.set()
        ident = await coming
        await draining
        found = await store.inner.item(ident)
        assert found is not None and found.state != "running"


# --- what a mutant once did unseen


BURST = QueueSettings("steer", burst=BurstSettings(wait=3600.0))


async def test_only_the_first_words_of_a_chat_wait_for_more_neither_commands_nor_what_is_steered(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, queue=BURST) as w:
        await w.send("idle", session="s", push=True)
        assert not w.dispatcher.lanes.busy and "agent:main:s" in w.dispatcher._pump._held
        assert (await w.outcome(await w.send("/status", push=True))).note == "did /status"
        await w.send("run", pressed="m1")  # whoever presses a button is not kept waiting
        await until(lambda: w.turns.began == ["run"])
        assert MAIN not in w.dispatcher._pump._held
        await w.send("more", push=True)
        assert [said.text for said, _ in w.turns.boxes["run"].take()] == ["more"]
    assert w.turns.began == ["run"]


async def test_while_a_run_goes_on_the_queues_own_rules_hold_not_those_of_a_burst(tmp_path: Path) -> None:
    async with world(tmp_path, queue=replace(BURST, mode="followup")) as w:
        await w.send("run", pressed="m1")
        await until(lambda: w.turns.began == ["run"])
        await w.send("more", push=True)
        assert w.turns.boxes["run"].take() == []


async def test_a_burst_is_held_for_all_who_share_the_store_before_it_is_on_disk(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=BURST) as (w, store):
        store.held["accept"] = held = asyncio.Event()
        coming = asyncio.ensure_future(w.send("idle", push=True))
        await until(lambda: not store.held)
        assert MAIN in w.dispatcher._pump._held
        held.set()
        await coming
        store.held["accept"] = held = asyncio.Event()
        coming = asyncio.ensure_future(w.send("other", session="s", push=False))
        await until(lambda: not store.held)
        assert "agent:main:s" not in w.dispatcher._pump._held
        held.set()
        await coming


async def test_commands_that_wait_for_a_command_have_rules_of_their_own(tmp_path: Path) -> None:
    async with world(tmp_path, queue=QueueSettings("collect", debounce=3600.0)) as w:
        slow = await w.send("/slow")
        await until(lambda: bool(w.dispatcher.lanes.busy))
        after = await w.send("/after")
        w.control.slow.set()
        assert [(await w.outcome(ident)).note for ident in (slow, after)] == ["did /slow", "did /after"]


async def test_the_same_event_again_without_anybody_who_watches(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.send("run", event="e")
        await until(lambda: w.turns.began == ["run"])
        assert await w.send("run", event="e") == first and not w.dispatcher.feeds._sinks


async def test_messages_are_steered_one_after_the_other_and_one_that_is_stopped_is_taken_back(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        await w.send("a")
        back = await w.send("b")
        await w.send("c")
        assert await w.dispatcher.stop_item(back)
        box = w.turns.boxes["run"]
        assert [said.text for said, _ in box.take()] == ["a", "c"]
        w.turns.gate("run").set()
        await until(lambda: len(w.turns.began) > 1)
        assert not box.open


async def test_after_a_closed_mailbox_was_found_the_next_ones_wait_as_well(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        w.turns.boxes["run"].close()
        await w.send("late")
        w.turns.boxes["run"].open = True  # nobody opens one again: only to see who still tries
        await w.send("later")
        assert w.turns.boxes["run"].take() == [] and not w.dispatcher._book.state(MAIN).open


async def test_the_watchers_of_a_message_that_is_part_of_a_run_watch_the_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ear = Ear()
        w.dispatcher.feeds.follow(ear)
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        seen: list[RunEvent] = []
        part = (await w.dispatcher.submit(inbound("more"), seen.append)).id
        run = w.dispatcher._running[MAIN]
        run.mailbox.take()
        w.dispatcher._absorbed(run, (part,))
        w.dispatcher.feeds.show(run.claim.id, AgentEnd((), "stop", TokenUsage()))
        assert ("merged", part) in ear.heard and len(seen) == 1


async def test_who_waits_for_the_slot_of_a_doomed_message_gets_it(tmp_path: Path) -> None:
    async with world(tmp_path, queue=FOLLOW, lanes=LaneSettings(main=1)) as w:
        claim = (await w.store.accept(row("m1", "doomed"), claim=True)).claim
        assert isinstance(claim, RunClaim) and w.dispatcher.lanes.take("main")
        w.turns.gate("other").set()
        other = await w.send("other", session="s")
        made = running.make_row("m1", inbound("doomed"), await _rules(w), 0.0)
        w.dispatcher._step(MAIN, "main", queue.RestoreEvent(made))
        w.dispatcher._book.step(MAIN, "main", queue.QueueStopEvent(("m1",)))
        w.dispatcher._start(claim)
        assert (await w.outcome(other)).outcome == "answered" and w.turns.began == ["other"]


class _BreaksLate(Turns):
    async def turn(self, claimed: Any, abort: Any, mailbox: Any, audience: Any) -> None:
        await self.gate("break").wait()
        raise StateError("no disk")


async def test_a_turn_that_breaks_while_nobody_can_be_counted_is_no_broken_task(tmp_path: Path) -> None:
    async with flaky(tmp_path, _BreaksLate) as (w, store):
        ident = await w.send("run")
        task = w.dispatcher._running[MAIN].task
        assert task is not None
        store.fails["list_waiting"] = 1
        w.turns.gate("break").set()
        assert (await w.outcome(ident)).outcome == "failed"
        await asyncio.wait({task})
        assert task.exception() is None


async def test_nothing_new_begins_in_a_drain_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    async with flaky(tmp_path, Slow, queue=FOLLOW) as (w, store):
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        waiting = await w.send("next")
        held = w.dispatcher._tasks.start(asyncio.Event().wait())
        asyncio.get_running_loop().call_later(0.05, w.turns.gate("run").set)
        await w.dispatcher.drain(60)
        found = await store.inner.item(waiting)
        assert found is not None and found.state == "queued" and w.turns.began == ["run"]
        await asyncio.wait({held}, timeout=60)
        assert held.cancelled()


async def test_what_cannot_be_ended_in_a_drain_is_left_for_the_next_start(tmp_path: Path) -> None:
    async with flaky(tmp_path, _BreaksLate) as (w, store):
        ident = await w.send("run")
        store.fails["settle"] = 10**6
        w.turns.gate("break").set()
        await until(lambda: store.fails["settle"] < 10**6)
        async with asyncio.timeout(60):
            await w.dispatcher.drain(0)
        tried = store.fails["settle"]
        await until(lambda: not w.dispatcher.busy)
        assert tried - store.fails["settle"] <= 1
        found = await store.inner.item(ident)
        assert found is not None and found.state == "running"


# --- what other nodes say


async def test_what_another_node_says_is_acted_upon(tmp_path: Path) -> None:
    async with world(tmp_path, lanes=LaneSettings(main=2)) as w:
        run = await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        await w.store.accept(row("theirs", "theirs", "agent:main:other"), claim=False)
        w.dispatcher.hear(StoreNews("waiting", "main", "", ""))
        await until(lambda: w.turns.began == ["run", "theirs"])
        await w.store.accept(row("third", "third", "agent:main:third"), claim=False)
        w.dispatcher.hear(StoreNews("queued", "third", "agent:main:third", "main"))
        await until(lambda: w.dispatcher._book.row("agent:main:third", "third") is not None)
        w.dispatcher.hear(StoreNews("stopped", run, MAIN, "stopped (user)"))
        assert (await w.outcome(run)).note == "user"
        await until(lambda: w.turns.began == ["run", "theirs", "third"])


class Stopping(Flaky):
    """A store in which somebody says stop between a commit and the moment its sender hears of it."""

    stop_now: Any = None

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name != "accept" or self.stop_now is None:
            return found

        async def accept(*args: Any, **more: Any) -> Any:
            made, stop, self.stop_now = await found(*args, **more), self.stop_now, None
            await stop()
            return made

        return accept


async def test_who_watches_a_message_that_was_stopped_as_it_came_hears_its_end(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=FOLLOW, store_kind=Stopping) as (w, store):
        await w.send("run")
        await until(lambda: w.turns.began == ["run"])
        store.stop_now = lambda: w.dispatcher.stop(MAIN, "user")
        seen: list[RunEvent] = []
        made = await w.dispatcher.submit(inbound("late"), seen.append)
        assert isinstance(seen[-1], AgentEnd) and seen[-1].end == "aborted"
        assert (await w.outcome(made.id)).outcome == "aborted" and w.turns.began == ["run"]


async def test_after_a_broken_turn_only_what_is_on_disk_waits(tmp_path: Path) -> None:
    async with flaky(tmp_path, _BreaksLate, queue=FOLLOW) as (w, store):
        run = await w.send("run")
        gone = await w.send("gone")
        await store.inner.dismiss([Dismissal(gone, "aborted", "by somebody else")])
        w.turns.gate("break").set()
        assert (await w.outcome(run)).outcome == "failed"
        await until(lambda: MAIN not in w.dispatcher._book)
