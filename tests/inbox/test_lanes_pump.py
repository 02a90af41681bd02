"""From waiting rows to claims: slots are taken and given back, holds hold, a store that fails is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from palinurus.errors import DiskFull
from palinurus.inbox import queue, running
from palinurus.inbox.lanes import LanePump, Lanes, SessionQueues
from palinurus.inbox.policy import QueuePolicy
from palinurus.store.port import RunClaim, Store
from support import inbound


class Shelf:
    """A store with messages of these sessions; `before` is called when it is asked."""

    def __init__(self, *sessions: str) -> None:
        self.left = [RunClaim(f"m-{s}", s, "main", b"", at=0, attempts=1, fence=1) for s in sessions]
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.held: set[str] = set()
        self.holds: list[float] = []  # for how long, each time
        self.gate = asyncio.Event()  # a hold takes until then
        self.gate.set()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    async def hold(self, session: str, seconds: float) -> None:
        self.holds.append(seconds)
        await self.gate.wait()
        self.held.discard(session)
        if seconds > 0:
            self.held.add(session)

    async def claim(self, lane: str, most: int = 1, *, serves: Sequence[str] | None = None) -> list[RunClaim]:
        self.asked.append((most, tuple(self.held)))
        await asyncio.sleep(0)
        self.before()
        taken = [claim for claim in self.left if claim.session not in self.held][:most]
        self.left = [claim for claim in self.left if claim not in taken]
        self.after()
        return taken


class Rig:
    def __init__(self, *sessions: str, slots: int = 2) -> None:
        self.shelf, self.lanes, self.started = Shelf(*sessions), Lanes({"main": slots}), list[str]()
        self.lanes.add_backlog("main", len(sessions))
        self.pump = LanePump(cast("Store", self.shelf), self.lanes, self._start)

    def _start(self, claim: RunClaim) -> None:
        self.started.append(claim.session)
        self.lanes.add_backlog(claim.lane, -1)

    async def quiet(self) -> None:
        """Everything that can happen at once has happened."""
        for _ in range(50):
            await asyncio.sleep(0)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


async def test_as_many_are_started_as_there_are_slots() -> None:
    rig = Rig("a", "b", "c", slots=2)
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.started == ["a", "b"] and rig.lanes.busy == {"main": 2} and rig.shelf.asked == [(2, ())]
    rig.pump.kick("main")  # no room: whoever gives a slot back kicks
    await rig.quiet()
    assert rig.shelf.asked == [(2, ())]
    rig.lanes.give("main")
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.started == ["a", "b", "c"] and rig.lanes.busy == {"main": 2} and rig.lanes.backlog("main") == 0


async def test_a_second_kick_while_the_store_is_asked_makes_it_look_again() -> None:
    rig = Rig("a", slots=3)
    late, rig.shelf.left = rig.shelf.left, []

    def come() -> None:
        rig.shelf.after = lambda: None
        rig.shelf.left = late
        rig.pump.kick("main")

    rig.shelf.after = come  # just after the store has looked
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.started == ["a"] and len(rig.shelf.asked) == 2


async def test_nobody_asks_the_store_when_nothing_waits() -> None:
    rig = Rig()
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.shelf.asked == []


async def test_slots_that_nobody_could_use_are_given_back_and_it_does_not_spin() -> None:
    rig = Rig("a", slots=3)
    rig.pump.hold("a", "main", asyncio.get_running_loop().time() + 3600)
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.shelf.asked == [(1, ("a",))] and rig.lanes.busy == {} and rig.started == []
    rig.pump.stop()


async def test_a_store_that_fails_keeps_no_slot_and_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig("a")

    def fail() -> None:
        rig.shelf.before = lambda: None
        raise DiskFull("full")

    rig.shelf.before = fail
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.lanes.busy == {} and "cannot take the next message" in caplog.text
    await until(lambda: rig.started == ["a"])
    assert rig.lanes.busy == {"main": 1}


async def test_a_session_that_is_held_starts_when_its_time_has_come() -> None:
    rig = Rig("a", "b")
    rig.pump.hold("a", "main", asyncio.get_running_loop().time() + 0.2)
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.started == ["b"]
    await until(lambda: rig.started == ["b", "a"])
    assert rig.shelf.asked[-1] == (1, ()) and not rig.pump._timers
    rig.pump.hold("a", "main", 0.0)
    await rig.quiet()
    assert len(rig.shelf.holds) == 2 and 0 < rig.shelf.holds[0] <= 0.2  # the store holds it no more, and is not told so


async def test_the_last_hold_counts_and_is_in_the_store_before_anything_is_claimed() -> None:
    rig = Rig("a")
    now = asyncio.get_running_loop().time()
    rig.shelf.gate.clear()
    rig.pump.hold("a", "main", now + 0.01)
    rig.pump.hold("a", "main", now + 3600)
    rig.pump.kick("main")
    await asyncio.sleep(0.1)
    assert rig.shelf.asked == []
    rig.shelf.gate.set()
    await rig.quiet()
    assert rig.started == [] and rig.shelf.asked == [(1, ("a",))]


async def test_a_look_although_nothing_is_known_to_wait_is_one_look() -> None:
    rig = Rig()
    rig.shelf.left = Shelf("theirs").left  # another node has accepted it
    rig.pump.kick("main")
    await rig.quiet()
    assert rig.shelf.asked == []
    rig.pump.kick("main", blind=True)
    await rig.quiet()
    assert rig.started == ["theirs"]
    asked = len(rig.shelf.asked)
    rig.lanes.give("main")
    rig.lanes.add_backlog("main", 1)
    rig.pump.kick("main")
    await rig.quiet()
    assert len(rig.shelf.asked) == asked + 1


async def test_a_hold_that_is_over_takes_the_one_before_away() -> None:
    rig = Rig("a")
    now = asyncio.get_running_loop().time()
    rig.pump.hold("a", "main", now + 3600)
    rig.pump.hold("a", "main", now - 1)
    await rig.quiet()
    assert rig.started == ["a"]


async def test_a_session_that_was_freed_is_not_woken_by_its_old_hold() -> None:
    rig = Rig("a")
    rig.pump.hold("a", "main", asyncio.get_running_loop().time() + 0.05)
    rig.pump.free("a")
    await asyncio.sleep(0.15)
    assert rig.shelf.asked == []


async def test_nothing_is_claimed_after_the_stop() -> None:
    rig = Rig("a", "b")
    now = asyncio.get_running_loop().time()
    rig.pump.hold("b", "main", now + 0.05)
    rig.pump.stop()
    assert not rig.pump._held
    rig.pump.kick("main")
    rig.pump.hold("a", "main", now - 1)
    rig.pump.hold("a", "main", now + 0.05)
    await asyncio.sleep(0.15)
    assert rig.shelf.asked == [] and rig.started == [] and not rig.pump._held


async def test_a_stop_while_the_store_is_asked_is_the_last_time_it_was() -> None:
    rig = Rig("a", slots=3)

    def stop() -> None:
        rig.shelf.after = lambda: None
        rig.lanes.add_backlog("main", 5)
        rig.pump.kick("main")
        rig.pump.stop()

    rig.shelf.left, rig.shelf.after = [], stop
    rig.pump.kick("main")
    await rig.quiet()
    assert len(rig.shelf.asked) == 1 and rig.lanes.busy == {}


def test_all_free_slots_are_as_many_as_are_not_used() -> None:
    lanes = Lanes({"main": 4})
    lanes.add_backlog("main", 9)
    assert lanes.take("main") and lanes.take_all("main") == 3 and lanes.take_all("main") == 0
    lanes.give("main")
    lanes.add_backlog("main", -9)
    assert lanes.take_all("main") == 0 and lanes.busy == {"main": 3}


# --- the queues of all sessions


def arrive(book: SessionQueues, session: str, ident: str, lane: str = "cron", mode: Any = "followup") -> Any:
    policy = QueuePolicy(mode)
    row = running.make_row(ident, inbound(f"text of {ident}"), policy, 0.0)
    return book.step(session, lane, queue.ArrivalEvent(row, policy))


def test_a_queue_is_in_the_book_as_long_as_something_runs_or_waits() -> None:
    lanes = Lanes({})
    book = SessionQueues(lanes)
    here = running.get_place(inbound())
    book.step("s", "cron", queue.ClaimEvent("m1", here))
    assert "s" in book and list(book) == ["s"] and book.lane("s") == "cron"
    arrive(book, "s", "m2")
    assert lanes.backlog("cron") == 1 and book.find("m2") == ("s", book.row("s", "m2"))
    book.step("s", "cron", queue.RunEndEvent("m1"))
    assert "s" in book and lanes.backlog("cron") == 1
    book.step("s", "cron", queue.ClaimEvent("m2", here))
    assert lanes.backlog("cron") == 0
    book.step("s", "cron", queue.RunEndEvent("m2"))
    assert "s" not in book and book.lane("s") == "main" and book.find("m2") is None and book.row("s", "m2") is None


def test_what_is_to_be_done_is_said_and_what_was_dropped_is_not_forgotten() -> None:
    book = SessionQueues(Lanes({}))
    policy = QueuePolicy("followup", cap=1, drop="summarize")
    for ident in ("m1", "m2"):
        row = running.make_row(ident, inbound(ident), policy, 0.0)
        effects = book.step("s", "main", queue.ArrivalEvent(row, policy))
    assert effects == (queue.SweepEffect(),) and book.state("s").dropped == 1
    book.step("s", "main", queue.RecountEvent(frozenset()))
    assert "s" in book and book.state("s").lines == ("m1",)


def test_what_changes_nothing_asks_for_nothing() -> None:
    book = SessionQueues(Lanes({}))
    assert book.step("s", "main", queue.RunEndEvent("nobody")) == ()
    assert "s" not in book


def test_doomed_messages_are_listed_until_their_end_is_on_disk() -> None:
    book = SessionQueues(Lanes({}))
    book.step("s", "main", queue.ClaimEvent("m1", running.get_place(inbound())))
    arrive(book, "s", "m2", "main")
    arrive(book, "s", "m3", "main")
    book.step("s", "main", queue.QueueStopEvent(("m2",)))
    assert [row.id for row in book.list_doomed("s")] == ["m2"]
    book.step("s", "main", queue.VerdictEvent("m2"))
    assert book.list_doomed("s") == [] and book.row("s", "m3") is not None


async def test_a_node_serves_all_sessions_or_those_it_was_given() -> None:
    pump = Rig().pump
    assert pump.serves_session("agent:b:x") is True
    pump.serves = ("agent:a:",)
    assert pump.serves_session("agent:a:x") is True and pump.serves_session("agent:b:x") is False


async def test_a_hold_that_is_over_already_starts_what_waits_and_a_stop_leaves_no_timer() -> None:
    rig = Rig("a")
    rig.pump.hold("a", "main", asyncio.get_running_loop().time() - 1)
    await rig.quiet()
    assert rig.started == ["a"]
    rig.pump.hold("b", "main", asyncio.get_running_loop().time() + 3600)
    (timer,) = rig.pump._timers.values()
    rig.pump.stop()
    assert timer.cancelled() and not rig.pump._timers and not rig.pump._held
