"""The first half of the Store suite: accept, claim, append, settle, recover. See `conformance/store.py`.

Knows the port only; the implementation comes from the subclass's `open`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from palinurus.clock import Clock
from palinurus.errors import StateError
from palinurus.store.port import (
    Acceptance,
    InboxItem,
    OutboxRow,
    RunClaim,
    SessionRow,
    Settlement,
    StaleClaim,
    Store,
    TranscriptLine,
    UsageRow,
)
from palinurus.testing.clock import FakeClock

FILE = "agents/main/sessions/s.jsonl"


def make_item(ident: str, session: str = "agent:main:a", *, dedupe: str = "", lane: str = "main") -> InboxItem:
    """A message to accept."""
    return InboxItem(ident, dedupe or f"fake:{ident}", session, lane, body=f"body of {ident}".encode(), at=1000)


def make_line(ident: str, path: str = FILE) -> TranscriptLine:
    """A transcript line as it looks in a file."""
    return TranscriptLine(path, ident, b'{"type":"message","id":"%s","parentId":null}' % ident.encode())


def make_reply_part(
    ident: str, *, of: str = "m1", target: str = "chat", channel: str = "fake", due: int = 0
) -> OutboxRow:
    """A reply part."""
    return OutboxRow(ident, of, channel, target, data=f"reply {ident}".encode(), at=1000, due=due)


def make_ledger_call(ident: str, at: int, session: str = "agent:main:a", cost: float | None = 0.5) -> UsageRow:
    """One model call in the ledger."""
    return UsageRow(
        ident,
        "run",
        session,
        "main",
        provider="fake",
        model="model",
        at=at,
        input=10,
        output=20,
        cache_read=30,
        cache_write=40,
        cost=cost,
        ms=7,
    )


async def claim_one(store: Store, lane: str = "main", serves: Sequence[str] | None = None) -> RunClaim | None:
    """The next message, if one may start."""
    return next(iter(await store.claim(lane, serves=serves)), None)


class InboxSuite:
    """Messages: from accepted to settled."""

    async def open(self, home: str, clock: Clock) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
        store = await self.open(str(tmp_path / "home"), clock)
        await store.recover()
        yield store
        await store.close()

    async def reopen(self, store: Store, tmp_path: Path, clock: FakeClock) -> Store:
        """Close and open anew."""
        await store.close()
        return await self.open(str(tmp_path / "home"), clock)

    # --- accept ------------------------------------------------------------------------------------------------

    async def test_accept_makes_a_queued_row(self, store: Store) -> None:
        assert await store.accept(make_item("m1"), claim=False) == Acceptance("m1", False, "queued")
        row = await store.item("m1")
        assert row is not None
        assert (row.dedupe, row.session, row.lane, row.body, row.at) == (
            "fake:m1",
            "agent:main:a",
            "main",
            b"body of m1",
            1000,
        )
        assert (row.state, row.outcome, row.attempts, row.absorbed_by) == ("queued", None, 0, "")

    async def test_accept_claims_when_the_session_is_free(self, store: Store) -> None:
        first = await store.accept(make_item("m1"), claim=True)
        assert first.state == "running"
        assert first.claim is not None
        assert (first.claim.id, first.claim.attempts, first.claim.body) == ("m1", 1, b"body of m1")
        # something runs
        assert await store.accept(make_item("m2"), claim=True) == Acceptance("m2", False, "queued")
        await store.settle(first.claim, Settlement("answered"))
        # nothing runs, but m2 waits: m3 must not overtake it
        assert await store.accept(make_item("m3"), claim=True) == Acceptance("m3", False, "queued")
        other = await store.accept(make_item("m4", "agent:main:b"), claim=True)
        assert other.claim is not None

    async def test_a_duplicate_changes_nothing(self, store: Store) -> None:
        await store.accept(make_item("m1", dedupe="tg:1"), claim=False)
        assert await store.accept(make_item("m2", dedupe="tg:1"), claim=True) == Acceptance("m1", True, "queued")
        assert await store.item("m2") is None
        held = await claim_one(store, "main")
        assert held is not None
        await store.settle(held, Settlement("answered", "hello"))
        assert await store.accept(make_item("m3", dedupe="tg:1"), claim=True) == Acceptance("m1", True, "done")

    async def test_concurrent_duplicates_make_one_row(self, store: Store) -> None:
        got = await asyncio.gather(*(store.accept(make_item(f"m{n}", dedupe="tg:1"), claim=True) for n in range(10)))
        assert sorted(a.duplicate for a in got) == [False] + [True] * 9
        assert len({a.id for a in got}) == 1
        assert sum(a.claim is not None for a in got) == 1

    async def test_dedupe_outlives_a_restart_and_a_week(self, store: Store, tmp_path: Path, clock: FakeClock) -> None:
        held = (await store.accept(make_item("m1", dedupe="tg:1"), claim=True)).claim
        assert held is not None
        await store.settle(held, Settlement("answered"))
        clock.jump(7 * 86_400)
        store = await self.reopen(store, tmp_path, clock)
        assert await store.accept(make_item("m2", dedupe="tg:1"), claim=True) == Acceptance("m1", True, "done")
        await store.close()

    # --- claim -------------------------------------------------------------------------------------------------

    async def test_claims_come_in_order_of_arrival(self, store: Store) -> None:
        for n, session in enumerate("abab"):
            await store.accept(make_item(f"m{n}", session), claim=False)
        first, second = await claim_one(store, "main"), await claim_one(store, "main")
        assert first is not None
        assert second is not None
        assert (first.id, second.id) == ("m0", "m1")
        assert await claim_one(store, "main") is None  # both sessions are busy
        await store.settle(second, Settlement("answered"))
        third = await claim_one(store, "main")
        assert third is not None
        assert third.id == "m3"

    async def test_claim_keeps_to_its_lane_and_to_what_the_node_serves(self, store: Store) -> None:
        await store.accept(make_item("m1", "agent:a:x"), claim=False)
        await store.accept(make_item("m2", "agent:b:x"), claim=False)
        assert await claim_one(store, "cron") is None
        assert await claim_one(store, "main", serves=()) is None
        assert await claim_one(store, "main", serves=("agent:c:", 'quote"s', "\N{SNOWMAN}", "gent:b:")) is None
        taken = await claim_one(store, "main", serves=("agent:b:", "agent:c:"))
        assert taken is not None
        assert taken.id == "m2"

    async def test_a_command_is_served_by_who_serves_its_session(self, store: Store) -> None:
        for session in ("control:agent:a:x", "control/m9:agent:a:x"):
            await store.accept(make_item(session, session, lane="control"), claim=False)
        assert await store.claim("control", 9, serves=("agent:b:", "control")) == []
        assert len(await store.claim("control", 9, serves=("agent:a:",))) == 2

    async def test_one_runs_per_session(self, store: Store) -> None:
        for n in range(20):
            await store.accept(make_item(f"m{n:02}", "a"), claim=False)
        got = [held for held in await asyncio.gather(*(claim_one(store, "main") for _ in range(10))) if held]
        assert [held.id for held in got] == ["m00"]

    async def test_waiting_lists_the_queue(self, store: Store) -> None:
        for n in range(3):
            await store.accept(make_item(f"m{n}"), claim=n == 0)
        assert [row.id for row in await store.list_waiting("agent:main:a")] == ["m1", "m2"]
        assert await store.list_waiting("agent:main:other") == []

    async def test_yield_back_keeps_the_place(self, store: Store) -> None:
        for n in range(2):
            await store.accept(make_item(f"m{n}"), claim=False)
        held = await claim_one(store, "main")
        assert held is not None
        await store.yield_back(held)
        again = await claim_one(store, "main")
        assert again is not None
        assert (again.id, again.attempts) == ("m0", 1)
        # the first holder has lost its right, although the count of attempts is the same
        for stale in (store.settle(held, Settlement("answered")), store.append(held, []), store.yield_back(held)):
            with pytest.raises(StaleClaim):
                await stale
        row = await store.item("m0")
        assert row is not None
        assert row.state == "running"

    # --- append and absorb -------------------------------------------------------------------------------------

    async def test_append_is_read_in_its_order(self, store: Store) -> None:
        held, other = await self.accept_and_claim(store), "agents/main/sessions/other.jsonl"
        await store.append(held, [make_line("e1"), make_line("e2")])
        await store.append(held, [make_line("e3"), make_line("x1", other)])
        assert await store.read_tail(FILE, 0) == b"".join(make_line(e).data + b"\n" for e in ("e1", "e2", "e3"))
        assert await store.read_tail(other, 0) == make_line("x1").data + b"\n"

    @pytest.mark.parametrize("path", ["../out.jsonl", "/etc/x", "a//b", "state.db", "gateway.lock", "a/../../b", ""])
    async def test_lines_stay_inside(self, store: Store, path: str) -> None:
        held = await self.accept_and_claim(store)
        with pytest.raises(StateError):
            await store.append(held, [make_line("e1", path)])

    async def test_absorbed_with_the_line_or_not_at_all(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        await store.accept(make_item("m2"), claim=False)
        await store.append(held, [make_line("e1")], absorb=["m2"])
        row = await store.item("m2")
        assert row is not None
        assert (row.state, row.absorbed_by) == ("absorbed", "m1")
        # m3 is still queued, m2 no longer: nothing of this may happen
        await store.accept(make_item("m3"), claim=False)
        with pytest.raises(StaleClaim):
            await store.append(held, [make_line("e2")], absorb=["m3", "m2"])
        assert [row.id for row in await store.list_waiting("agent:main:a")] == ["m3"]
        assert b"e2" not in await store.read_tail(FILE, 0)
        await store.settle(held, Settlement("answered"))
        after = await claim_one(store, "main")
        assert after is not None
        assert after.id == "m3"  # what was absorbed never runs by itself

    # --- settle ------------------------------------------------------------------------------------------------

    async def test_settle_is_all_of_it(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        row = SessionRow("agent:main:a", "main", "s", 5, data=b"{}")
        await store.settle(
            held,
            Settlement(
                "answered",
                "hi",
                (make_line("e1"),),
                (make_reply_part("r1"), make_reply_part("r2")),
                session=row,
                spent=(make_ledger_call("m1", 5),),
            ),
        )
        done = await store.item("m1")
        assert done is not None
        assert (done.state, done.outcome, done.note) == ("done", "answered", "hi")
        assert await store.read_tail(FILE, 0) == make_line("e1").data + b"\n"
        assert [p.id for p in await store.list_due_replies("fake", 9999)] == ["r1"]
        assert await store.session("agent:main:a") == row
        assert await store.list_usage(0) == [make_ledger_call("m1", 5)]

    async def test_touch_leaves_what_others_changed(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        old = SessionRow("agent:main:a", "main", "s", 5, data=b'{"sessionId":"s","level":"high","label":"x"}')
        await store.save_session(old)
        seen = SessionRow("agent:main:a", "main", "s", 9, data=b'{"sessionId":"s","tokens":7,"label":null}')
        await store.settle(held, Settlement("answered", touch=seen))
        row = await store.session("agent:main:a")
        assert row is not None and row.updated == 9
        assert json.loads(row.data) == {"sessionId": "s", "level": "high", "tokens": 7}

    async def test_touch_of_a_session_that_is_over_changes_nothing(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        new = SessionRow("agent:main:a", "main", "new", 6, data=b'{"sessionId":"new"}')
        await store.save_session(new)
        await store.settle(
            held, Settlement("answered", touch=SessionRow("agent:main:a", "main", "old", 9, data=b'{"x":1}'))
        )
        assert await store.session("agent:main:a") == new

    async def test_say_queues_while_the_run_goes_on_and_never_twice(self, store: Store) -> None:
        claim = (await store.accept(make_item("m1"), claim=True)).claim
        assert claim is not None
        await store.queue_replies(claim, [make_reply_part("m1.t1")])
        await store.queue_replies(
            claim, [make_reply_part("m1.t1"), make_reply_part("m1.t2")]
        )  # a resumed run says it again
        await store.settle(claim, Settlement("answered", replies=(make_reply_part("m1.t2"), make_reply_part("m1.0"))))
        seen = []
        while rows := await store.list_due_replies("fake", 5000):
            (row,) = rows
            seen.append(row.id)
            await store.mark_sending(row.id, 5000)
            await store.mark_delivered(row.id, "r", 5000)
        assert seen == ["m1.t1", "m1.t2", "m1.0"]
        with pytest.raises(StateError):
            await store.queue_replies(claim, [make_reply_part("m1.t3")])

    async def test_post_queues_what_no_run_says_and_never_twice(self, store: Store) -> None:
        await store.post_replies([make_reply_part("p1", of="p1"), make_reply_part("p2", of="p2")])
        await store.post_replies([make_reply_part("p1", of="p1")])
        seen = []
        while rows := await store.list_due_replies("fake", 5000):
            seen += [row.id for row in rows]
            for row in rows:
                await store.mark_sending(row.id, 5000)
                await store.mark_delivered(row.id, "r", 5000)
            await store.post_replies([make_reply_part("p1", of="p1")])
        assert seen == ["p1", "p2"] and await store.reply("p3") is None
        sent = await store.reply("p1")
        assert sent is not None and (sent.state, sent.receipt) == ("sent", "r")

    async def test_settle_happens_once(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        await store.settle(held, Settlement("answered", "first"))
        with pytest.raises(StaleClaim):
            await store.settle(held, Settlement("failed", "second", replies=(make_reply_part("r1"),)))
        with pytest.raises(StaleClaim):
            await store.append(held, [make_line("e1")])
        row = await store.item("m1")
        assert row is not None
        assert (row.outcome, row.note) == ("answered", "first")
        assert await store.list_due_replies("fake", 9999) == []

    async def test_a_settlement_that_fails_leaves_nothing(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        broken = msgspec.structs.replace(make_reply_part("r2"), channel=None)  # no store takes a reply to nowhere
        twice = Settlement(
            "answered", "hi", (make_line("e1"),), (make_reply_part("r1"), broken), spent=(make_ledger_call("m1", 5),)
        )
        other = store.accept(make_item("m9", "agent:main:z"), claim=True)
        failed, fine = await asyncio.gather(store.settle(held, twice), other, return_exceptions=True)
        assert isinstance(failed, StateError)
        assert isinstance(fine, Acceptance)  # a bad operation does not take its neighbours along
        row = await store.item("m1")
        assert row is not None
        assert row.state == "running"
        assert await store.list_due_replies("fake", 9999) == []
        assert await store.list_usage(0) == []
        assert await store.read_tail(FILE, 0) == b""
        await store.settle(held, Settlement("failed"))

    async def test_a_cancelled_caller_does_not_undo(self, store: Store) -> None:
        tasks = [asyncio.ensure_future(store.accept(make_item(f"m{n}", f"s{n}"), claim=False)) for n in range(5)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        got = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(g, asyncio.CancelledError) for g in got] == [False, False, True, False, False]
        await store.accept(make_item("last"), claim=False)
        assert await store.item("m2") is not None

    # --- recover -----------------------------------------------------------------------------------------------

    async def test_recover_queues_what_was_running(self, store: Store, tmp_path: Path, clock: FakeClock) -> None:
        for n in range(4):
            await store.accept(make_item(f"m{n}", f"s{n % 2}"), claim=True)
        store = await self.reopen(store, tmp_path, clock)
        found = await store.recover()
        assert [(row.id, row.attempts) for row in found] == [("m0", 1), ("m1", 1), ("m2", 0), ("m3", 0)]
        assert {row.state for row in found} == {"queued"}
        again = await claim_one(store, "main")
        assert again is not None
        assert (again.id, again.attempts) == ("m0", 2)
        await store.close()

    async def test_recover_returns_what_waits(self, store: Store) -> None:
        assert await store.recover() == []
        await store.accept(make_item("m1"), claim=False)
        assert [row.id for row in await store.recover()] == ["m1"]

    # --- item --------------------------------------------------------------------------------------------------

    async def test_item_by_unique_prefix(self, store: Store) -> None:
        for ident in ("abc1", "abc2", "abc"):
            await store.accept(make_item(ident, ident), claim=False)
        found = [await store.item(ident) for ident in ("abc", "abc1", "ab", "abc2", "x", "", "abc%")]
        assert [row and row.id for row in found] == ["abc", "abc1", None, "abc2", None, None, None]

    # --- helpers -----------------------------------------------------------------------------------------------

    async def accept_and_claim(self, store: Store, ident: str = "m1") -> RunClaim:
        """A message accepted and claimed."""
        claim = (await store.accept(make_item(ident), claim=True)).claim
        assert claim is not None
        return claim

    async def answer_with(self, store: Store, *parts: OutboxRow) -> None:
        """A message answered with these parts."""
        await store.settle(await self.accept_and_claim(store), Settlement("answered", replies=parts))
