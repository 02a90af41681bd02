"""The board: one answer wins, time runs out, and answers outlive the process once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.config.sections import approvals
from palinurus.core.types.approval import ApprovalAnswer, ApprovalRequest, CommandRule
from palinurus.services.approvals import KIND, ApprovalBoard, ApprovalRow, digest_question
from palinurus.store.factory import open_store
from palinurus.testing.clock import FakeClock


def ask(command: str = "touch X", **changes: Any) -> ApprovalRequest:
    base: dict[str, Any] = {"kind": "exec", "agent": "main", "session": "s", "run": "r", "call": "c", "tool": "exec"}
    made = {"title": "run it", "command": command, "cwd": "/w", "binding": {"cwd:/w": "1:2"}, "timeout": 60.0}
    return ApprovalRequest(**{**base, **made, **changes})


class Shown:
    """Where cards appear."""

    def __init__(self) -> None:
        self.cards: list[tuple[str, str]] = []

    def __call__(self, ident: str, card: str) -> None:
        self.cards.append((ident, card))

    async def one(self, count: int = 1) -> str:
        async with asyncio.timeout(60):
            while len(self.cards) < count:
                await asyncio.sleep(0.001)
        return self.cards[count - 1][0]


@asynccontextmanager
async def board(home: Path, clock: FakeClock | None = None, **options: Any) -> AsyncIterator[ApprovalBoard]:
    clock = clock or FakeClock()
    store = await open_store(str(home), clock)
    made = ApprovalBoard(store, clock, str(home / "exec-approvals.json"), **options)
    try:
        yield made
    finally:
        await made.close()
        await store.close()


async def rows(made: ApprovalBoard) -> list[ApprovalRow]:
    return [msgspec.json.decode(k.data, type=ApprovalRow) for k in await made._store.list_records(KIND)]


@pytest.mark.parametrize("decision", ["allow-once", "allow-always", "deny"])
async def test_an_answer_reaches_the_run_that_waits(tmp_path: Path, decision: str) -> None:
    shown = Shown()
    async with board(tmp_path) as made:
        waiting = asyncio.ensure_future(made.ask(ask(rules=(CommandRule("/usr/bin/touch", ("X",)),)), shown))
        ident = await shown.one()
        assert "touch X" in shown.cards[0][1] and [r.id for r in await made.pending()] == [ident]
        answered = await made.answer(ident[:8], decision, "me")
        assert answered.problem == "" and await waiting == ApprovalAnswer(decision, "me", ident)  # type: ignore[arg-type]
        assert await made.pending() == [] and [r.state for r in await rows(made)] == ["used"]
    listed = approvals.read_approvals(str(tmp_path / "exec-approvals.json")).rules("main")
    assert listed == ((CommandRule("/usr/bin/touch", ("X",)),) if decision == "allow-always" else ())


async def test_of_two_answers_one_wins(tmp_path: Path) -> None:
    shown = Shown()
    async with board(tmp_path) as made:
        waiting = asyncio.ensure_future(made.ask(ask(), shown))
        ident = await shown.one()
        answers = await asyncio.gather(
            *(made.answer(ident, decision, by) for decision, by in (("allow-once", "a"), ("deny", "b"), ("deny", "c")))
        )
        assert sum(not a.problem for a in answers) == 1
        winner = next(a for a in answers if not a.problem)
        assert (await waiting).decision == winner.row.decision  # type: ignore[union-attr]
        assert all("already answered" in a.problem for a in answers if a.problem)
        assert "already answered" in (await made.answer(ident, "deny", "late")).problem


async def test_two_boards_on_one_store_agree_too(tmp_path: Path) -> None:
    """Whoever else writes the record: compare and set decides."""
    shown = Shown()
    async with board(tmp_path) as made:
        other = ApprovalBoard(made._store, made._clock)
        waiting = asyncio.ensure_future(made.ask(ask(), shown))
        ident = await shown.one()
        one, two = await asyncio.gather(made.answer(ident, "allow-once", "a"), other.answer(ident, "deny", "b"))
        assert bool(one.problem) != bool(two.problem)
        waiting.cancel()


async def test_time_runs_out(tmp_path: Path) -> None:
    shown, clock = Shown(), FakeClock()
    async with board(tmp_path, clock) as made:
        waiting = asyncio.ensure_future(made.ask(ask(), shown))
        ident = await shown.one()
        await clock.until_sleeping()
        await clock.advance(61)
        told = await waiting
        assert told == ApprovalAnswer(None, "nobody answered in time", ident) and not told.allowed
        assert "no longer open" in (await made.answer(ident, "allow-once", "me")).problem
        assert [r.state for r in await rows(made)] == ["expired"]


async def test_a_stopped_run_closes_its_question_and_a_stopping_program_does_not(tmp_path: Path) -> None:
    for stopping, state in ((False, "cancelled"), (True, "pending")):
        shown = Shown()
        async with board(tmp_path / state, stopping=lambda on=stopping: on) as made:  # type: ignore[misc]
            waiting = asyncio.ensure_future(made.ask(ask(), shown))
            ident = await shown.one()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await made.close()
            assert [r.state for r in await rows(made)] == [state]
            answered = await made.answer(ident, "allow-once", "me")
            assert bool(answered.problem) is (state == "cancelled")


async def test_an_answer_after_a_restart_serves_the_next_try_once(tmp_path: Path) -> None:
    shown = Shown()
    async with board(tmp_path, stopping=lambda: True) as made:
        waiting = asyncio.ensure_future(made.ask(ask(), shown))
        ident = await shown.one()
        waiting.cancel()
    async with board(tmp_path) as made:
        assert (await made.answer(ident[:8], "allow-once", "me")).row.state == "answered"  # type: ignore[union-attr]
    async with board(tmp_path) as made:
        other = asyncio.ensure_future(made.ask(ask("touch Y"), shown))  # another command is another question
        await shown.one(2)
        assert await made.ask(ask(run="r2", call="c9"), shown) == ApprovalAnswer("allow-once", "me", ident)
        again = asyncio.ensure_future(made.ask(ask(), shown))  # … and only once
        assert await shown.one(3) != ident
        other.cancel()
        again.cancel()


async def test_a_question_left_open_is_taken_up_again_not_asked_twice(tmp_path: Path) -> None:
    shown = Shown()
    async with board(tmp_path, stopping=lambda: True) as made:
        waiting = asyncio.ensure_future(made.ask(ask(), shown))
        ident = await shown.one()
        waiting.cancel()
    async with board(tmp_path) as made:
        waiting = asyncio.ensure_future(made.ask(ask(run="r2"), shown))
        assert await shown.one(2) == ident
        await made.answer(ident, "deny", "me")
        assert (await waiting).decision == "deny" and len(await rows(made)) == 1


async def test_the_same_thing_twice_at_once_is_two_questions(tmp_path: Path) -> None:
    shown = Shown()
    async with board(tmp_path) as made:
        both = [asyncio.ensure_future(made.ask(ask(), shown)) for _ in range(2)]
        one, two = await shown.one(1), await shown.one(2)
        assert one != two
        await made.answer(one, "allow-once", "me")
        await made.answer(two, "deny", "me")
        assert {(await task).decision for task in both} == {"allow-once", "deny"}


@pytest.mark.parametrize(
    "other",
    [
        {"command": "touch Y"}, {"session": "t"}, {"agent": "b"}, {"cwd": "/v"}, {"binding": {"cwd:/w": "1:3"}},
        {"binding": {}}, {"env": ("A",)}, {"argv": ("x",)}, {"binary": "/x"}, {"host": "sandbox"}, {"tool": "message"},
    ],
)  # fmt: skip
def test_what_makes_a_question_another(other: dict[str, Any]) -> None:
    assert digest_question(msgspec.structs.replace(ask(), **other)) != digest_question(ask())
    assert digest_question(ask(run="other", call="other", why="else")) == digest_question(ask())


async def test_with_nobody_to_see_it_the_question_is_kept_but_not_waited_for(tmp_path: Path) -> None:
    async with board(tmp_path) as made:
        told = await made.ask(ask(), None)
        assert told.decision is None and "nobody is here" in told.by
        assert (await made.answer(told.id, "allow-once", "cli")).problem == ""
        assert (await made.ask(ask(), None)).decision == "allow-once"
        heard: list[tuple[str, str]] = []
        silent = made.listen(lambda what, row: heard.append((what, row.ask.command)))
        waiting = asyncio.ensure_future(made.ask(ask("ls"), None))  # a face listens: there is somebody
        async with asyncio.timeout(60):
            while not heard:
                await asyncio.sleep(0.001)
        await made.answer((await made.pending())[0].id, "deny", "web")
        assert (await waiting).decision == "deny" and heard == [("requested", "ls"), ("resolved", "ls")]
        silent()


async def test_a_listener_that_breaks_decides_nothing(tmp_path: Path) -> None:
    shown = Shown()

    def broken(what: Any, row: ApprovalRow) -> None:
        raise RuntimeError

    async with board(tmp_path) as made:
        made.listen(broken)
        waiting = asyncio.ensure_future(made.ask(ask(), shown))
        await made.answer(await shown.one(), "deny", "me")
        assert (await waiting).decision == "deny"


async def test_bad_answers_change_nothing(tmp_path: Path) -> None:
    shown = Shown()
    async with board(tmp_path) as made:
        waiting = asyncio.ensure_future(made.ask(ask(allowed=("allow-once", "deny")), shown))
        ident = await shown.one()
        for who, decision, problem in (
            ("", "deny", "which one"), (ident[:3], "deny", "unknown or expired"), ("ffff-no", "deny", "unknown"),
            (ident, "maybe", "no decision"), (ident, "allow-always", "not possible"), (ident, "", "no decision"),
        ):  # fmt: skip
            assert problem in (await made.answer(who, decision, "me")).problem
        assert [r.id for r in await made.pending("s")] == [ident] and await made.pending("t") == []
        waiting.cancel()


async def test_old_rows_go_and_unreadable_ones_are_passed_over(tmp_path: Path) -> None:
    clock = FakeClock()
    async with board(tmp_path, clock) as made:
        await made.ask(ask("old"), None)
        await made._store.put_record(KIND, "junk", b"{}")
        clock.jump(2 * 86_400)
        await made.ask(ask("new"), None)
        assert {k.key for k in await made._store.list_records(KIND)} == {"junk", (await made.pending())[0].id}


class CountingStore:
    """A store that counts how often all records of a kind are read."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.lists = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list_records(self, kind: str) -> Any:
        self.lists += 1
        return await self._store.list_records(kind)


async def test_a_question_costs_the_same_however_many_there_were(tmp_path: Path) -> None:
    clock, shown = FakeClock(), Shown()
    store = CountingStore(await open_store(str(tmp_path), clock))
    made = ApprovalBoard(store, clock)  # type: ignore[arg-type]
    for at in range(30):
        waiting = asyncio.ensure_future(made.ask(ask(f"touch {at}"), shown))
        ident = await shown.one(at + 1)
        assert (await made.answer(ident[:8], "deny", "me")).problem == "" and (await waiting).decision == "deny"
    assert store.lists == 1  # the first looks for what is over; the others read their own row
    await made.close()
    await store.close()


async def test_a_card_says_what_was_other_the_last_time(tmp_path: Path) -> None:
    shown = Shown()
    pay = {"kind": "tool", "tool": "pay", "facts": (("to", "DE1  (you wrote it)"),), "values": ("to=DE1", "amount=5")}
    async with board(tmp_path) as made:
        for number, (to, decision) in enumerate((("DE1", "allow-once"), ("XX9", "deny"), ("XX9", "deny")), 1):
            asked = ask(to, **{**pay, "values": (f"to={to}", "amount=5"), "binding": {"n": str(number)}})
            waits = asyncio.ensure_future(made.ask(asked, shown))
            await made.answer(await shown.one(number), decision, "me")
            await waits
    cards = [text for _, text in shown.cards]
    assert "last time" not in cards[0]
    assert "last time you said yes: to DE1\n" in cards[1]  # what was refused is no last time
    assert "last time you said yes: to DE1\n" in cards[2]


async def test_an_expired_answer_serves_nobody(tmp_path: Path) -> None:
    clock = FakeClock()
    async with board(tmp_path, clock) as made:
        told = await made.ask(ask(), None)
        await made.answer(told.id, "allow-once", "me")
        clock.jump(61)
        assert (await made.ask(ask(), None)).decision is None


async def test_a_rule_that_cannot_be_stored_is_said(tmp_path: Path) -> None:
    (tmp_path / "exec-approvals.json").write_text("broken")
    shown = Shown()
    async with board(tmp_path) as made:
        waiting = asyncio.ensure_future(made.ask(ask(rules=(CommandRule("ls"),)), shown))
        answered = await made.answer(await shown.one(), "allow-always", "me")
        assert not answered.problem and "could not be stored" in answered.note and (await waiting).allowed


def test_payloads() -> None:
    row = ApprovalRow("id", "d", ask(), 1, 2, "used", "deny", "me", 3)
    assert row.requested_payload() | {"request": 0} == {"id": "id", "request": 0, "createdAtMs": 1, "expiresAtMs": 2}
    assert row.resolved_payload() | {"request": 0} == {
        "id": "id",
        "decision": "deny",
        "resolvedBy": "me",
        "ts": 3,
        "request": 0,
    }


async def test_a_clock_that_is_set_ahead_takes_nobody_the_answer(tmp_path: Path) -> None:
    """The run still waits, for as long as it said: the question is open."""
    clock, shown = FakeClock(), Shown()
    async with board(tmp_path, clock) as made:
        asked = asyncio.ensure_future(made.ask(ask(), shown))
        ident = await shown.one()
        clock.jump(3 * 86_400)
        await made.ask(ask("another"), None)  # which clears away what is old
        assert ident in [row.id for row in await made.pending()]
        assert (await made.answer(ident, "allow-once", "me")).problem == ""
        assert (await asyncio.wait_for(asked, 60)).decision == "allow-once"
