"""Rows of the outbox on a real store to a channel that goes wrong in every way: in order, once, none lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.agent.settle import to_outgoing_rows
from palinurus.clock import SystemClock
from palinurus.core.stream.chunk import CoalesceSettings
from palinurus.core.types.channel import ChannelAbilities, ChannelAction, EditAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import DiskFull, StateBroken
from palinurus.outbox.deliver import LOST_TEXT, Deliverer, DeliveryAids
from palinurus.outbox.drafts import LiveDrafts
from palinurus.outbox.pace import BlockPacer, PaceRules
from palinurus.plugins.hooks import Hooks
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, RunClaim, Store
from palinurus.testing.channel import FakeChannel
from palinurus.testing.conformance.inbox import claim_one

CHAT, OTHER = Target("fake", "chat"), Target("fake", "other")
EDITS = ChannelAbilities(acts=frozenset(("edit", "delete")), pace=0.01)
CLOCK = SystemClock()


def reply(text: str, ident: str, target: Target = CHAT, **changes: Any) -> Reply:
    return msgspec.structs.replace(Reply(target, text, f"item.{ident}"), **changes)


class Picky(FakeChannel):
    """Answers each send as `says` decides; None: shown."""

    def __init__(self, says: Callable[[Reply], SendFailure | None] = lambda reply: None, **more: Any) -> None:
        super().__init__(**more)
        self.says = says
        self.edits: list[SendFailure] = []  # answers to the next edits

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        answer = self.says(reply)
        if answer is not None:
            self.sends.append(reply)
            return answer
        return await super().send(reply)

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        if isinstance(act, EditAction) and self.edits:
            self.acts.append((target, act))
            return self.edits.pop(0)
        return await super().act(target, act)


class Life:
    """The process dies before (or right after) its step number `until`: nothing it began goes on."""

    def __init__(self, until: int = 10**6, *, after: bool = False) -> None:
        self.until, self.after, self.steps = until, after, 0

    @property
    def over(self) -> bool:
        return self.steps >= self.until

    async def step(self, work: Callable[[], Any]) -> Any:
        self.steps += 1
        if self.steps < self.until or (self.steps == self.until and self.after):
            done = await work()
            if self.steps < self.until:
                return done
        return await asyncio.get_running_loop().create_future()


class Mortal:
    """Something whose calls of these names are steps of a life."""

    def __init__(self, inner: Any, life: Life, names: tuple[str, ...]) -> None:
        self._inner, self._life, self._names = inner, life, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found
        return lambda *args, **more: self._life.step(lambda: found(*args, **more))


class World:
    def __init__(self, store: Store, claim: RunClaim, channel: FakeChannel, life: Life | None = None) -> None:
        self.store, self.claim, self.channel = store, claim, channel
        life = life or Life()
        mortal: Any = Mortal(store, life, ("put_record", "mark_sending", "mark_delivered", "mark_undelivered"))
        there: Any = Mortal(channel, life, ("send", "act"))
        self.drafts = LiveDrafts(mortal, {"fake": there}, CLOCK)
        self.pace = BlockPacer(CLOCK, lambda: 0.0)
        self.shown: list[tuple[str, str]] = []
        self.hooks = Hooks()
        aids = DeliveryAids(self.drafts, self.pace, lambda reply, ident: self.shown.append((reply.client_id, ident)))
        self.deliverer = Deliverer(mortal, {"fake": there}, self.hooks, CLOCK, aids)

    async def say(self, *replies: Reply) -> None:
        rows = to_outgoing_rows(replies, "item", CLOCK.now())
        await self.store.queue_replies(self.claim, rows)
        self.pace.on_queued(replies)
        self.deliverer.wake("fake")

    async def trace(self) -> list[tuple[str, str]]:
        return [(step.what, step.detail) for step in await self.store.trace("item")]

    async def settled(self, count: int) -> list[tuple[str, str]]:
        """The trace once so many rows are sent or given up."""
        async with asyncio.timeout(60):
            while sum(what in ("sent", "failed") for what, _ in await self.trace()) < count:
                await asyncio.sleep(0.005)
        return await self.trace()

    async def gone(self, kind: str) -> None:
        """No record of this kind is left."""
        async with asyncio.timeout(60):
            while await self.store.list_records(kind):
                await asyncio.sleep(0.005)


@asynccontextmanager
async def world(
    home: Path, channel: FakeChannel, *, start: bool = True, life: Life | None = None
) -> AsyncIterator[World]:
    store = await open_store(str(home), CLOCK)
    accepted = await store.accept(InboxItem("item", "d", "agent:main:main", "main", b"{}", CLOCK.now()), claim=True)
    if accepted.claim is None:
        await store.recover()
        claim = await claim_one(store, "main")
        assert claim is not None
    else:
        claim = accepted.claim
    made = World(store, claim, channel, life)
    await made.drafts.load()
    if start:
        made.deliverer.start()
    try:
        yield made
    finally:
        await made.deliverer.stop(0)
        await made.drafts.close()
        await store.close()


async def test_formatting_that_is_refused_goes_plain_at_once(tmp_path: Path) -> None:
    channel = Picky(lambda r: None if r.plain else SendFailure("can't parse entities", "markup"))
    async with world(tmp_path, channel) as w:
        await w.say(reply("**x**", "1"))
        trace = await w.settled(1)
    assert channel.texts == ["**x**"] and [r.plain for r in channel.sends] == [False, True]
    assert [what for what, _ in trace].count("sending") == 1


async def test_a_text_that_is_too_long_after_all_goes_in_pieces(tmp_path: Path) -> None:
    channel = Picky(lambda r: SendFailure("too long", "long") if len(r.text) > 30 else None)
    text = "One two three four five. Six seven eight nine ten. Eleven twelve thirteen."
    async with world(tmp_path, channel) as w:
        await w.say(reply(text, "1"), reply("next", "2"))
        await w.settled(2)
    assert " ".join(channel.texts) == f"{text} next" and all(len(t) <= 30 for t in channel.texts)
    assert channel.duplicate_ids == []


async def test_pieces_that_were_shown_are_not_sent_again(tmp_path: Path) -> None:
    state = {"cut": True}

    def says(r: Reply) -> SendFailure | None:
        if len(r.text) > 30:
            return SendFailure("too long", "long")
        if "Six" in r.text and state.pop("cut", False):
            return SendFailure("down", "down", 0.01)
        return None

    channel = Picky(says)
    text = "One two three four five. Six seven eight nine ten. Eleven twelve thirteen."
    async with world(tmp_path, channel) as w:
        await w.say(reply(text, "1"))
        await w.settled(1)
    assert " ".join(channel.texts) == text


async def test_what_others_send_by_now_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the mark and the socket the machine slept, and another node has taken over."""
    channel, asked = FakeChannel(), asyncio.Event()

    async def lost() -> None:
        asked.set()
        raise StateBroken("others went on")

    async with world(tmp_path, channel, start=False) as made:
        monkeypatch.setattr(made.store, "confirm", lost)
        made.deliverer.start()
        await made.say(reply("hi", "a"))
        async with asyncio.timeout(60):
            await asked.wait()
        assert not channel.sends
        (row,) = await made.store.list_due_replies("fake", 2**60)
        assert row.state == "sending"  # whoever comes next looks whether it is there


async def test_a_file_that_is_refused_is_named(tmp_path: Path) -> None:
    channel = Picky(lambda r: SendFailure("too big", "media") if r.media else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("Look", "1", media=("/secret/folder/a.png",)))
        await w.settled(1)
    assert channel.texts == ["Look\n\n📎 a.png"]


async def test_a_part_that_is_given_up_holds_no_later_one_back(tmp_path: Path) -> None:
    channel = Picky(lambda r: SendFailure("no", "refused") if r.text == "bad" else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("bad", "1"), reply("good", "1.p2"))
        trace = await w.settled(2)
    assert channel.texts == ["good"]
    assert [what for what, _ in trace if what in ("failed", "sent")] == ["failed", "sent"]


async def test_a_limited_chat_waits_and_no_other(tmp_path: Path) -> None:
    answers = [SendFailure("slow down", "limited", 0.2)]
    channel = Picky(lambda r: answers.pop() if r.target == CHAT and answers else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("held", "1"), reply("after it", "2"), reply("free", "3", OTHER))
        await w.settled(3)
    assert channel.texts == ["free", "held", "after it"]


async def test_a_limited_account_waits_as_a_whole(tmp_path: Path) -> None:
    answers = [SendFailure("slow down", "limited", 0.2, everywhere=True)]
    channel = Picky(lambda r: answers.pop() if answers else None)
    async with world(tmp_path, channel) as w:
        await w.say(reply("first", "1"))
        async with asyncio.timeout(60):
            while not channel.sends:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        await w.say(reply("other chat", "2", OTHER), reply("other account", "3", Target("fake", "x", "second")))
        await w.settled(3)
    assert channel.texts[0] == "other account" and set(channel.texts) == {"first", "other chat", "other account"}
    assert len(channel.sends) == 4  # nothing was tried while the account was held


async def test_a_chat_that_hangs_holds_no_other_up(tmp_path: Path) -> None:
    channel = FakeChannel()
    channel.faults = ["late"]
    async with world(tmp_path, channel) as w:
        await w.say(reply("hangs", "1"), reply("free", "2", OTHER), reply("free too", "3", OTHER))
        await w.settled(2)
        assert channel.texts == ["hangs", "free", "free too"]
        channel.release()
        await w.settled(3)


async def test_a_channel_that_raises_stops_nobody(tmp_path: Path) -> None:
    channel = FakeChannel()
    channel.faults = ["raises"]
    async with world(tmp_path, channel) as w:
        await w.say(reply("breaks", "1"), reply("free", "2", OTHER))
        await w.settled(1)
        assert channel.texts == ["free"]
        trace = await w.trace()
    assert any("the channel failed" in detail for what, detail in trace if what == "not sent")


@pytest.mark.parametrize(("finds", "dedupes", "seen"), [(True, False, 1), (False, True, 1), (False, False, 2)])
async def test_what_was_cut_off_by_a_crash_is_looked_for(tmp_path: Path, finds: bool, dedupes: bool, seen: int) -> None:
    channel = FakeChannel(finds=finds, dedupes=dedupes)
    channel.faults = ["late"]  # shown; the process dies before it knows
    async with world(tmp_path, channel) as w:
        await w.say(reply("hello", "1"))
        async with asyncio.timeout(60):
            while not channel.seen:
                await asyncio.sleep(0.005)
    async with world(tmp_path, channel) as w:
        trace = await w.settled(1)
    assert channel.texts == ["hello"] * seen
    said = [detail for what, detail in trace if what == "not sent"]
    assert ("not known whether it arrived" in "".join(said)) is not finds  # the window can be seen


async def test_it_is_never_sent_a_third_time_when_nobody_knows_but_the_person_is_told(tmp_path: Path) -> None:
    """It may be that neither try was seen: a reply is not lost without a word."""
    channel = FakeChannel(finds=False)
    for faults in (["late"], ["late"], [], []):
        channel.faults = [*faults]  # type: ignore[list-item]
        async with world(tmp_path, channel) as w:
            async with asyncio.timeout(60):
                count = len(channel.seen)
                await w.say(reply("hello", "1"))
                while len(channel.seen) == count and "failed" not in [what for what, _ in await w.trace()]:
                    await asyncio.sleep(0.005)
                while not faults and ("sent" not in [what for what, _ in await w.trace()]):
                    await asyncio.sleep(0.005)
    assert channel.texts == ["hello", "hello", LOST_TEXT]


# --- blocks that go as one message


RULES = PaceRules(CoalesceSettings(idle=20, min_chars=5, max_chars=100))
BLOCKS = (reply("one.", "b1", kind="block"), reply("two.", "b2", kind="block"), reply("three.", "b3", kind="block"))


@pytest.mark.seed(321)
async def test_joined_blocks_have_one_receipt(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with world(tmp_path, channel) as w:
        w.pace.begin(CHAT, RULES)
        await w.say(*BLOCKS)
        trace = await w.settled(3)
        await w.gone("joined")
    assert channel.texts == ["one.\n\ntwo.\n\nthree."]
    assert {detail.rsplit(" ", 1)[1] for what, detail in trace if what == "sent"} == {"fake-1"}


@pytest.mark.parametrize(("finds", "dedupes", "seen"), [(True, False, 1), (False, True, 1), (False, False, 2)])
async def test_joined_blocks_stay_one_message_through_a_crash(
    tmp_path: Path, finds: bool, dedupes: bool, seen: int
) -> None:
    channel = FakeChannel(finds=finds, dedupes=dedupes)
    channel.faults = ["late"]
    async with world(tmp_path, channel) as w:
        w.pace.begin(CHAT, RULES)
        await w.say(*BLOCKS)
        async with asyncio.timeout(60):
            while not channel.seen:
                await asyncio.sleep(0.005)
    async with world(tmp_path, channel) as w:
        await w.settled(3)
        await w.gone("joined")
    assert channel.texts == ["one.\n\ntwo.\n\nthree."] * seen


async def test_blocks_that_were_held_at_a_crash_go_out_after_it(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with world(tmp_path, channel) as w:
        w.pace.begin(CHAT, PaceRules(CoalesceSettings(idle=5000, min_chars=500, max_chars=1000)))
        await w.say(*BLOCKS)
        await asyncio.sleep(0.05)
        assert channel.seen == []
    async with world(tmp_path, channel) as w:
        await w.settled(3)
    assert channel.texts == ["one.", "two.", "three."]


# --- in the place of a draft


async def drafted(w: World, channel: FakeChannel, text: str = "half") -> None:
    draft = w.drafts.open("item", CHAT)
    assert draft is not None
    draft.touch(lambda: text)
    async with asyncio.timeout(60):
        while not channel.seen or not (await w.store.list_records("draft"))[0].data.count(b"message_id"):
            await asyncio.sleep(0.005)


async def test_the_first_row_takes_the_drafts_place(tmp_path: Path) -> None:
    channel = Picky(abilities=EDITS)
    async with world(tmp_path, channel) as w:
        await drafted(w, channel)
        await w.say(reply("whole", "1"), reply("more", "2"))
        await w.settled(2)
    assert channel.texts == ["whole", "more"] and w.shown[0] == ("item.1", "fake-1")


async def test_a_draft_that_cannot_be_edited_gives_way_to_a_new_message(tmp_path: Path) -> None:
    channel = Picky(abilities=EDITS)
    channel.edits = [SendFailure("too old", "refused")]
    async with world(tmp_path, channel) as w:
        await drafted(w, channel)
        await w.say(reply("whole", "1"))
        await w.settled(1)
    assert channel.texts == ["whole"]


async def test_an_edit_that_fails_for_now_is_tried_again(tmp_path: Path) -> None:
    channel = Picky(abilities=EDITS)
    channel.edits = [SendFailure("down", "down", 0.02)]
    async with world(tmp_path, channel) as w:
        await drafted(w, channel)
        await w.say(reply("whole", "1"))
        await w.settled(1)
    assert channel.texts == ["whole"] and len(channel.sends) == 1


async def test_an_answer_with_a_file_replaces_the_draft(tmp_path: Path) -> None:
    channel = Picky(abilities=EDITS)
    async with world(tmp_path, channel) as w:
        await drafted(w, channel)
        await w.say(reply("Look", "1", media=("https://e.x/a.png",)))
        await w.settled(1)
    assert channel.texts == ["Look"]


@pytest.mark.parametrize("edited", [False, True])
async def test_a_crash_while_the_draft_is_taken_over_leaves_one_copy(tmp_path: Path, edited: bool) -> None:
    """The process dies before or after the edit, with the row on its way."""

    class Dies(Picky):
        dead = True

        async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
            if self.dead and isinstance(act, EditAction):
                if edited:
                    await super().act(target, act)
                self.dead = False
                await asyncio.get_running_loop().create_future()  # never comes back
            return await super().act(target, act)

    channel = Dies(abilities=EDITS)
    async with world(tmp_path, channel) as w:
        await drafted(w, channel)
        await w.say(reply("whole", "1"))
        async with asyncio.timeout(60):
            while channel.dead:
                await asyncio.sleep(0.005)
    async with world(tmp_path, channel) as w:
        await w.settled(1)
        await w.gone("draft")
    assert channel.texts == ["whole"]


async def test_an_answer_that_took_a_drafts_place_is_never_removed(tmp_path: Path) -> None:
    """The process dies between the receipt and the end of the draft's record."""
    channel = Picky(abilities=EDITS)
    async with world(tmp_path, channel) as w:
        await drafted(w, channel)
        await w.say(reply("whole", "1"))
        await w.settled(1)
        await w.gone("draft")
        kept = msgspec.json.encode(
            {"item": "item", "target": CHAT, "client_id": "item.d1", "message_id": "fake-1", "taken": "item.1"}
        )
        await w.store.put_record("draft", "item.d1", kept)
        await w.store.yield_back(w.claim)
    async with world(tmp_path, channel, start=False) as w:
        await w.drafts.load()
        await asyncio.sleep(0.05)
    assert channel.texts == ["whole"]


async def test_hooks_may_change_and_cancel_and_hear_of_the_end(tmp_path: Path) -> None:
    channel, heard = FakeChannel(), list[dict[str, Any]]()
    async with world(tmp_path, channel) as w:

        async def sending(event: Any, context: Any = None) -> dict[str, Any]:
            return {"cancel": True} if event["content"] == "secret" else {"content": event["content"].upper()}

        def told(event: Any, context: Any = None) -> None:
            heard.append(dict(event))

        w.hooks.on("message_sending", sending)
        w.hooks.on("message_sent", told)
        await w.say(reply("secret", "1"), reply("public", "2"))
        trace = await w.settled(2)
        async with asyncio.timeout(60):
            while not heard:  # they are told after it is on record
                await asyncio.sleep(0.005)
    assert channel.texts == ["PUBLIC"]
    assert any("cancelled by a message_sending hook" in detail for what, detail in trace if what == "failed")
    assert [(one["content"], one["success"]) for one in heard] == [("PUBLIC", True)]


async def test_a_signed_out_account_waits_untried_until_somebody_signs_in(tmp_path: Path) -> None:
    answers = [SendFailure("token revoked", "signed_out", 0.01)]
    channel = Picky(lambda r: answers.pop() if answers else None)
    channel.set_status("signed_out", "sign in again")
    async with world(tmp_path, channel) as w:
        await w.say(reply("waits", "1"), reply("waits too", "2", OTHER))
        async with asyncio.timeout(60):
            while not any(what == "not sent" for what, _ in await w.trace()):
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        tries = len(channel.sends)
        channel.set_status("ready")
        w.deliverer.wake("fake")
        await w.settled(2)
    assert sorted(channel.texts) == ["waits", "waits too"] and tries <= 2


async def test_a_row_that_cannot_be_read_holds_nobody_up(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with world(tmp_path, channel) as w:
        (row,) = to_outgoing_rows([reply("x", "1")], "item", CLOCK.now())
        await w.store.queue_replies(w.claim, [msgspec.structs.replace(row, data=b"{broken")])
        await w.say(reply("fine", "2"))
        trace = await w.settled(2)
    assert channel.texts == ["fine"] and any("cannot be read" in detail for what, detail in trace if what == "failed")


async def test_what_could_not_be_sent_for_a_day_is_no_news(tmp_path: Path) -> None:
    channel = FakeChannel()
    channel.faults = ["limited"]
    async with world(tmp_path, channel) as w:
        (old,) = to_outgoing_rows([reply("old", "1")], "item", CLOCK.now() - 2 * 86_400_000)
        await w.store.queue_replies(w.claim, [old])
        w.deliverer.wake("fake")
        trace = await w.settled(1)
    assert channel.texts == [] and [what for what, _ in trace if what == "failed"] == ["failed"]


# --- a death at every step


def grow(w: World) -> None:
    draft = w.drafts.open("item", CHAT)
    assert draft is not None
    draft.touch(lambda: "half")


@pytest.mark.parametrize("after", [False, True])
async def test_whenever_the_process_dies_there_is_one_copy_of_a_drafted_answer(tmp_path: Path, after: bool) -> None:
    for step in range(1, 30):
        channel, home, life = Picky(abilities=EDITS), tmp_path / str(step), Life(step, after=after)
        home.mkdir()
        async with world(home, channel, life=life) as w:
            grow(w)
            async with asyncio.timeout(60):
                while not life.over and not channel.seen:
                    await asyncio.sleep(0.001)
            await w.say(reply("whole", "1"), reply("more", "2"))
            async with asyncio.timeout(60):
                while not life.over and sum(what == "sent" for what, _ in await w.trace()) < 2:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)
            done = not life.over
        async with world(home, channel) as w:
            await w.settled(2)
            await w.gone("draft")
        assert channel.texts == ["whole", "more"], step
        if done:
            break
    assert done and step > 8


@pytest.mark.parametrize("after", [False, True])
async def test_whenever_the_process_dies_blocks_are_said_once(tmp_path: Path, after: bool) -> None:
    for step in range(1, 30):
        channel, home, life = FakeChannel(), tmp_path / str(step), Life(step, after=after)
        home.mkdir()
        async with world(home, channel, life=life) as w:
            w.pace.begin(CHAT, RULES)
            await w.say(*BLOCKS)
            async with asyncio.timeout(60):
                while not life.over and sum(what == "sent" for what, _ in await w.trace()) < 3:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)
            done = not life.over
        async with world(home, channel) as w:
            await w.settled(3)
        assert "\n\n".join(channel.texts) == "one.\n\ntwo.\n\nthree.", step
        if done:
            break
    assert done and step > 5


async def test_taking_a_drafts_place_is_tried_after_any_number_of_deaths(tmp_path: Path) -> None:
    class Deadly(Picky):
        deaths = 0

        async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
            if self.deaths < 3:
                self.deaths += 1
                await asyncio.get_running_loop().create_future()
            return await super().act(target, act)

    channel = Deadly(abilities=EDITS, finds=False)
    async with world(tmp_path, channel) as w:
        await drafted(w, channel)
    for number in range(3):
        async with world(tmp_path, channel) as w:
            await w.say(reply("whole", "1"))
            async with asyncio.timeout(60):
                while channel.deaths == number:
                    await asyncio.sleep(0.001)
    async with world(tmp_path, channel) as w:
        await w.settled(1)
    assert channel.texts == ["whole"]


class Forgetful:
    """A store that fails to take the first receipts."""

    def __init__(self, inner: Any, failures: int) -> None:
        self._inner, self.failures = inner, failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def mark_delivered(self, ident: str, receipt: str, now: int) -> None:
        if self.failures:
            self.failures -= 1
            raise DiskFull("the disk is full")
        await self._inner.mark_delivered(ident, receipt, now)


@pytest.mark.parametrize("more", [{"dedupes": True, "finds": False}, {"finds": False}, {}])
async def test_a_receipt_that_could_not_be_stored_is_stored_later_and_nothing_is_sent_again(
    tmp_path: Path, more: dict[str, bool]
) -> None:
    channel = FakeChannel(**more)
    async with world(tmp_path, channel, start=False) as now:
        store: Any = Forgetful(now.store, 2)
        deliverer = Deliverer(store, {"fake": channel}, now.hooks, CLOCK)
        deliverer.start()
        try:
            await now.store.queue_replies(now.claim, to_outgoing_rows((reply("hello", "1"),), "item", CLOCK.now()))
            for left in (1, 0):
                deliverer.wake("fake")
                async with asyncio.timeout(60):
                    while store.failures > left:
                        await asyncio.sleep(0.005)
            deliverer.wake("fake")
            await now.settled(1)
        finally:
            await deliverer.stop()
    assert channel.texts == ["hello"] and len(channel.sends) == 1
