"""What every Store must do, as tests. A test file names its implementation:

    class TestMine(StoreSuite):
        async def open(self, home, clock): return await open_mine(home, clock)
        async def share(self, store): return store.one_more_node()

`home` names the state: opening it again after `close()` must show the same. Needs pytest with pytest-asyncio (auto).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from palinurus.store.factory import StateReader
from palinurus.store.port import (
    Dismissal,
    DismissedMessages,
    SessionFull,
    SessionRow,
    Settlement,
    StaleClaim,
    Store,
    TraceStep,
)
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import (
    FILE,
    claim_one,
    make_item,
    make_ledger_call,
    make_line,
    make_reply_part,
)
from palinurus.testing.conformance.nodes import NodesSuite


class StoreSuite(NodesSuite):
    """The whole port. Subclass it, name it Test…, give it `open` and `share`."""

    async def test_parts_of_a_target_keep_their_order(self, store: Store) -> None:
        await self.answer_with(
            store,
            make_reply_part("r1"),
            make_reply_part("r2"),
            make_reply_part("r3", target="other"),
            make_reply_part("r4", channel="else"),
        )
        assert [p.id for p in await store.list_due_replies("fake", 9999)] == ["r1", "r3"]
        sent = await store.mark_sending("r1", 2000)
        assert (sent.state, sent.attempts, sent.data) == ("sending", 1, b"reply r1")
        assert [(p.id, p.state) for p in await store.list_due_replies("fake", 9999)] == [
            ("r1", "sending"),
            ("r3", "pending"),
        ]
        await store.mark_delivered("r1", "55", 2001)
        assert [p.id for p in await store.list_due_replies("fake", 9999)] == ["r2", "r3"]
        assert [p.id for p in await store.list_due_replies("else", 9999)] == ["r4"]

    async def test_a_failed_part_holds_the_later_ones_until_it_is_given_up(self, store: Store) -> None:
        await self.answer_with(store, make_reply_part("r1"), make_reply_part("r2"))
        await store.mark_sending("r1", 2000)
        await store.mark_undelivered("r1", "429", due=5000)
        assert await store.list_due_replies("fake", 4999) == []
        first = (await store.list_due_replies("fake", 5000))[0]
        assert (first.id, first.state, first.attempts, first.error) == ("r1", "pending", 1, "429")
        assert (await store.mark_sending("r1", 5000)).attempts == 2
        await store.mark_undelivered("r1", "blocked", due=None)
        assert [p.id for p in await store.list_due_replies("fake", 5000)] == ["r2"]

    async def test_a_part_is_sent_once(self, store: Store) -> None:
        await self.answer_with(store, make_reply_part("r1"))
        await store.mark_sending("r1", 2000)
        await store.mark_delivered("r1", "55", 2001)
        for late in (
            store.mark_sending("r1", 1),
            store.mark_delivered("r1", "56", 1),
            store.mark_undelivered("r1", "x", 1),
            store.mark_sending("no such", 1),
        ):
            with pytest.raises(StaleClaim):
                await late

    async def test_small_records_are_replaced_only_by_who_knows_them(
        self, store: Store, tmp_path: Path, clock: FakeClock
    ) -> None:
        assert await store.put_record("job", "b", b"1", expect=None)
        assert await store.put_record("job", "a", b"2")
        assert await store.put_record("other", "b", b"9")
        assert not await store.put_record("job", "b", b"3", expect=None)
        won = await asyncio.gather(*(store.put_record("job", "b", b"new%d" % n, expect=b"1") for n in range(5)))
        assert won.count(True) == 1
        assert [(k.key, k.data) for k in await store.list_records("job")] == [("a", b"2"), ("b", b"new0")]
        assert await store.put_record("job", "b", None, expect=b"new0")
        assert await store.get_record("job", "b") is None
        assert not await store.put_record("job", "b", b"x", expect=b"new0")
        again = await self.reopen(store, tmp_path, clock)
        found = await again.get_record("job", "a")
        assert found is not None and found.data == b"2"
        await again.close()

    async def test_what_was_being_sent_is_uncertain_after_a_restart(
        self, store: Store, tmp_path: Path, clock: FakeClock
    ) -> None:
        await self.answer_with(store, make_reply_part("r1"), make_reply_part("r2"))
        await store.mark_sending("r1", 2000)
        store = await self.reopen(store, tmp_path, clock)
        await store.recover()
        assert [(p.id, p.state, p.attempts) for p in await store.list_due_replies("fake", 9999)] == [
            ("r1", "sending", 1)
        ]
        await store.close()

    async def test_sessions(self, store: Store, tmp_path: Path, clock: FakeClock) -> None:
        rows = [SessionRow(f"agent:{a}:{n}", a, f"s{n}", n, data=b"{}") for n, a in enumerate(("x", "y", "x"))]
        for row in rows:
            await store.save_session(row)
        assert await store.sessions() == rows[::-1]
        assert await store.sessions("x") == [rows[2], rows[0]]
        newer = SessionRow(rows[0].key, "x", "other", 9, data=b'{"a":1}')
        await store.save_session(newer)
        await store.drop_session(rows[2].key)
        store = await self.reopen(store, tmp_path, clock)
        assert await store.sessions("x") == [newer]
        assert await store.session(rows[2].key) is None
        await store.close()

    async def test_a_slot_fires_once(self, store: Store, tmp_path: Path, clock: FakeClock) -> None:
        got = await asyncio.gather(*(store.claim_slot("job", 1000) for _ in range(5)))
        assert sorted(got) == [False] * 4 + [True]
        assert await store.claim_slot("job", 2000)
        assert await store.claim_slot("other", 1000)
        store = await self.reopen(store, tmp_path, clock)
        assert not await store.claim_slot("job", 1000)
        await store.close()

    async def test_the_ledger(self, store: Store) -> None:
        calls = (
            make_ledger_call("m1", 30),
            make_ledger_call("m1", 10, cost=None),
            make_ledger_call("m1", 20, "agent:main:b"),
        )
        await store.settle(await self.accept_and_claim(store), Settlement("answered", spent=calls))
        assert [line.at for line in await store.list_usage(0)] == [10, 20, 30]
        assert await store.list_usage(20, "agent:main:a") == [calls[0]]
        assert (await store.list_usage(0))[0].cost is None

    async def test_the_trace_tells_it_all(self, store: Store, clock: FakeClock) -> None:
        held = await self.accept_and_claim(store)
        await store.accept(make_item("m2"), claim=False)
        now = clock.now()
        await store.append(held, [make_line("e1")], absorb=["m2"], steps=[TraceStep("m1", now, "tool", "read a.txt")])
        await store.settle(
            held,
            Settlement(
                "answered",
                replies=(make_reply_part("r1"), make_reply_part("r2")),
                spent=(make_ledger_call("m1", now),),
                steps=(TraceStep("m1", now, "card", "{}"),),
            ),
        )
        await store.mark_sending("r1", clock.now())
        await store.mark_delivered("r1", "receipt-55", clock.now())
        await store.mark_sending("r2", clock.now())
        steps = await store.trace("m1")
        told = [step.what for step in steps if step.what != "model"]
        assert told[:5] == ["accepted", "claimed", "tool", "card", "settled"]
        assert told[5:] == ["reply queued", "reply queued", "sending", "sent", "sending", "uncertain"]
        assert any("receipt-55" in step.detail for step in steps)
        assert any(step.what == "model" and "fake/model" in step.detail for step in steps)
        assert [step.what for step in await store.trace("m2")] == ["accepted", "absorbed"]
        assert await store.trace("nothing") == []

    async def test_the_trace_tells_of_what_went_wrong(self, store: Store) -> None:
        await store.yield_back(await self.accept_and_claim(store))
        await store.claim("main")
        await store.requeue(["m1"])
        (held,) = await store.claim("main")
        await store.settle(held, Settlement("answered", replies=(make_reply_part("r1"),)))
        for error, due in (("no route", 5), ("no such chat", None)):
            await store.mark_sending("r1", 2000)
            await store.mark_undelivered("r1", error, due)
        told = [(step.what, step.detail) for step in await store.trace("m1")]
        assert [what for what, _ in told] == [
            *("accepted", "claimed", "yielded", "claimed", "nobody ran it", "claimed", "settled", "reply queued"),
            *("sending", "not sent", "sending", "failed"),
        ]
        assert [detail for what, detail in told if what in ("yielded", "nobody ran it")] == ["", "attempt 1"]
        assert "no route" in dict(told)["not sent"] and "no such chat" in dict(told)["failed"]

    async def test_what_is_dismissed_never_comes_back(self, store: Store, tmp_path: Path, clock: FakeClock) -> None:
        """What waits is done at once; what runs ends so, whether its run ends, is handed back, or dies."""
        held = await self.accept_and_claim(store)
        for name in ("m2", "m3"):
            await store.accept(make_item(name), claim=False)
        for name in ("n", "o"):
            await store.accept(make_item(name, session=f"agent:main:{name}"), claim=True)
        done = await store.dismiss(
            [Dismissal(name, "aborted", "stopped") for name in ("m1", "m2", "n", "o", "nobody")]
            + [Dismissal("m3", "refused", "too many", (make_reply_part("r3", of="m3"),))]
        )
        assert done == DismissedMessages(("m2", "m3"), ("m1", "n", "o"))
        assert [p.id for p in await store.list_due_replies("fake", 9999)] == ["r3"]
        late = (make_reply_part("r1", target="another"),)  # nothing waits before it
        await store.settle(held, Settlement("answered", "all of it", (make_line("e1"),), late))
        assert await store.requeue(["n", "m1"]) == []
        assert await store.dismiss([Dismissal("m1", "aborted", "again")]) == DismissedMessages()
        again = await self.reopen(store, tmp_path, clock)
        try:
            assert await again.recover() == []
            rows = [await again.item(name) for name in ("m1", "m2", "m3", "n", "o")]
            ends = [(r.state, r.outcome, r.note) for r in rows if r is not None]
            stopped = ("done", "aborted", "stopped")
            assert ends == [stopped, stopped, ("done", "refused", "too many"), stopped, stopped]
            assert [p.id for p in await again.list_due_replies("fake", 9999)] == ["r3"]
        finally:
            await again.close()

    async def test_what_a_stopped_run_has_not_sent_is_never_sent(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        await store.queue_replies(held, [make_reply_part("r1"), make_reply_part("r2")])
        await store.mark_sending("r1", 2000)
        await store.dismiss([Dismissal("m1", "aborted", "stopped", silent=True)])
        assert [p.id for p in await store.list_due_replies("fake", 9999)] == ["r1"]  # nobody knows
        with pytest.raises(StaleClaim):
            await store.mark_sending("r2", 2001)
        await store.queue_replies(held, [make_reply_part("r3", target="another")])  # it has not heard of it yet
        assert [p.id for p in await store.list_due_replies("fake", 9999)] == ["r1"]

    async def test_a_running_row_that_nobody_runs_waits_again_in_its_place(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        await store.accept(make_item("m2"), claim=False)
        assert [row.id for row in await store.list_running()] == ["m1"]
        assert [row.id for row in await store.requeue(["m1", "m2", "nobody"])] == ["m1", "m2"]
        assert await store.list_running() == []
        after = await claim_one(store, "main")
        assert after is not None and (after.id, after.attempts) == ("m1", 2)
        with pytest.raises(StaleClaim):
            await store.settle(held, Settlement("answered"))

    async def test_only_so_many_wait_in_a_session_whoever_puts_them_in(self, store: Store) -> None:
        await self.accept_and_claim(store)  # one that runs does not wait
        taken = await asyncio.gather(
            *(store.accept(make_item(f"w{n}"), claim=False, limit=3) for n in range(6)), return_exceptions=True
        )
        assert [isinstance(one, SessionFull) for one in taken] == [False] * 3 + [True] * 3
        assert [row.id for row in await store.list_waiting("agent:main:a")] == ["w0", "w1", "w2"]
        assert (await store.accept(make_item("w0"), claim=False, limit=1)).duplicate  # that is no news
        assert not (await store.accept(make_item("o", session="agent:main:o"), claim=True, limit=0)).duplicate

    async def test_those_that_wait_can_change_places(self, store: Store) -> None:
        for n in range(5):
            await store.accept(make_item(f"m{n}"), claim=n == 0)
        await store.accept(make_item("other", "agent:main:b"), claim=False)
        # m0 runs and another session's is not touched; who is not named keeps its place
        order = ["m4", "m2", "m3", "m1"]
        assert await store.rearrange("agent:main:a", ["m4", "m0", "other", "m1", "gone", "m4"]) == order
        assert [row.id for row in await store.list_waiting("agent:main:a")] == order
        assert [row.id for row in await store.list_waiting("agent:main:b")] == ["other"]
        held = await store.item("m0")
        assert held is not None and held.state == "running"
        assert await store.rearrange("agent:main:a", []) == order
        await store.stop("agent:main:a", "off", waiting="off", only=["m2"])
        left = [row.id for row in await store.recover() if row.id.startswith("m") and row.id != "m0"]
        assert left == ["m4", "m3", "m1"]  # so it is after a crash, too

    async def test_several_are_claimed_at_once_but_one_of_each_session(self, store: Store) -> None:
        for name in ("a1", "a2", "b1", "c1", "b2"):
            await store.accept(make_item(name, session=f"agent:main:{name[0]}"), claim=False)
        assert [held.id for held in await store.claim("main", 2)] == ["a1", "b1"]
        assert [held.id for held in await store.claim("main", 9, serves=("agent:main:a",))] == []
        (last,) = await store.claim("main", 9)
        assert last.id == "c1" and await store.claim("main", 9) == []

    async def test_two_who_claim_at_once_never_get_two_of_one_session(self, store: Store) -> None:
        for n in range(12):
            await store.accept(make_item(f"m{n}", session=f"agent:main:{n % 4}"), claim=False)
        got = [one for some in await asyncio.gather(*(store.claim("main", 3) for _ in range(6))) for one in some]
        assert sorted(one.id for one in got) == ["m0", "m1", "m2", "m3"]

    async def test_a_session_is_begun_once_and_replaced_only_by_who_knows_it(self, store: Store) -> None:
        rows = [SessionRow("agent:main:s", "main", f"s{n}", n, data=b'{"n":%d}' % n) for n in range(5)]
        won = await asyncio.gather(*(store.save_session(row, expect=None) for row in rows))
        assert won == [True, False, False, False, False]
        assert not await store.save_session(rows[1], expect=rows[2].data)
        assert await store.save_session(rows[1], expect=rows[0].data) and await store.save_session(rows[2])
        assert await store.session("agent:main:s") == rows[2]

    async def test_a_session_that_was_deleted_does_not_come_back_with_the_end_of_its_run(self, store: Store) -> None:
        row = SessionRow("agent:main:a", "main", "s", 1, data=b'{"sessionId":"s"}')
        await store.save_session(row)
        held = await self.accept_and_claim(store)
        await store.drop_session(row.key)
        await store.settle(held, Settlement("answered", touch=row))
        await store.touch(row)
        assert await store.session(row.key) is None

    async def test_lines_of_no_run_wait_for_the_run(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        with pytest.raises(StaleClaim):
            await store.write([make_line("e1")], idle="agent:main:a")
        await store.settle(held, Settlement("answered"))
        await store.write([make_line("e2")], idle="agent:main:a")
        assert await store.read_tail(FILE, 0) == make_line("e2").data + b"\n"

    async def test_what_lines_cost_is_in_the_ledger_with_them_or_not_at_all(self, store: Store) -> None:
        held = await self.accept_and_claim(store)
        await store.append(held, [make_line("e1")], spent=[make_ledger_call("m1", 5), make_ledger_call("m1", 6)])
        assert [line.at for line in await store.list_usage(0)] == [5, 6]
        await store.yield_back(held)  # the attempt is over, what it cost is not
        with pytest.raises(StaleClaim):
            await store.append(held, [make_line("e2")], spent=[make_ledger_call("m1", 7)])
        assert [line.at for line in await store.list_usage(0)] == [5, 6]

    async def test_a_message_is_found_by_what_identifies_it(self, store: Store) -> None:
        await store.accept(make_item("m1", dedupe="telegram:1:7"), claim=False)
        found = await store.find("telegram:1:7")
        assert found is not None and found == await store.item("m1")
        assert await store.find("telegram:1:") is None and await store.find("m1") is None

    async def test_a_file_that_is_whole_has_every_line(self, store: Store) -> None:
        await store.write([make_line("e1"), make_line("x", "agents/main/sessions/x.jsonl")])
        await store.complete_file(FILE)
        await store.complete_file("agents/main/sessions/nobody.jsonl")
        await store.write([make_line("e2")])
        assert await store.read_tail(FILE, 0) == b"".join(make_line(e).data + b"\n" for e in ("e1", "e2"))

    async def test_what_ended_long_ago_is_forgotten_and_nothing_else(self, store: Store, clock: FakeClock) -> None:
        old = await self.accept_and_claim(store, "old")
        await store.settle(old, Settlement("answered", replies=(make_reply_part("r", of="old"),)))
        await store.accept(make_item("open", "agent:main:open"), claim=True)
        await store.accept(make_item("waits", "agent:main:waits"), claim=False)
        before = clock.now() + 1
        assert await store.claim_slot("job", 1000)
        await clock.advance(60)
        await store.settle(await self.accept_and_claim(store, "late"), Settlement("answered"))
        while await store.prune(before):
            pass
        assert await store.item("old") is None and await store.find("fake:old") is None
        left = [await store.item(ident) for ident in ("open", "waits", "late")]
        assert [row.state for row in left if row is not None] == ["running", "queued", "done"]
        assert [part.id for part in await store.list_due_replies("fake", 9999)] == ["r"]  # it is still to be sent
        assert await store.claim_slot("job", 1000)  # and nobody asks for a fire that old
        assert not (await store.accept(make_item("old", "agent:main:old"), claim=False)).duplicate


class ReaderSuite(StoreSuite):
    """And who looks from outside: give it `look` too."""

    def look(self, home: str) -> StateReader:
        raise NotImplementedError

    async def test_who_looks_from_outside_sees_what_is_committed(self, store: Store, tmp_path: Path) -> None:
        with self.look(str(tmp_path / "home")) as reader:
            assert reader.items() == [] == reader.sessions() and reader.item("m1") is None
            held = await self.accept_and_claim(store)
            await store.accept(make_item("m2"), claim=False)
            row = SessionRow("agent:main:a", "main", "s", 1, data=b"{}")
            await store.put_record("device", "d1", b"1")
            parts, spent = (make_reply_part("r1"), make_reply_part("r2")), (make_ledger_call("m1", 5),)
            await store.settle(held, Settlement("answered", "hi", (), parts, session=row, spent=spent))
            await store.mark_sending("r1", 1)
            await store.mark_delivered("r1", "receipt", 2)
            assert [r.id for r in reader.items()] == ["m2", "m1"]
            assert [r.id for r in reader.items(limit=1)] == ["m2"] and reader.items(session="agent:main:b") == []
            assert [r.id for r in reader.items(session="agent:main:a", state="done")] == ["m1"]
            assert reader.session(row.key) == row and reader.sessions("main") == [row] and reader.sessions("x") == []
            assert reader.list_usage() == [*spent] and reader.list_usage(6) == [] == reader.list_usage(0, "s")
            assert [(r.id, r.state) for r in reader.replies("m1")] == [("r1", "sent"), ("r2", "pending")]
            assert reader.item("m1") == await store.item("m1")
            assert reader.trace("m1") == await store.trace("m1")
            assert reader.list_records("device") == await store.list_records("device") != []
            assert reader.integrity() == []
            assert reader.read_lines("agents/main/sessions/none.jsonl", 9) == b""
