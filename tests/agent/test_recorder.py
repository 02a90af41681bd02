"""What a run remembers: each kind of it alone is worth a flush, and one that fails forgets nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from palinurus.agent.recorder import RunRecorder
from palinurus.core.types.card import CARD, CallCard
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import DiskFull
from palinurus.sessions.entries import CompactionEntry
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import RunClaim, Store, UsageRow
from palinurus.testing.clock import FakeClock

CLAIM = RunClaim("m1", "s", "main", b"", at=0, attempts=1, fence=1)
USED = TokenUsage(10, 5, 0, 0, totalTokens=15)


class Book:
    """A store that keeps what it is given, unless the disk is full."""

    def __init__(self) -> None:
        self.full = False
        self.kept: list[dict[str, Any]] = []

    async def append(self, claim: RunClaim, lines: Any, *, absorb: Any, steps: Any, spent: Any) -> None:
        assert claim is CLAIM
        if self.full:
            raise DiskFull("full")
        self.kept.append({"lines": [*lines], "absorb": [*absorb], "steps": [s.what for s in steps], "spent": [*spent]})


class Rig:
    def __init__(self, *, priced: bool = True) -> None:
        self.book, self.told = Book(), list[tuple[str, ...]]()
        self.transcript = Transcript("agents/main/sessions/s.jsonl")
        self.record = RunRecorder(
            cast("Store", self.book),
            CLAIM,
            self.transcript,
            FakeClock(),
            self.told.append,
            self._price if priced else None,
        )

    def _price(self, message: Any) -> UsageRow | None:
        if not isinstance(message, AssistantMessage) or message.usage == TokenUsage():
            return None
        return UsageRow("m1", "run", "s", "main", "p", message.text, 1, 1, 1, 1, 1)

    def ids(self) -> list[str]:
        return [line.id for kept in self.book.kept for line in kept["lines"]]


def said(text: str, usage: TokenUsage = USED) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), usage=usage)


async def test_nothing_to_write_asks_nobody() -> None:
    rig = Rig()
    await rig.record.flush()
    assert rig.book.kept == []


async def test_lines_are_written_once_in_order_with_the_header_first() -> None:
    rig = Rig()
    rig.record.add(UserMessage("q", 1))
    rig.record.add(said("a"))
    assert len(rig.record.unwritten_lines()) == 3 and [c.model for c in rig.record.unwritten_costs()] == ["a"]
    await rig.record.flush()
    await rig.record.flush()
    assert len(rig.book.kept) == 1 and rig.ids()[1:] == [entry.id for entry in rig.transcript.entries]
    assert rig.record.unwritten_lines() == () and rig.record.unwritten_costs() == ()
    assert {entry.item for entry in rig.transcript.entries} == {"m1"}


async def test_a_step_alone_is_written() -> None:
    rig = Rig()
    rig.record.step("model", "asked")
    await rig.record.flush()
    assert [kept["steps"] for kept in rig.book.kept] == [["model"]]


async def test_what_was_spent_counts_if_it_was() -> None:
    rig = Rig()
    rig.record.add(said("dear"))
    rig.record.add(said("for nothing", TokenUsage()))
    rig.record.add(UserMessage("q", 1))
    await rig.record.flush()
    assert [row.model for row in rig.book.kept[0]["spent"]] == ["dear"]
    free = Rig(priced=False)
    free.record.add(said("dear"))
    await free.record.flush()
    assert free.book.kept[0]["spent"] == []


async def test_a_steered_message_is_told_of_when_its_line_is_on_disk() -> None:
    rig = Rig()
    assert not rig.record.absorbing
    rig.record.add(UserMessage("and this", 1), absorb=("m2", "m3"))
    assert rig.record.absorbing is True and rig.told == []
    rig.book.full = True
    with pytest.raises(DiskFull):
        await rig.record.flush()
    assert rig.told == [] and rig.record.absorbing
    rig.book.full = False
    await rig.record.flush()
    assert rig.told == [("m2", "m3")] and rig.book.kept[0]["absorb"] == ["m2", "m3"] and not rig.record.absorbing
    rig.record.add(said("thanks"))
    await rig.record.flush()
    assert rig.told == [("m2", "m3")]


async def test_a_compaction_is_written_behind_what_came_before_it() -> None:
    rig = Rig()
    rig.record.add(UserMessage("q", 1))
    rig.record.put(CompactionEntry(summary="all of it"))
    await rig.record.flush()
    entries = rig.transcript.entries
    assert [type(entry).__name__ for entry in entries] == ["MessageEntry", "CompactionEntry"]
    assert entries[1].item == "m1" and rig.ids()[1:] == [entry.id for entry in entries]


async def test_a_flush_that_fails_forgets_nothing_and_keeps_the_order() -> None:
    rig = Rig()
    rig.record.add(UserMessage("q", 1), absorb=("m2",))
    rig.record.step("one", "")
    rig.record.add(said("a1"))
    rig.book.full = True
    with pytest.raises(DiskFull):
        await rig.record.flush()
    rig.record.add(said("a2"), absorb=("m3",))
    rig.record.step("two", "")
    rig.book.full = False
    await rig.record.flush()
    (kept,) = rig.book.kept
    assert [line.id for line in kept["lines"]][1:] == [entry.id for entry in rig.transcript.entries]
    assert kept["absorb"] == ["m2", "m3"] and kept["steps"] == ["one", "two"]
    assert [row.model for row in kept["spent"]] == ["a1", "a2"] and rig.told == [("m2", "m3")]


@pytest.mark.parametrize("what", ["absorbed", "spent"])
async def test_each_kind_alone_is_worth_a_flush(what: str) -> None:
    """Lines are made along with these; they may be on disk already, after a settlement that was tried."""
    rig = Rig()
    rig.record.add(said("a") if what == "spent" else UserMessage("q", 1), absorb=("m2",) if what == "absorbed" else ())
    rig.record._lines.clear()
    await rig.record.flush()
    assert len(rig.book.kept) == 1


async def test_a_try_of_a_model_leaves_its_card_and_its_time() -> None:
    rig = Rig()
    rig.record.call(said("answer"), CallCard(1, 0, "p/m", "why", "off", "why", ms=250))
    rig.record.add(said("answer"), called=True)
    rig.record.add(said("other"))
    assert [row.ms for row in rig.record.unwritten_costs()] == [250, 0]
    (step,) = rig.record.unwritten_steps()
    assert step.what == CARD and '"ms":250' in step.detail
