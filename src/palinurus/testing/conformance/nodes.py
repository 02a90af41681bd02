"""What nodes that share a state need of its store: holds, fires, stops, news of each other. See `conformance/store.py`.

`share` gives a handle of one more node on an opened state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from palinurus.clock import SystemClock
from palinurus.store.news import StoreNews
from palinurus.store.port import (
    Dismissal,
    DismissedMessages,
    InboxItem,
    SessionFull,
    Settlement,
    SlotTaken,
    StaleClaim,
    Store,
)
from palinurus.store.shared import AccountLimit, NodeTurns, SpendingAnswer, SpendingWish
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import (
    FILE,
    InboxSuite,
    claim_one,
    make_item,
    make_line,
    make_reply_part,
)

SESSION = "agent:main:a"


class NodesSuite(InboxSuite):
    """Two nodes and one state."""

    async def share(self, store: Store) -> Store:
        raise NotImplementedError

    async def catch_up(self, *stores: Store) -> None:
        """What was changed before is news to these now; a store over a network says how."""

    @pytest.fixture
    async def other(self, store: Store) -> AsyncIterator[Store]:
        other = await self.share(store)
        await other.recover()
        yield other
        await other.close()

    # --- holds and fires ---------------------------------------------------------------------------------------

    async def test_of_a_session_that_is_held_nothing_is_claimed(self, store: Store, clock: FakeClock) -> None:
        await store.accept(make_item("m1", "a"), claim=False, hold=5.0)
        await store.accept(make_item("m2", "b"), claim=False)
        first = await claim_one(store)
        assert first is not None and first.id == "m2"
        assert await claim_one(store) is None
        await store.hold("a", 60.0)
        await clock.advance(30)
        assert await claim_one(store) is None
        await store.hold("a", 0)
        second = await claim_one(store)
        assert second is not None and second.id == "m1"

    async def test_a_hold_ends_by_itself(self, store: Store, clock: FakeClock) -> None:
        await store.accept(make_item("m1", "a"), claim=False, hold=5.0)
        await store.accept(make_item("m2", "a"), claim=False)  # which changes nothing about it
        assert await claim_one(store) is None
        await clock.advance(6)
        assert await claim_one(store) is not None

    async def test_one_that_is_claimed_at_once_holds_nothing(self, store: Store) -> None:
        held = (await store.accept(make_item("m1", "a"), claim=True, hold=60.0)).claim
        assert held is not None
        await store.yield_back(held)
        assert await claim_one(store) is not None

    async def test_a_fire_and_its_message_are_one_step(self, store: Store) -> None:
        def fire(ident: str, due: int, session: str = "agent:main:a", dedupe: str = "") -> InboxItem:
            return msgspec.structs.replace(make_item(ident, session, dedupe=dedupe), slot=("job", due))

        assert (await store.accept(fire("m1", 1000), claim=True)).claim is not None
        with pytest.raises(SlotTaken):
            await store.accept(fire("m2", 1000), claim=True)
        assert await store.item("m2") is None and not await store.claim_slot("job", 1000)
        assert (await store.accept(fire("m3", 1000, dedupe="fake:m1"), claim=True)).duplicate  # handed in again
        with pytest.raises(SessionFull):  # and if it is not taken, the fire is still to come
            await store.accept(fire("m4", 2000), claim=False, limit=0)
        assert not (await store.accept(fire("m5", 2000), claim=False)).duplicate

    # --- stops -------------------------------------------------------------------------------------------------

    async def test_a_stop_is_one_step_for_what_runs_and_what_waits(
        self, store: Store, tmp_path: Path, clock: FakeClock
    ) -> None:
        held = await self.accept_and_claim(store)
        await store.queue_replies(held, [make_reply_part("r1")])
        for ident, session in (("m2", SESSION), ("m3", SESSION), ("o1", "agent:main:other")):
            await store.accept(make_item(ident, session), claim=False)
        assert await store.stop(SESSION, "no", waiting="later", only=("m3", "o1")) == DismissedMessages(("m3",), ())
        assert await store.stop(SESSION, "no") == DismissedMessages((), ("m1",))
        assert await store.stop(SESSION, "no", waiting="later", silent=True) == DismissedMessages(("m2",), ("m1",))
        assert await store.stop("agent:main:nobody", "no", waiting="later") == DismissedMessages()
        assert await store.list_due_replies("fake", 9999) == []
        store = await self.reopen(store, tmp_path, clock)
        try:
            assert [row.id for row in await store.recover()] == ["o1"]
            rows = [await store.item(ident) for ident in ("m1", "m2", "m3")]
            assert [(r.state, r.outcome) for r in rows if r is not None] == [("done", "aborted")] * 3
            assert [r.note for r in rows if r is not None] == ["no", "later", "later"]
        finally:
            await store.close()

    async def test_a_stop_finds_the_run_of_another_node(self, store: Store, other: Store) -> None:
        heard: list[StoreNews] = []
        store.watch(heard.append)
        held = await self.accept_and_claim(store)
        await other.accept(make_item("m2"), claim=True)
        assert await other.stop(SESSION, "no", waiting="no") == DismissedMessages(("m2",), ("m1",))
        await store.settle(held, Settlement("answered", "all of it"))
        row = await other.item("m1")
        assert row is not None and (row.outcome, row.note) == ("aborted", "no")
        await self.catch_up(store)
        assert StoreNews("stopped", "m1", SESSION, "no") in heard and StoreNews("ended", "m2", SESSION, "main") in heard

    # --- news --------------------------------------------------------------------------------------------------

    async def test_a_node_hears_of_what_others_do_and_not_of_itself(self, store: Store, other: Store) -> None:
        own: list[StoreNews] = []
        heard: list[StoreNews] = []
        store.watch(own.append)
        end = other.watch(heard.append)
        held = await self.accept_and_claim(store)
        for ident in ("m2", "m3"):
            await store.accept(make_item(ident), claim=False)
        await store.append(held, [make_line("e1")], absorb=["m2"])
        await store.settle(held, Settlement("answered", replies=(make_reply_part("r1"),)))
        (again,) = await store.claim("main")
        await store.yield_back(again)
        await store.put_record("device", "d1", b"1")
        await self.catch_up(store, other)
        told = [(news.what, news.key, news.detail) for news in heard]
        assert told == [
            ("queued", "m2", "main"),
            ("queued", "m3", "main"),
            ("absorbed", "m2", "m1"),
            ("ended", "m1", "main"),
            ("replies", "fake", ""),
            ("taken", "m3", ""),
            ("queued", "m3", "main"),
            ("record", "device", "d1"),
        ]
        assert own == [] and {news.session for news in heard[:6]} == {SESSION, ""}
        end()
        await store.put_record("device", "d1", None)
        await self.catch_up(store, other)
        assert len(heard) == len(told)

    async def test_what_failed_is_no_news(self, store: Store, other: Store) -> None:
        heard: list[StoreNews] = []
        other.watch(heard.append)
        held = await self.accept_and_claim(store)
        with pytest.raises(StaleClaim):
            await store.append(held, [make_line("e1")], absorb=["nobody"])
        assert await store.dismiss([Dismissal("nobody", "aborted", "no")]) == DismissedMessages()
        assert not await store.put_record("device", "d1", b"2", expect=b"1")
        await self.catch_up(other)
        assert heard == []

    # --- who does what -----------------------------------------------------------------------------------------

    async def test_what_another_node_runs_is_left_to_it(self, store: Store, other: Store) -> None:
        held = (await other.accept(make_item("m1"), claim=True)).claim
        assert held is not None
        assert await store.list_running() == [] and [row.id for row in await other.list_running()] == ["m1"]
        third = await self.share(store)
        assert await third.recover() == []
        await third.close()
        await other.append(held, [make_line("e1")])  # it still runs
        assert (await store.accept(make_item("m2"), claim=True)).claim is None
        assert await claim_one(store) is None
        await other.settle(held, Settlement("answered"))
        assert await claim_one(store) is not None

    async def test_a_command_is_for_the_node_that_runs_its_conversation(self, store: Store, other: Store) -> None:
        held = (await other.accept(make_item("m1", SESSION), claim=True)).claim
        assert held is not None
        asked, stop = f"control:{SESSION}", f"control/stop/c2:{SESSION}"
        assert (await store.accept(make_item("c1", asked, lane="control"), claim=True)).claim is None
        assert (await store.accept(make_item("c2", stop, lane="control"), claim=True)).claim is not None
        assert (await store.accept(make_item("c3", "control:agent:b", lane="control"), claim=True)).claim is not None
        assert await claim_one(store, "control") is None
        taken = await claim_one(other, "control")
        assert taken is not None and taken.id == "c1"
        await store.accept(make_item("c4", f"control/c4:{SESSION}", lane="control"), claim=True)
        assert await claim_one(store, "control") is None
        await other.settle(held, Settlement("answered"))
        assert await claim_one(store, "control", serves=("agent:x:",)) is None
        free = await claim_one(store, "control", serves=(SESSION[:-1],))
        assert free is not None and free.id == "c4"

    async def test_what_is_granted_to_one_is_granted_to_no_other_until_that_is_gone(self, store: Store) -> None:
        heard: list[StoreNews] = []
        other, third = await self.share(store), await self.share(store)
        third.watch(heard.append)
        assert await other.grant("clock") and await other.grant("clock")
        assert not await third.grant("clock") and await third.grant("channel/x") and not await store.grant("clock")
        await other.close()
        await self.catch_up(third)
        assert StoreNews("released", "clock") in heard
        assert await third.grant("clock") and not await store.grant("clock")
        assert not await store.grant("new", alone=True)
        await third.close()
        assert await store.grant("clock") and await store.grant("new", alone=True)

    async def test_what_was_given_up_is_free_and_others_hear_of_it(self, store: Store, other: Store) -> None:
        heard: list[StoreNews] = []
        other.watch(heard.append)
        assert await store.grant("x") and not await other.grant("x")
        await other.give_up("x")  # it is not its own
        assert not await other.grant("x")
        await store.give_up("x")
        await self.catch_up(other)
        assert StoreNews("released", "x") in heard and await other.grant("x") and not await store.grant("x")

    async def test_turns_are_taken_one_after_the_other_by_tasks_of_all_nodes(self, store: Store, other: Store) -> None:
        """As tokens are renewed that hold once: each reads what is there, and writes what comes of it."""
        turns = [NodeTurns(node, SystemClock()) for node in (store, other)]
        inside = 0

        async def renew(number: int) -> None:
            nonlocal inside
            node = (store, other)[number % 2]
            async with turns[number % 2].take("refresh/fake"):
                inside += 1
                found = await node.get_record("token", "fake")
                await asyncio.sleep(0)
                assert inside == 1
                count = int(found.data) if found is not None else 0
                await node.put_record("token", "fake", str(count + 1).encode())
                inside -= 1

        async with asyncio.timeout(120):
            await asyncio.gather(*map(renew, range(8)))
        found = await store.get_record("token", "fake")
        assert found is not None and found.data == b"8"

    async def test_a_part_is_sent_by_the_first_who_says_so(self, store: Store, other: Store) -> None:
        held = await self.accept_and_claim(store)
        await store.settle(held, Settlement("answered", replies=(make_reply_part("r1"),)))
        assert (await store.mark_sending("r1", 1, attempts=0)).attempts == 1
        with pytest.raises(StaleClaim):
            await other.mark_sending("r1", 1, attempts=0)
        assert (await other.mark_sending("r1", 1, attempts=1)).attempts == 2  # who knows that it was tried

    async def test_the_rest_of_a_transcript(self, store: Store, other: Store) -> None:
        assert await store.read_tail(FILE, 0) == b""
        held = await self.accept_and_claim(store)
        await store.append(held, [make_line("e1")])
        first = await other.read_tail(FILE, 0)
        assert first == make_line("e1").data + b"\n"
        await store.append(held, [make_line("e2"), make_line("e3")])
        assert await other.read_tail(FILE, len(first)) == b"".join(make_line(e).data + b"\n" for e in ("e2", "e3"))
        assert await other.read_tail(FILE, 3 * len(first)) == b"" == await other.read_tail(FILE, 10**6)

    async def test_what_is_kept_back_for_a_call_is_so_for_all_nodes(self, store: Store, other: Store) -> None:
        def wish(ident: str, likely: float, most: float, first: float = 0.0) -> SpendingWish:
            day = AccountLimit(name="day", usd=first, tokens=0.0, hard_usd=10.0)
            session = AccountLimit(name="s1", usd=0.0, tokens=0.0, hard_tokens=1000.0)
            return SpendingWish(ident, (day, session), (likely, most), (1.0, 2.0))

        first = await store.reserve(wish("r1", 1.0, 4.0, first=3.0))
        store.release("nobody", ["day"], 0.0, 0.0)
        if first is None:
            return  # a store of one node
        assert first == SpendingAnswer("yes", ((3.0, 0.0), (0.0, 0.0)))
        assert (await other.reserve(wish("r2", 1.0, 4.0, first=99.0))) == SpendingAnswer("wait", first.spent)
        assert (await other.reserve(wish("r3", 8.0, 9.0))) == SpendingAnswer("no", first.spent, 0)
        assert (await other.reserve(wish("r2", 1.0, 2.0))) == SpendingAnswer("yes", first.spent)
        store.release("r1", ["day", "s1"], 2.5, 20.0)
        other.release("r2", ["day", "s1"], 0.5, 1.0)
        await store.put_record("x", "y", b"1")
        await other.put_record("x", "y", b"1")
        third, after = await self.share(store), ((6.0, 21.0), (3.0, 21.0))
        assert (await third.reserve(wish("r4", 1.0, 4.0))) == SpendingAnswer("yes", after)
        assert (await store.reserve(wish("r5", 1.0, 4.0))) == SpendingAnswer("wait", after)
        await third.close()  # what it kept back is free
        assert (await store.reserve(wish("r5", 1.0, 4.0))) == SpendingAnswer("yes", after)

    async def test_who_is_there(self, store: Store, other: Store) -> None:
        there = await store.list_nodes()
        assert there == [] if not store.node else {store.node, other.node} <= set(there)
        await other.close()
        assert not store.node or (await store.list_nodes()).count(other.node) == 0

    async def test_bytes_of_one_node_are_had_by_the_other(self, store: Store, other: Store) -> None:
        data = bytes(range(256)) * 1000
        await store.put_blob("1-a.png", data)
        await store.put_blob("1-a.png", b"once")
        assert await other.get_blob("1-a.png") in (data, None)  # None: one node alone keeps its files itself
        assert await other.get_blob("nobody") is None

    async def test_nodes_hear_each_other_in_order_whatever_the_size(self, store: Store, other: Store) -> None:
        mine, theirs = await store.open_bus(), await other.open_bus()
        if mine is None or theirs is None:
            return  # a store of one node: nobody to talk to
        heard: list[tuple[int, str]] = []
        sizes, ready, all_there = (1, 5_000, 5_000, 9_000, 300_000, 2), asyncio.Event(), asyncio.Event()

        def hear(node: str, said: bytes) -> None:
            heard.append(msgspec.json.decode(said, type=tuple[int, str]))
            if len(heard) == len(sizes):
                all_there.set()

        theirs.listen(hear, ready.set)
        async with asyncio.timeout(60):
            await ready.wait()
            for n, size in enumerate(sizes):
                mine.send(msgspec.json.encode((n, "\0é" * size)))
            await all_there.wait()
        assert heard == [(n, "\0é" * size) for n, size in enumerate(sizes)]
        await mine.close()
        await theirs.close()

    async def test_a_node_that_leaves_closes_nothing_for_the_others(self, store: Store) -> None:
        other = await self.share(store)
        async with asyncio.timeout(60):  # both are certainly there still
            await store.confirm()
            await other.confirm()
        await other.close()
        await other.close()
        assert (await store.accept(make_item("m1"), claim=True)).claim is not None
