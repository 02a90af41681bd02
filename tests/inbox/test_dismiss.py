"""Messages that shall not be answered: what is on disk, who is aborted, and whose tool calls are answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from inbox.test_dispatch import MAIN, Turns, World, until, world
from inbox.test_dispatch_shell import FOLLOW, flaky, row
from palinurus.abort import Abort
from palinurus.agent.mailbox import Mailbox
from palinurus.agent.settle import to_outgoing_rows
from palinurus.agent.turn import ClaimedMessage
from palinurus.clock import SystemClock
from palinurus.config.sections.session import QueueSettings
from palinurus.config.settings import LaneSettings
from palinurus.core.types.inbound import Route, Target, TurnOptions
from palinurus.core.types.outbound import Reply
from palinurus.errors import StateError
from palinurus.inbox import dismiss, queue
from palinurus.store.factory import open_store
from palinurus.store.news import StoreNews
from palinurus.store.port import InboxRow, Store


async def row_of(store: Store, ident: str) -> InboxRow:
    found = await store.item(ident)
    assert found is not None
    return found


async def begun(w: World, text: str = "run") -> str:
    ident = await w.send(text)
    await until(lambda: text in w.turns.began)
    return ident


@pytest.mark.parametrize("reason", sorted(dismiss.UNMARKED))
async def test_an_end_that_nobody_wanted_is_not_put_on_disk(tmp_path: Path, reason: str) -> None:
    """After a crash the message runs again."""
    async with world(tmp_path, queue=FOLLOW) as w:
        run, later = await begun(w), await w.send("later")
        assert await w.dispatcher.stop_item(run, reason)
        assert (await row_of(w.store, run)).outcome is None
        assert (await w.outcome(run)).note == reason
        await until(lambda: "later" in w.turns.began)
        assert await w.dispatcher.stop(MAIN, reason) == (True, 0, 0)
        assert (await w.outcome(later)).note == reason
        assert await w.dispatcher.stop(MAIN, reason) == (False, 0, 0)


async def test_what_waits_goes_on_waiting_if_the_reason_is_no_persons(tmp_path: Path) -> None:
    async with world(tmp_path, queue=FOLLOW) as w:
        run, later = await begun(w), await w.send("later")
        w.turns.gate("later").set()
        assert await w.dispatcher.stop(MAIN, "budget") == (True, 0, 0)
        assert (await w.outcome(run)).outcome == "aborted" and (await w.outcome(later)).outcome == "answered"


class Deaf(Turns):
    """Goes on whatever it is told."""

    async def turn(self, claimed: ClaimedMessage, abort: Abort, mailbox: Mailbox, audience: Any) -> None:
        await super().turn(claimed, Abort(), mailbox, audience)


async def test_a_stop_of_one_that_waits_leaves_the_stop_of_the_run_to_be_written(tmp_path: Path) -> None:
    async with flaky(tmp_path, Deaf, queue=FOLLOW) as (w, store):
        run, one, two = await begun(w), await w.send("one"), await w.send("two")
        writing = store.held["dismiss"] = asyncio.Event()
        dismisser = w.dispatcher._dismisser
        w.dispatcher._step(MAIN, "main", queue.QueueStopEvent((one,)))
        dismisser.begin(MAIN)
        await until(lambda: "dismiss" not in store.held)  # it is about to write that `one` ends
        dismisser.abort(w.dispatcher._running[MAIN], "interrupt")
        assert await w.dispatcher.stop_item(two)
        assert (await row_of(w.store, run)).outcome is None
        assert w.dispatcher._book.row(MAIN, one) is not None  # nobody was told that it has ended
        writing.set()
        await dismisser.settle(MAIN)
        assert (await row_of(w.store, run)).outcome == "aborted"
        assert (await row_of(w.store, one)).outcome == "aborted" == (await row_of(w.store, two)).outcome


async def test_of_two_stops_at_once_whoever_hears_first_tells_those_who_wait(tmp_path: Path) -> None:
    """Seen once in 800 rounds of `flow/test_slow_store.py` at load 14: the second stop found them ended, the first
    believed that nobody here knew them, and whoever waited for their ends waited for ever."""
    async with world(tmp_path, queue=FOLLOW) as w:
        _, one, two = await begun(w), await w.send("one"), await w.send("two")
        write, told, held = w.store.stop, asyncio.Event(), []

        async def tell_late(*args: Any, **more: Any) -> Any:
            held.append(done := await write(*args, **more))
            await told.wait()
            return done

        w.store.stop = tell_late  # type: ignore[method-assign]
        ends = [w.dispatcher.feeds.end(ident) for ident in (one, two)]
        first = asyncio.ensure_future(w.dispatcher.stop(MAIN, "stop"))
        await until(lambda: held)
        w.store.stop = write  # type: ignore[method-assign]
        assert (await w.dispatcher.stop(MAIN, "stop")).dropped == 0
        told.set()
        assert (await first).dropped == 2
        assert all(end.done() for end in ends) and not w.dispatcher.feeds.is_awaited(one)


@pytest.mark.parametrize("alone", [False, True], ids=["waits", "runs"])
async def test_a_message_that_comes_to_know_of_itself_after_its_stop_is_stopped(tmp_path: Path, alone: bool) -> None:
    """It was on disk, the stop ended it there, and only then did the dispatcher hear of either: it waited for ever, or
    ran although whoever stopped it was told that it had not."""
    async with world(tmp_path, queue=FOLLOW) as w:
        if not alone:
            await begun(w)
        accept, stop, gates = w.store.accept, w.store.stop, (asyncio.Event(), asyncio.Event())
        made: list[Any] = []

        def late(change: Any, gate: asyncio.Event) -> Any:
            async def tell_late(*args: Any, **more: Any) -> Any:
                made.append(done := await change(*args, **more))
                await gate.wait()
                return done

            return tell_late

        w.store.accept = late(accept, gates[0])  # type: ignore[method-assign]
        w.store.stop = late(stop, gates[1])  # type: ignore[method-assign]
        sending = asyncio.ensure_future(w.send("late"))
        await until(lambda: len(made) == 1)
        stopping = asyncio.ensure_future(w.dispatcher.stop(MAIN, "user"))
        await until(lambda: len(made) == 2)
        gates[0].set()
        ident = await sending
        if alone:
            await until(lambda: "late" in w.turns.began)
        gates[1].set()
        await stopping
        assert (await w.outcome(ident)).outcome == "aborted"
        await until(lambda: MAIN not in w.dispatcher._book)
        assert ident not in w.dispatcher._dismisser._early


@pytest.mark.parametrize("reason", sorted(dismiss.UNMARKED))
async def test_an_end_that_nobody_wanted_is_not_written_later_either(tmp_path: Path, reason: str) -> None:
    async with flaky(tmp_path, Deaf, queue=FOLLOW) as (w, _):
        run, later = await begun(w), await w.send("later")
        assert await w.dispatcher.stop_item(run, reason)
        assert await w.dispatcher.stop_item(later)
        w.dispatcher._dismisser.begin(MAIN)
        await w.dispatcher._dismisser.settle(MAIN)
        assert (await row_of(w.store, run)).outcome is None
        w.turns.gate("run").set()
        assert (await w.outcome(run)).outcome == "answered"


class Reading(Turns):
    """Reads what is steered in, and has not written that yet."""

    async def turn(self, claimed: ClaimedMessage, abort: Abort, mailbox: Mailbox, audience: Any) -> None:
        await self.gate("take").wait()
        self.began += [f"read {ident}" for _, ident in mailbox.take()]
        await super().turn(claimed, abort, mailbox, audience)


async def test_what_a_run_has_read_ends_with_it_and_is_not_counted_as_dropped(tmp_path: Path) -> None:
    async with flaky(tmp_path, Reading, queue=QueueSettings("steer")) as (w, _):
        run, read = await w.send("run"), await w.send("more")
        w.turns.gate("take").set()
        await until(lambda: w.turns.began == [f"read {read}", "run"])
        assert not await w.dispatcher.stop_item(read)
        waits = await w.send("last", options=TurnOptions(queue="followup"))
        assert await w.dispatcher.stop(MAIN, "user") == (True, 1, 0)
        assert (await row_of(w.store, read)).outcome is None
        assert (await row_of(w.store, waits)).outcome == "aborted" == (await w.outcome(run)).outcome


async def test_what_a_run_has_read_is_not_counted_either_where_nothing_else_waits(tmp_path: Path) -> None:
    async with flaky(tmp_path, Reading, queue=QueueSettings("steer")) as (w, _):
        await w.send("run")
        read = await w.send("more")
        w.turns.gate("take").set()
        await until(lambda: w.turns.began == [f"read {read}", "run"])
        assert await w.dispatcher.stop(MAIN, "user") == (True, 0, 0)


async def test_a_stop_of_another_message_of_the_session_leaves_the_run_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run = await begun(w)
        w.dispatcher._dismisser.hear(StoreNews("stopped", "another", MAIN, dismiss.MARK.format("user")))
        w.turns.gate("run").set()
        assert (await w.outcome(run)).outcome == "answered"


class Absorbing(Turns):
    """Takes in whatever waits, as a steered run does."""

    async def turn(self, claimed: ClaimedMessage, abort: Abort, mailbox: Mailbox, audience: Any) -> None:
        await self.gate("take").wait()
        ids = tuple(row.id for row in await self._store.list_waiting(claimed.claim.session))
        await self._store.append(claimed.claim, [], absorb=ids)
        audience.absorbed(ids)
        await super().turn(claimed, abort, mailbox, audience)


async def test_who_stops_a_message_stops_the_run_that_it_became_part_of(tmp_path: Path) -> None:
    async with flaky(tmp_path, Absorbing, queue=FOLLOW) as (w, _):
        run, steered = await w.send("run"), await w.send("more")
        w.turns.gate("take").set()
        await until(lambda: w.turns.began == ["run"])
        assert w.dispatcher._book.row(MAIN, steered) is None  # it waits no more
        assert await w.dispatcher.stop_item(steered)
        assert (await w.outcome(run)).outcome == "aborted"
        assert not await w.dispatcher.stop_item(steered)  # it is over


async def test_a_message_that_another_node_has_is_stopped_on_disk(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        held = (await w.store.accept(row("theirs", "x", "agent:main:other"), claim=True)).claim
        assert held is not None
        await w.store.accept(row("guest", "y", "agent:main:other"), claim=False)
        await w.store.append(held, [], absorb=["guest"])
        assert await w.dispatcher.stop_item("guest", "user")
        found = await row_of(w.store, "theirs")
        assert (found.state, found.outcome, found.note) == ("running", "aborted", "stopped (user)")


async def test_what_was_stopped_early_is_remembered_once_and_not_for_ever(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        dismisser = w.dispatcher._dismisser
        for n in range(dismiss.EARLY + 1):
            dismisser.hear(StoreNews("stopped", f"m{n}", "agent:main:other", dismiss.MARK.format("user")))
        assert dismisser.take_early("m0") is None
        assert dismisser.take_early("m1") == "user" and dismisser.take_early("m1") is None


class Closing(Turns):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.closed: list[tuple[str, bool]] = []

    async def close_calls(self, route: Route, item: str, *, idle: bool = False) -> None:
        self.closed.append((item, idle))


async def test_whose_stopped_run_did_not_live_to_say_so_is_told_unless_somebody_else_does(tmp_path: Path) -> None:
    before, stopped = await open_store(str(tmp_path / "h"), SystemClock()), ("user", "stop", "interrupt")
    for reason in stopped:
        await before.accept(row(reason, reason, f"agent:main:{reason}"), claim=True)
        await before.stop(f"agent:main:{reason}", dismiss.MARK.format(reason))
    await before.accept(row("killed", "killed", "agent:main:killed"), claim=True)  # nobody stopped this one
    await before.close()
    async with flaky(tmp_path, Closing) as (w, _):
        assert isinstance(w.turns, Closing)
        assert [reply.client_id for reply in w.told] == ["user.end"]
        assert sorted(w.turns.closed) == sorted((reason, False) for reason in stopped)
        await until(lambda: w.turns.began == ["killed"])


class Breaking(Closing):
    async def turn(self, claimed: ClaimedMessage, abort: Abort, mailbox: Mailbox, audience: Any) -> None:
        raise RuntimeError("broken")


class BreakingLate(Turns):
    async def turn(self, claimed: ClaimedMessage, abort: Abort, mailbox: Mailbox, audience: Any) -> None:
        self.began.append(claimed.inbound.text)
        try:
            await abort.wait(self.gate("never").wait())
        finally:
            raise RuntimeError("broken")


@pytest.mark.parametrize("how", ["stop_item", "interrupt"])
async def test_a_stopped_run_that_breaks_was_stopped_and_nobody_hears_that_it_broke(tmp_path: Path, how: str) -> None:
    async with flaky(tmp_path, BreakingLate) as (w, _):
        run = await begun(w)
        if how == "stop_item":
            assert await w.dispatcher.stop_item(run)
        else:
            w.dispatcher._dismisser.abort(w.dispatcher._running[MAIN], how)
        assert (await w.outcome(run)).outcome == "aborted" and w.told == []


async def test_tool_calls_that_a_broken_turn_left_open_are_answered(tmp_path: Path) -> None:
    async with flaky(tmp_path, Breaking) as (w, _):
        assert isinstance(w.turns, Closing)
        run = await w.send("run")
        assert (await w.outcome(run)).outcome == "failed"
        assert w.turns.closed == [(run, True)]


async def test_a_drain_waits_for_what_is_on_its_way_to_the_disk(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=FOLLOW) as (w, store):
        run, one = await begun(w), await w.send("one")
        writing = store.held["dismiss"] = asyncio.Event()
        w.dispatcher._step(MAIN, "main", queue.QueueStopEvent((one,)))
        w.dispatcher._dismisser.begin(MAIN)
        await until(lambda: "dismiss" not in store.held)
        w.turns.gate("run").set()
        await w.outcome(run)
        draining = asyncio.ensure_future(w.dispatcher.drain(60))
        await asyncio.wait((draining,), timeout=0.05)
        assert not draining.done()
        writing.set()
        await draining
        assert (await row_of(w.store, one)).outcome == "aborted"


async def test_tool_calls_are_answered_of_messages_that_had_begun_and_of_no_others(tmp_path: Path) -> None:
    before = await open_store(str(tmp_path / "h"), SystemClock())
    await before.accept(row("busy", "busy", "agent:main:busy"), claim=False)
    held = (await before.accept(row("again", "again"), claim=True)).claim
    assert held is not None
    await before.yield_back(held)  # it waits to go on
    await before.accept(row("fresh", "fresh"), claim=False)
    await before.close()
    async with flaky(tmp_path, Closing, queue=FOLLOW, lanes=LaneSettings(main=1)) as (w, _):
        assert isinstance(w.turns, Closing)
        await until(lambda: w.turns.began == ["busy"])
        assert await w.dispatcher.stop(MAIN, "user") == (False, 2, 0)
        await w.dispatcher._dismisser.close(60)
        assert w.turns.closed == [("again", True)]


# --- what is on disk, and who is told


async def test_an_interrupted_run_is_marked_on_disk_while_it_goes_on(tmp_path: Path) -> None:
    async with flaky(tmp_path, Deaf) as (w, _):
        run = await begun(w)
        w.dispatcher._dismisser.abort(w.dispatcher._running[MAIN], "interrupt")
        await w.dispatcher._dismisser.settle(MAIN)
        assert (await row_of(w.store, run)).note == "stopped (interrupt)"


async def test_a_stop_heard_from_another_node_ends_the_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run = await begun(w)
        w.dispatcher._dismisser.hear(StoreNews("stopped", run, MAIN, dismiss.MARK.format("user")))
        assert (await w.outcome(run)).note == "user"


async def post_one(w: World, item: str) -> None:
    """As if the run had said something already."""
    await w.store.post_replies(to_outgoing_rows([Reply(Target("fake", "chat"), "hm", "r1")], item, 0))


async def state_of_reply(w: World) -> str:
    found = await w.store.reply("r1")
    assert found is not None
    return found.state


@pytest.mark.parametrize("fails", [0, 2])
@pytest.mark.parametrize(("reason", "kept"), [("stop", "cancelled"), ("user", "pending")])
async def test_what_a_run_has_said_is_taken_back_by_a_stop_in_the_chat_only(
    tmp_path: Path, reason: str, kept: str, fails: int
) -> None:
    """Also when the disk was full at first; and of two stops the first one counts."""
    async with flaky(tmp_path, Deaf) as (w, store):
        run = await begun(w)
        await post_one(w, run)
        store.fails["stop"] = fails
        for each in (reason, "budget")[:fails]:
            with pytest.raises(StateError):
                await w.dispatcher.stop_item(run, each)
        if not fails:
            assert await w.dispatcher.stop_item(run, reason)
        async with asyncio.timeout(60):
            while (found := await row_of(w.store, run)).outcome is None:
                await asyncio.sleep(0.02)
        assert found.note == dismiss.MARK.format(reason) and await state_of_reply(w) == kept


async def test_what_only_the_store_knew_is_remembered_as_stopped_and_nothing_else(tmp_path: Path) -> None:
    """Its dispatcher is told of a commit a moment after it."""
    async with world(tmp_path, queue=FOLLOW) as w:
        run, waits = await begun(w), await w.send("waits")
        await w.store.accept(row("unheard", "unheard"), claim=False)
        assert await w.dispatcher.stop(MAIN, "user") == (True, 2, 0)
        early = w.dispatcher._dismisser.take_early
        assert (early("unheard"), early(run), early(waits)) == ("user", None, None)


async def test_a_message_that_is_stopped_waits_no_more_and_is_not_remembered(tmp_path: Path) -> None:
    async with world(tmp_path, queue=FOLLOW) as w:
        _, waits = await begun(w), await w.send("waits")
        assert await w.dispatcher.stop_item(waits)
        assert w.dispatcher._book.row(MAIN, waits) is None and w.dispatcher._dismisser.take_early(waits) is None


@pytest.mark.parametrize(("drop", "told"), [("old", True), ("summarize", False)])
async def test_who_was_one_too_many_is_told_unless_the_next_run_says_so(tmp_path: Path, drop: Any, told: bool) -> None:
    """Another session has the only slot: there is no run to be marked."""
    async with world(tmp_path, queue=QueueSettings("followup", cap=1, drop=drop), lanes=LaneSettings(main=1)) as w:
        await w.send("busy", session="other")
        await until(lambda: w.turns.began == ["busy"])
        gone = await w.send("one", push=True)
        await w.send("two", push=True)
        assert (await w.outcome(gone)).outcome == "refused"
        assert [reply.client_id for reply in w.told] == [f"{gone}.end"] * told
        assert (await w.store.reply(f"{gone}.end") is not None) == told


async def test_one_that_was_claimed_meanwhile_is_marked_once(tmp_path: Path) -> None:
    async with flaky(tmp_path, queue=FOLLOW, lanes=LaneSettings(main=1)) as (w, store):
        await w.send("busy", session="other")
        await until(lambda: w.turns.began == ["busy"])
        waits = await w.send("waits")
        assert await store.inner.claim("main", 1)  # another node takes it
        w.dispatcher._step(MAIN, "main", queue.QueueStopEvent((waits,)))
        w.dispatcher._dismisser.begin(MAIN)
        await w.dispatcher._dismisser.settle(MAIN)
        steps = [step.what for step in await w.store.trace(waits)]
        assert steps.count("stopped") == 1 and w.dispatcher._book.row(MAIN, waits) is not None
