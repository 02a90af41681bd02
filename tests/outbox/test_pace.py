"""When blocks go and which go together; the clock stands still."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.core.stream.chunk import CoalesceSettings, HumanDelay
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply, ReplyKind
from palinurus.outbox.pace import KIND, OLD, BlockPacer, JoinedBlocks, PaceRules, sweep_joined_records
from palinurus.store.factory import open_store
from palinurus.testing.clock import FakeClock

CHAT = Target("fake", "chat")
JOIN = CoalesceSettings(idle=100, min_chars=10, max_chars=30)


def block(text: str, ident: str, kind: ReplyKind = "block") -> Reply:
    return Reply(CHAT, text, ident, kind)


def pacer(clock: FakeClock, rules: PaceRules = PaceRules(JOIN)) -> BlockPacer:
    made = BlockPacer(clock, lambda: 0.0)
    made.begin(CHAT, rules)
    return made


@pytest.mark.seed(321)
async def test_blocks_wait_for_others_and_go_as_one() -> None:
    clock = FakeClock()
    pace = pacer(clock)
    one, two = block("one two", "b1"), block("three", "b2")
    pace.on_queued([one])
    assert pace.wait(one) == pytest.approx(0.1)
    await clock.advance(0.05)
    pace.on_queued([two])
    assert pace.wait(one) == pytest.approx(0.1)
    await clock.advance(0.1)
    assert pace.wait(one) == 0 and pace.find_joined(one) == JoinedBlocks(("b1", "b2"), "one two\n\nthree")


async def test_the_answer_itself_lets_them_go() -> None:
    pace = pacer(FakeClock())
    one = block("one", "b1")
    pace.on_queued([one])
    assert pace.wait(one) > 0
    pace.on_queued([block("the end", "f", "final")])
    assert pace.wait(one) == 0 and pace.find_joined(one) is None


async def test_the_end_of_the_run_lets_them_go() -> None:
    pace = pacer(FakeClock())
    one = block("one", "b1")
    pace.on_queued([one])
    pace.end(CHAT)
    assert pace.wait(one) == 0


async def test_what_does_not_fit_goes_in_two() -> None:
    pace = pacer(FakeClock())
    one, two = block("a" * 20, "b1"), block("b" * 20, "b2")
    pace.on_queued([one, two])
    assert pace.wait(one) == 0 and pace.find_joined(one) is None and pace.wait(two) > 0


async def test_rows_that_nobody_announced_go_at_once() -> None:
    pace = BlockPacer(FakeClock(), lambda: 0.0)  # as after a start
    assert pace.wait(block("one", "b1")) == 0 and pace.find_joined(block("one", "b1")) is None


async def test_a_block_heard_again_after_a_restart_holds_no_new_one() -> None:
    clock = FakeClock()
    pace = pacer(clock)
    pace.on_queued([block("old", "b1")])  # its row was sent before the restart: it never comes
    pace.on_queued([block("new", "b2")])
    assert pace.wait(block("new", "b2")) == 0 and pace.find_joined(block("new", "b2")) is None


async def test_a_human_pause_before_every_block_but_the_first() -> None:
    clock = FakeClock()
    every = CoalesceSettings(every=True)
    pace = pacer(clock, PaceRules(every, HumanDelay("custom", 200, 300)))
    one, two, last = block("one", "b1"), block("two", "b2"), block("the end", "f", "final")
    pace.on_queued([one, two, last])
    assert pace.wait(one) == 0
    pace.on_gone(one)
    assert pace.wait(two) == pytest.approx(0.2)
    await clock.advance(0.2)
    assert pace.wait(two) == 0
    pace.on_gone(two)
    assert pace.wait(last) == 0  # not before the answer
    pace.on_gone(last)
    assert pace.wait(block("next", "c1")) == 0


async def test_a_row_that_is_not_announced_yet_waits_a_moment() -> None:
    pace = pacer(FakeClock())
    assert 0 < pace.wait(block("one", "b1"), 0) < 0.1
    assert pace.wait(block("one", "b1"), 1000) == 0  # nobody will announce it


async def test_old_records_are_swept(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path), clock := FakeClock())
    await store.put_record(KIND, "old", b"{}")
    await clock.advance(OLD / 1000 + 1)
    await store.put_record(KIND, "new", b"{}")
    await sweep_joined_records(store, clock.now())
    assert [kept.key for kept in await store.list_records(KIND)] == ["new"]
    await store.close()
