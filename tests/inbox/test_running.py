"""The words around messages that were put together or dropped."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from palinurus.agent.mailbox import Mailbox
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.inbound import Sender
from palinurus.core.types.outbound import Reply
from palinurus.errors import DiskFull
from palinurus.inbox import running
from palinurus.inbox.message import MessageReader
from palinurus.inbox.policy import QueuePolicy
from palinurus.inbox.queue import BeginEffect, QueueRow
from palinurus.inbox.running import ActiveRun, ClaimFinisher, StrayRuns, keep_deadline, make_refused_end, make_row
from palinurus.store.port import InboxRow, RunClaim, Settlement, StaleClaim, Store
from palinurus.testing.clock import FakeClock
from support import inbound, read

RULES = QueuePolicy("collect")
CLAIM = RunClaim("m1", "agent:main:main", "main", b"{}", 0, attempts=1)


def test_several_messages_as_one_turn() -> None:
    assert running.number_first(inbound("a")).text == "[Queued messages while agent was busy]\n\n---\nQueued #1\na"
    group = inbound("b", kind="group", sender=Sender("7", "Ann"))
    assert running.number_further(group, 2).text == "---\nQueued #2 (from Ann)\nb"
    nameless = inbound("b", kind="group", sender=Sender("7"))
    assert running.number_further(nameless, 2).text == "---\nQueued #2 (from 7)\nb"
    assert running.number_further(inbound("b", sender=Sender("7", "Ann")), 3).text == "---\nQueued #3\nb"
    assert running.number_first(inbound("a")).signed and running.number_further(group, 2).signed


def test_what_was_dropped_is_told_first() -> None:
    note = running.tell_overflow(2, ("x", "y"))
    assert note == "[Queue overflow] Dropped 2 message(s) due to cap.\n- x\n- y"
    assert running.number_first(inbound("a"), note).text.startswith(
        f"[Queued messages while agent was busy]\n\n{note}\n\n---"
    )
    assert running.prepend_note(inbound("a"), note).text == f"{note}\n\na"
    assert running.tell_overflow(0, ()) == "" and running.prepend_note(inbound("a"), "").text == "a"


def test_only_a_trusted_senders_directives_are_taken_out() -> None:
    assert read(inbound("do /think low this")).said.text == "do /think low this"
    owner = inbound("do /think low this", sender=Sender("me", owner=True))
    assert "/think" not in read(owner).said.text
    path = inbound("see /etc/hosts", sender=Sender("me", owner=True))
    assert read(path).said == path


# --- the end of a claim that no turn has ended


class Ledger:
    """A store that keeps what it is told to settle, unless it has a reason not to."""

    def __init__(self, *troubles: Exception) -> None:
        self.troubles = list(troubles)
        self.ends: list[Settlement] = []
        self.running: list[list[str]] = []
        self.requeued: list[tuple[str, ...]] = []

    async def settle(self, claim: RunClaim, end: Settlement) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.ends.append(end)

    async def list_running(self) -> list[InboxRow]:
        ids = self.running.pop(0) if self.running else []
        return [InboxRow(i, i, "s", "main", b"", 0, "running", None, "", attempts=1) for i in ids]

    async def requeue(self, ids: tuple[str, ...]) -> list[InboxRow]:
        self.requeued.append(ids)
        return [InboxRow(i, i, "s", "main", b"", 0, "queued", None, "", attempts=1) for i in ids]


def finisher(store: Ledger, told: list[Reply], clock: FakeClock | None = None) -> ClaimFinisher:
    return ClaimFinisher(cast("Store", store), clock or FakeClock(), told.extend)


async def test_an_end_is_on_disk_before_its_sender_is_told() -> None:
    store, told = Ledger(), list[Reply]()
    end = await finisher(store, told).end(CLAIM, inbound("hi"), "failed", "it broke", tell=True)
    assert end is not None and end.failure is not None and end.failure.message == "it broke"
    (made,) = store.ends
    assert (made.outcome, made.note, len(made.replies)) == ("failed", "it broke", 1)
    assert [reply.text for reply in told] == ["⚠️ It broke."]
    assert await finisher(store, told).end(CLAIM, inbound("hi"), "aborted", "x", tell=False) is not None
    assert len(told) == 1 and store.ends[1].replies == ()


async def test_whoever_waits_for_an_answer_elsewhere_gets_no_notice() -> None:
    store, told = Ledger(), list[Reply]()
    await finisher(store, told).end(CLAIM, inbound("hi", push=False), "failed", "it broke", tell=True)
    assert told == [] and store.ends[0].replies == ()


async def test_an_end_that_somebody_else_wrote_or_that_comes_too_late_is_told_nobody() -> None:
    store, told = Ledger(StaleClaim("gone")), list[Reply]()
    assert await finisher(store, told).end(CLAIM, inbound("hi"), "failed", "it broke", tell=True) is None
    stopped = finisher(store, told)
    stopped.stopped = True
    assert await stopped.end(CLAIM, inbound("hi"), "failed", "it broke", tell=True) is None
    assert told == [] and store.ends == []


async def test_a_full_disk_is_waited_for_until_the_program_stops() -> None:
    clock, told = FakeClock(), list[Reply]()
    store = Ledger(DiskFull("full"))
    ending = asyncio.ensure_future(finisher(store, told, clock).end(CLAIM, inbound("hi"), "failed", "x", tell=False))
    await clock.until_sleeping()
    await clock.advance(1)
    assert await ending is not None and len(store.ends) == 1
    store = Ledger(DiskFull("full"), DiskFull("full"))
    stopping = finisher(store, told, clock)
    ending = asyncio.ensure_future(stopping.end(CLAIM, inbound("hi"), "failed", "x", tell=False))
    await clock.until_sleeping()
    stopping.stopped = True
    await clock.advance(1)
    assert await ending is None and store.ends == []


def test_what_was_stopped_ends_otherwise_than_what_failed() -> None:
    stopped, failed = make_refused_end("aborted", "a", 1), make_refused_end("refused", "b", 2)
    assert (stopped.end, failed.end) == ("aborted", "error")
    assert stopped.failure is not None and failed.failure is not None
    assert (stopped.failure.kind, failed.failure.kind) == ("aborted", "refused")


# --- rows that nobody runs, and runs that do not end


async def test_a_row_that_nobody_runs_is_given_back_at_the_second_look() -> None:
    store, ours = Ledger(), {"mine"}
    strays = StrayRuns(cast("Store", store), lambda: ours)
    store.running = [["mine", "lost", "short"], ["mine", "lost"], ["mine"], ["lost"]]
    assert await strays.give_back() == [] and store.requeued == []
    assert [row.id for row in await strays.give_back()] == ["lost"] and store.requeued == [("lost",)]
    assert await strays.give_back() == [] == await strays.give_back()  # not twice in a row


def make_run(task: asyncio.Task[None]) -> ActiveRun:
    run = ActiveRun(CLAIM, cast("Any", None), BeginEffect(), Mailbox(lambda ids: None))
    run.task = task
    return run


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_late_run_is_cancelled_and_then_given_up(stubborn: bool) -> None:
    given: list[int] = []
    cancels: list[int] = []

    async def work() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancels.append(run.late)
                if not stubborn or given:
                    run.over = True
                    return

    run = make_run(asyncio.ensure_future(work()))
    await asyncio.sleep(0)
    keep_deadline(run, 0.0, 0.01, lambda late: given.append(late.late))
    async with asyncio.timeout(60):
        await run.task  # type: ignore[misc]
        while run.late < 2:
            await asyncio.sleep(0.005)
    assert cancels[0] == 1 and given == ([2] if stubborn else [])


async def test_a_run_that_is_over_is_not_cancelled() -> None:
    task = asyncio.ensure_future(asyncio.sleep(0.05))
    run = make_run(task)
    run.over = True
    keep_deadline(run, 0.0, 0.0, lambda late: pytest.fail("given up"))
    await task
    assert run.late == 1


def test_only_what_was_handed_to_it_begins_with_a_run() -> None:
    """What was stopped between the claim and its beginning stays out."""

    class Book:
        def row(self, session: str, ident: str) -> QueueRow | None:
            if ident == "gone":
                return None
            made = make_row(ident, inbound(ident), RULES, 0.0)
            return msgspec.structs.replace(made, state="doomed" if ident == "stopped" else "handed")

    begin = BeginEffect(("handed", "stopped", "gone"))
    box = Mailbox(lambda ids: None)
    run = ActiveRun(CLAIM, read(inbound("first")), begin, box)
    body = msgspec.json.encode(inbound("more"))
    rows = [
        InboxRow(i, i, "s", "main", body, 0, "queued", None, "", attempts=0)
        for i in ("handed", "stopped", "gone", "other")
    ]
    reader = MessageReader(Settings("/h", {"main": AgentSettings("main", "main", "/w")}, "main"))
    running.join_waiting(run, rows, cast("Any", Book()), reader, now=0)
    assert [ident for _, ident in box._items] == ["handed"]
