"""A reply of which nobody knows whether it arrived: looked for, sent once more at most; and how old rows are."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outbox.test_deliver import CLOCK, OTHER, Picky, World, reply, world
from palinurus.clock import Clock
from palinurus.core.speech import SpokenText
from palinurus.core.types.channel import ChannelStatus, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import DiskFull
from palinurus.outbox import send
from palinurus.outbox.deliver import ALONE, AT_ONCE, LOST_TEXT, Deliverer, DeliveryAids, _Worker
from palinurus.outbox.send import RowTimes
from palinurus.plugins.hooks import Hooks
from palinurus.store.port import OutboxRow, StaleClaim
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from palinurus.testing.slowstore import share_store


class Cutting(FakeChannel):
    """The connection is cut `cuts` times while it sends; what it was doing was done if `arrives`."""

    def __init__(self, cuts: int, *, arrives: bool, **more: Any) -> None:
        super().__init__(**more)
        self.cuts, self.arrives, self.looked = cuts, arrives, 0

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        if self.cuts:
            self.cuts -= 1
            if self.arrives:
                await super().send(reply)
            else:
                self.sends.append(reply)
            return SendFailure("cut", "cut", 0.01)
        return await super().send(reply)

    async def find(self, reply: Reply) -> SendReceipt | None:
        self.looked += 1
        return await super().find(reply)


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_cut_one_is_looked_for_and_only_sent_again_if_it_is_not_there(tmp_path: Path, arrives: bool) -> None:
    channel = Cutting(1, arrives=arrives, finds=True)
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"))
        trace = await w.settled(1)
    assert channel.texts == ["hello"] and channel.looked >= 1
    assert len(channel.sends) == (1 if arrives else 2)
    assert [what for what, _ in trace].count("sent") == 1


async def test_without_a_way_to_look_it_is_sent_once_more_and_never_a_third_time(tmp_path: Path) -> None:
    channel = Cutting(4, arrives=True, finds=False, dedupes=False)
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"), reply("other", "2", OTHER))
        async with asyncio.timeout(60):
            while [what for what, _ in await w.trace()].count("sent") < 2:
                await asyncio.sleep(0.005)
        trace = await w.trace()
    assert sorted(channel.texts) == ["hello", "hello", "other", "other", LOST_TEXT, LOST_TEXT]
    assert all("not known whether it arrived" in detail for what, detail in trace if what == "failed")


async def test_where_repeats_are_dropped_it_is_sent_until_it_is_known(tmp_path: Path) -> None:
    channel = Cutting(3, arrives=True, finds=False, dedupes=True)
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"))
        trace = await w.settled(1)
    assert channel.texts == ["hello"] and [what for what, _ in trace].count("sending") == 4


# --- what the store does not take


class Forgetful:
    """A store that fails to take a receipt, so often."""

    def __init__(self, inner: Any, fails: int) -> None:
        self._inner, self.fails = inner, fails

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def mark_delivered(self, *args: Any) -> None:
        if self.fails:
            self.fails -= 1
            raise DiskFull("full")
        await self._inner.mark_delivered(*args)


async def test_a_receipt_that_could_not_be_written_is_not_a_reason_to_send_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    channel = FakeChannel(finds=False)
    async with world(tmp_path, channel, start=False) as w:
        store: Any = Forgetful(w.store, 2)
        deliverer = Deliverer(store, {"fake": channel}, Hooks(), CLOCK)
        deliverer.start()
        with caplog.at_level(logging.ERROR):
            await w.say(reply("hello", "1"))
            async with asyncio.timeout(60):
                while store.fails:
                    deliverer.wake("fake")
                    await asyncio.sleep(0.01)
        deliverer.wake("fake")
        await w.settled(1)
        await deliverer.stop()
    assert channel.texts == ["hello"] and "full" in caplog.text


async def test_a_row_that_nobody_can_read_is_given_up_and_holds_nobody(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with world(tmp_path, channel) as w:
        bad = OutboxRow("bad", "item", "fake", "default/chat/", b"not json", CLOCK.now())
        await w.store.queue_replies(w.claim, [bad])
        await w.say(reply("good", "1"))
        trace = await w.settled(2)
    assert channel.texts == ["good"]
    assert next(detail for what, detail in trace if what == "failed").count("cannot be read") == 1


async def test_who_is_signed_out_waits_until_somebody_signs_in(tmp_path: Path) -> None:
    answers = [SendFailure("who are you?", "signed_out", 0.01)]
    channel = Picky(lambda r: answers.pop() if answers else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"))
        await w.settled(1)
    assert channel.texts == ["hello"] and len(channel.sends) == 2


class Nameless(Picky):
    """A platform that gives its messages no ids."""

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        done = await super().send(reply)
        return done if isinstance(done, SendFailure) else SendReceipt("")


async def test_a_message_without_an_id_that_went_out_at_the_second_try_is_not_taken_for_lost(tmp_path: Path) -> None:
    troubles = [SendFailure("later", "down", 0.01)]
    async with world(tmp_path, Nameless(lambda reply: troubles.pop() if troubles else None)) as w:
        await w.say(reply("hello", "1"))
        trace = await w.settled(1)
    assert [what for what, _ in trace if what in ("sent", "failed")] == ["sent"]
    assert [what for what, _ in trace].count("reply queued") == 1  # and no notice


async def test_when_it_is_tried_again_is_on_disk(tmp_path: Path) -> None:
    async with world(tmp_path, Picky(lambda reply: SendFailure("later", "down", 3600.0))) as w:
        begun = CLOCK.now()
        await w.say(reply("hello", "1"))
        async with asyncio.timeout(60):
            while (row := await w.store.reply("item.1")) is None or not row.error:
                await asyncio.sleep(0.005)
        assert begun + 3_600_000 <= row.due <= CLOCK.now() + 3_600_000


async def test_what_cannot_be_said_aloud_is_given_up_with_the_reason(tmp_path: Path) -> None:
    async with world(tmp_path, FakeChannel(), start=False) as w:

        async def voice(reply: Reply) -> Reply | str:
            return "no voice" if reply.text == "mute" else msgspec.structs.replace(reply, text="spoken")

        deliverer = Deliverer(w.store, {"fake": w.channel}, Hooks(), CLOCK, DeliveryAids(voice=voice))
        deliverer.start()
        await w.say(reply("mute", "1", speak=SpokenText("mute")), reply("hello", "2", speak=SpokenText("hello")))
        deliverer.wake_all()
        trace = await w.settled(2)
        await deliverer.stop()
    assert next(detail for what, detail in trace if what == "failed").endswith("no voice")
    assert w.channel.texts == ["spoken"]


class Hanging(FakeChannel):
    """Sends when it may."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.go, self.begun = asyncio.Event(), list[str]()

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        self.begun.append(reply.text)
        await self.go.wait()
        return await super().send(reply)


async def test_what_is_being_sent_is_not_begun_again_whoever_wakes_it(tmp_path: Path) -> None:
    channel = Hanging(dedupes=False)
    async with world(tmp_path, channel) as w:
        await w.say(reply("slow", "1"))
        async with asyncio.timeout(60):
            while not channel.begun:
                await asyncio.sleep(0.002)
        await w.say(reply("other", "2", OTHER))
        async with asyncio.timeout(60):
            while len(channel.begun) < 2:
                await asyncio.sleep(0.002)
        w.deliverer.wake_all()
        await asyncio.sleep(0.02)
        assert channel.begun == ["slow", "other"]
        channel.go.set()
        await w.settled(2)
    assert sorted(channel.texts) == ["other", "slow"]


async def test_so_many_chats_are_written_to_at_the_same_time(tmp_path: Path) -> None:
    channel = Hanging()
    async with world(tmp_path, channel) as w:
        await w.say(*(reply(f"{n}", f"{n}", Target("fake", f"chat{n}")) for n in range(AT_ONCE + 8)))
        async with asyncio.timeout(60):
            while len(channel.begun) < AT_ONCE:
                await asyncio.sleep(0.002)
        w.deliverer.wake("fake")
        await asyncio.sleep(0.02)
        assert len(channel.begun) == AT_ONCE
        channel.go.set()
        await w.settled(AT_ONCE + 8)


async def test_a_row_that_waits_is_not_tried_because_another_chat_wakes_the_worker(tmp_path: Path) -> None:
    channel = Picky(lambda reply: SendFailure("later", "down", 3600.0) if reply.text == "first" else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("first", "1"))
        async with asyncio.timeout(60):
            while (row := await w.store.reply("item.1")) is None or not row.error:
                await asyncio.sleep(0.005)
        await w.say(reply("second", "2", OTHER))
        await w.settled(1)
    assert [sent.text for sent in channel.sends] == ["first", "second"]


async def test_what_is_found_after_two_deaths_has_arrived(tmp_path: Path) -> None:
    channel = FakeChannel(finds=True, dedupes=False)
    async with world(tmp_path, channel, start=False) as w:
        await w.say(reply("hello", "1"))
        for _ in range(2):
            await w.store.mark_sending("item.1", 1)
        await channel.send(reply("hello", "1"))
        w.deliverer.start()
        trace = await w.settled(1)
    assert [what for what, _ in trace][-1] == "sent" and channel.texts == ["hello"]


async def test_one_node_speaks_for_a_channel(tmp_path: Path) -> None:
    async with world(tmp_path, FakeChannel()) as w:
        await w.say(reply("hello", "1"))
        await w.settled(1)
        other = share_store(w.store)
        assert not await other.grant("channel/fake") and await other.grant("channel/another")
        assert w.deliverer.speaks_for("fake") and not w.deliverer.speaks_for("another")
        second = Deliverer(other, {"fake": w.channel}, Hooks(), CLOCK)
        second.start()
        await w.say(reply("again", "2"))
        await w.settled(2)
        assert not second.speaks_for("fake") and w.channel.texts == ["hello", "again"]
        await second.stop()
        await other.close()


async def test_a_stopped_deliverer_sends_nothing_more(tmp_path: Path) -> None:
    channel = FakeChannel()
    channel.faults = ["late"]
    async with world(tmp_path, channel) as w:
        await w.say(reply("first", "1"), reply("second", "2"))
        async with asyncio.timeout(60):
            while not channel.seen:
                await asyncio.sleep(0.005)
        await w.deliverer.stop()
        assert all(task.done() for task in w.deliverer._tasks)
        channel.release()
        await asyncio.sleep(0.05)
        assert channel.texts == ["first"] and not [t for t in asyncio.all_tasks() if "_one" in repr(t)]


# --- how old a row is


class Hands(FakeClock):
    """A wall clock that can be set without time passing."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by = 0

    def now(self) -> int:
        return super().now() + self.set_by


def row(clock: Clock, ident: str = "r1", *, age: int = 0, due: int = 0) -> OutboxRow:
    now = clock.now()
    return OutboxRow(ident, "item", "fake", "chat", b"", now - age, due=now + due if due else 0)


async def test_what_the_wall_clock_says_of_a_row_is_believed_once() -> None:
    clock = Hands()
    times = RowTimes(clock)
    old, later = row(clock, age=5_000), row(clock, "r2", due=2_000)
    times.see([old, later])
    assert times.age(old) == 5_000 and times.wait(old) <= 0 and times.wait(later) == pytest.approx(2.0)
    clock.set_by = 86_400_000
    times.see([old, later])
    assert times.age(old) == 5_000 and times.wait(later) == pytest.approx(2.0)


async def test_a_row_that_may_only_be_tried_in_a_year_is_a_clock_that_was_set() -> None:
    clock = Hands()
    times = RowTimes(clock)
    far = row(clock, due=365 * 86_400_000)
    times.see([far])
    assert times.wait(far) == pytest.approx(send.WAITS[-1])


async def test_a_row_is_stale_only_if_it_was_tried_and_is_older_than_a_day() -> None:
    clock = Hands()
    times = RowTimes(clock)
    day, older = row(clock, age=send.DAY), row(clock, "r2", age=send.DAY + 1)
    times.see([day, older])
    assert times.is_stale(older) is False
    for one in (day, older):
        times.delay(one, 3.0)
    assert times.is_stale(older) is True and times.is_stale(day) is False
    assert times.wait(older) == pytest.approx(3.0) and times.age(older) == send.DAY + 1
    times.see([])  # gone
    assert not times._known and not times._tried
    unseen = msgspec.structs.replace(older, id="new")
    assert times.age(unseen) == 0 and times.wait(unseen) <= 0


# --- what a mutant once did unseen


def worker(w: World, channel: FakeChannel, aids: DeliveryAids = ALONE, store: Any = None) -> _Worker:
    return _Worker(channel, store or w.store, w.hooks, CLOCK, aids)


async def test_what_comes_after_a_row_that_nobody_can_read_is_looked_for_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, FakeChannel(), start=False) as w:
        await w.store.queue_replies(w.claim, [OutboxRow("bad", "item", "fake", "default/chat/", b"{", CLOCK.now())])
        one = worker(w, w.channel)
        await one._look()
        assert one.wake.is_set()


class SignedOut(Picky):
    """One account is signed out, and stays so."""

    def status(self) -> ChannelStatus:
        return ChannelStatus("signed_out")


async def test_an_account_that_is_signed_out_holds_up_no_other(tmp_path: Path) -> None:
    out, fine = Target("fake", "chat", account="out"), Target("fake", "chat", account="fine")
    channel = SignedOut(lambda r: SendFailure("who?", "signed_out", 0.01) if r.target.account == "out" else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("never", "1", out))
        async with asyncio.timeout(60):
            while (row := await w.store.reply("item.1")) is None or not row.error:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        await w.say(reply("hello", "2", fine))
        await w.settled(1)
    assert channel.texts == ["hello"] and [sent.text for sent in channel.sends].count("never") == 1


class Drafts:
    """Says what it was asked."""

    def __init__(self, draft: str = "") -> None:
        self.draft, self.asked = draft, list[str]()

    async def take(self, item: str, row: str, target: Target) -> str:
        return self.draft

    async def done(self, item: str) -> None:
        self.asked.append("done")

    def on_ended(self, item: str) -> None:
        self.asked.append("ended")

    def holds(self, item: str, row: str) -> bool:
        return False


class Refusing:
    """A store in which marking a row as being sent fails with this."""

    def __init__(self, inner: Any, error: Exception) -> None:
        self._inner, self._error = inner, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def mark_sending(self, *_: Any, **__: Any) -> None:
        raise self._error


@pytest.mark.parametrize("drafts", [None, Drafts()])
async def test_a_row_that_was_cancelled_meanwhile_ends_its_draft_and_wakes_the_next(
    tmp_path: Path, drafts: Drafts | None
) -> None:
    async with world(tmp_path, FakeChannel(), start=False) as w:
        await w.say(reply("hello", "1"))
        (row,) = await w.store.list_due_replies("fake", 2**62)
        aids: Any = DeliveryAids(drafts=drafts)  # type: ignore[arg-type]
        one = worker(w, w.channel, aids, Refusing(w.store, StaleClaim("stopped")))
        one._busy[row.target] = asyncio.ensure_future(asyncio.sleep(0))
        await one._one(row, reply("hello", "1"))
        assert one.wake.is_set() and not one._busy and w.channel.texts == []
        assert drafts is None or drafts.asked == ["ended"]


async def test_a_store_that_fails_ends_no_task_with_an_error_and_is_asked_again(tmp_path: Path) -> None:
    async with world(tmp_path, FakeChannel(), start=False) as w:
        await w.say(reply("hello", "1"))
        (row,) = await w.store.list_due_replies("fake", 2**62)
        one = worker(w, w.channel, store=Refusing(w.store, DiskFull("full")))
        one._busy[row.target] = asyncio.ensure_future(asyncio.sleep(0))
        await one._one(row, reply("hello", "1"))
        assert not one.wake.is_set() and not one._busy


@pytest.mark.parametrize(("draft", "asked"), [("", []), ("d1", ["done"])])
async def test_only_a_draft_that_there_was_is_done_and_the_first_try_is_no_repeat(
    tmp_path: Path, draft: str, asked: list[str]
) -> None:
    async with world(tmp_path, FakeChannel(), start=False) as w:
        await w.say(reply("hello", "1"))
        (row,) = await w.store.list_due_replies("fake", 2**62)
        drafts = Drafts(draft)
        aids: Any = DeliveryAids(drafts=drafts)  # type: ignore[arg-type]
        one, given = worker(w, w.channel, aids), list[send.OutgoingMessage]()

        async def take(message: send.OutgoingMessage) -> SendReceipt:
            given.append(message)
            return SendReceipt("x")

        one._sender.send = take  # type: ignore[method-assign]
        one._sender._shown[row.id] = {"a": "x"}
        assert await one._part(row, reply("hello", "1")) is None
        assert drafts.asked == asked and [message.again for message in given] == [False]
        assert one._sender._shown == {} and one._receipts == {}


async def test_where_there_are_no_drafts_what_a_death_cut_off_is_sent_once_more(tmp_path: Path) -> None:
    channel = FakeChannel(finds=False)
    async with world(tmp_path, channel, start=False) as w:
        await w.say(reply("hello", "1"))
        await w.store.mark_sending("item.1", 1)
        deliverer = Deliverer(w.store, {"fake": channel}, Hooks(), CLOCK)
        deliverer.start()
        await w.settled(1)
        await deliverer.stop()
    assert channel.texts == ["hello"]


async def test_plugins_hear_of_what_could_not_be_sent(tmp_path: Path) -> None:
    async with world(tmp_path, Picky(lambda reply: SendFailure("no such chat", "refused"))) as w:
        heard: list[dict[str, Any]] = []
        w.hooks.on("message_sent", lambda event: heard.append(dict(event)))
        await w.say(reply("hello", "1"))
        await w.settled(1)
        async with asyncio.timeout(60):
            while not heard:
                await asyncio.sleep(0.005)
    assert (heard[0]["success"], heard[0]["error"]) == (False, "no such chat")


async def test_what_is_too_old_is_given_up_with_what_went_wrong(tmp_path: Path) -> None:
    async with world(tmp_path, FakeChannel(), start=False) as w:
        await w.say(reply("one", "1"), reply("two", "2", OTHER))
        one = worker(w, w.channel)
        for row, error in zip(await w.store.list_due_replies("fake", 2**62), ("no way", ""), strict=True):
            one._times._known[row.id] = (CLOCK.monotonic() - 2 * send.DAY / 1000, 0.0)
            one._times._tried[row.id] = 0
            assert await one._part(msgspec.structs.replace(row, error=error), reply("x", "1")) is None
        found = [await w.store.reply(f"item.{n}") for n in (1, 2)]
    assert [(row.state, row.error) for row in found if row is not None] == [
        ("failed", "no way"),
        ("failed", "not sent within a day"),
    ]
    assert w.channel.sends == []


async def test_who_paces_hears_of_what_is_queued_and_a_worker_that_fails_looks_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Pace:
        def __init__(self) -> None:
            self.queued: list[str] = []

        def on_queued(self, replies: tuple[Reply, ...]) -> None:
            self.queued += [one.text for one in replies]

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("a bug of ours")

    async with world(tmp_path, FakeChannel(), start=False) as w:
        pace = Pace()
        aids: Any = DeliveryAids(pace=pace)  # type: ignore[arg-type]
        deliverer = Deliverer(w.store, {"fake": w.channel}, Hooks(), CLOCK, aids)
        deliverer.start()
        await w.say(reply("hello", "1"))
        deliverer.on_queued((reply("hello", "1"),))
        async with asyncio.timeout(60):
            while "delivery failed" not in caplog.text:
                await asyncio.sleep(0.005)
        assert pace.queued == ["hello"] and not deliverer._tasks[0].done()
        await deliverer.stop()


async def test_a_worker_that_ends_has_ended_all_it_began(tmp_path: Path) -> None:
    channel = Hanging()
    async with world(tmp_path, channel) as w:
        await w.say(reply("slow", "1"))
        async with asyncio.timeout(60):
            while not channel.begun:
                await asyncio.sleep(0.002)
        (begun,) = w.deliverer._workers["fake"]._busy.values()
        await w.deliverer.stop()
        assert begun.done()


async def test_what_is_to_be_spoken_is_written_where_there_is_no_voice(tmp_path: Path) -> None:
    async with world(tmp_path, FakeChannel()) as w:
        await w.say(reply("hello", "1", speak=SpokenText("hello")))
        await w.settled(1)
        assert w.channel.texts == ["hello"]


class Broken(FakeChannel):
    async def find(self, reply: Reply) -> SendReceipt | None:
        raise RuntimeError("a bug of a plugin")


async def test_a_channel_that_breaks_ends_no_task_with_an_error(tmp_path: Path) -> None:
    async with world(tmp_path, Broken(), start=False) as w:
        await w.say(reply("hello", "1"))
        row = await w.store.mark_sending("item.1", 1)
        one = worker(w, w.channel)
        one._busy[row.target] = asyncio.ensure_future(asyncio.sleep(0))
        await one._one(row, reply("hello", "1"))
        assert not one._busy and not one.wake.is_set()


class Paced:
    """Has everything wait, and hears what is gone."""

    def __init__(self) -> None:
        self.gone: list[str] = []

    def wait(self, reply: Reply, age: int) -> float:
        return 3600.0

    def find_joined(self, reply: Reply) -> None:
        return None

    def on_gone(self, reply: Reply) -> None:
        self.gone.append(reply.text)


async def test_only_a_first_try_is_paced_and_who_paces_hears_when_it_is_gone(tmp_path: Path) -> None:
    async with world(tmp_path, FakeChannel(), start=False) as w:
        await w.say(reply("hello", "1"))
        (row,) = await w.store.list_due_replies("fake", 2**62)
        pace = Paced()
        aids: Any = DeliveryAids(pace=pace)  # type: ignore[arg-type]
        one = worker(w, w.channel, aids)
        assert one._wait(row, reply("hello", "1")) == 3600.0
        again = msgspec.structs.replace(row, attempts=1)
        assert one._wait(again, reply("hello", "1")) <= 0
        assert await one._part(row, reply("hello", "1")) is None
        assert pace.gone == ["hello"] and w.channel.texts == ["hello"]


async def test_where_repeats_are_dropped_two_deaths_are_no_reason_to_give_up(tmp_path: Path) -> None:
    channel = FakeChannel(finds=False, dedupes=True)
    async with world(tmp_path, channel, start=False) as w:
        await w.say(reply("hello", "1"))
        for _ in range(2):
            await w.store.mark_sending("item.1", 1)
        w.deliverer.start()
        trace = await w.settled(1)
    assert channel.texts == ["hello"] and [what for what, _ in trace][-1] == "sent"


# --- tries that are known to have failed are none of which nobody knows

SURELY = [SendFailure("too many requests", "limited", 0.01), SendFailure("connection refused", "down", 0.01)]
BROKE = SendFailure("the connection broke", "cut", 0.01)


@pytest.mark.parametrize("sure", SURELY, ids=lambda failure: failure.trouble)
async def test_a_try_that_surely_failed_is_none_of_which_nobody_knows(tmp_path: Path, sure: SendFailure) -> None:
    """Limited, then a connection that broke before anything was sent: it was given up, and nobody saw it."""
    answers = [sure, BROKE, sure]
    channel = Picky(lambda reply: answers.pop(0) if answers else None, finds=False)
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"))
        await w.settled(1)
    assert channel.texts == ["hello"]


async def test_a_second_cut_is_the_last_whatever_came_between_and_the_person_is_told(tmp_path: Path) -> None:
    answers = [SURELY[0], BROKE, SURELY[1], SURELY[0], BROKE]
    channel = Picky(lambda reply: answers.pop(0) if answers else None, finds=False)
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"))
        await w.settled(2)
    assert channel.texts == [LOST_TEXT] and not answers


async def test_killed_in_the_try_after_one_that_surely_failed_it_is_sent_once_more(tmp_path: Path) -> None:
    """It was given up, and the person told that it may be lost."""
    channel, answers = Hanging(finds=False), [SURELY[0]]
    async with world(tmp_path, Picky(lambda reply: answers.pop() if answers else BROKE, finds=False)) as w:
        await w.say(reply("hello", "1"))
        async with asyncio.timeout(60):
            while (row := await w.store.reply("item.1")) is None or row.error != SURELY[0].reason:
                await asyncio.sleep(0.001)
        await w.deliverer.stop()
    async with world(tmp_path, channel) as w:
        async with asyncio.timeout(60):
            while not channel.begun:
                await asyncio.sleep(0.005)
    channel.go.set()
    async with world(tmp_path, channel) as w:
        await w.settled(1)
    assert channel.texts == ["hello"]


async def test_to_wait_is_no_failure(tmp_path: Path) -> None:
    """Seven times limited, then not reachable: that was the eighth failure of six, and nobody saw the reply."""
    answers = [*SURELY[:1] * 7, *SURELY[1:]]
    channel = Picky(lambda reply: answers.pop(0) if answers else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"))
        await w.settled(1)
    assert channel.texts == ["hello"] and len(channel.sends) == 9


async def test_who_stops_lets_what_is_being_sent_be_sent_and_begins_nothing(tmp_path: Path) -> None:
    """It was cut off, and the next start sent it a second time."""
    channel = Hanging(finds=False)
    async with world(tmp_path, channel) as w:
        await w.say(reply("one", "1"), reply("two", "2"))
        async with asyncio.timeout(60):
            while not channel.begun:
                await asyncio.sleep(0.005)
        asyncio.get_running_loop().call_later(0.05, channel.go.set)
        await w.deliverer.stop(60)
        one, two = await w.store.reply("item.1"), await w.store.reply("item.2")
        assert one is not None and two is not None and (one.state, two.state) == ("sent", "pending")
    assert channel.begun == channel.texts == ["one"]
