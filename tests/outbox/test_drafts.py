"""Drafts: the channel's pace, what is on record, and what a crash leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    DeleteAction,
    EditAction,
    SendFailure,
    SendReceipt,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.outbox.drafts import KIND, TRIES, DraftRecord, LiveDraft, LiveDrafts
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, OutboxRow, RunClaim, Settlement, Store
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock

CHAT = Target("fake", "chat")
ABLE = ChannelAbilities(acts=frozenset(("edit", "delete")), pace=2.0)


class Scene:
    def __init__(self, store: Store, clock: FakeClock, channel: FakeChannel) -> None:
        self.store, self.clock, self.channel = store, clock, channel
        self.drafts = LiveDrafts(store, {"fake": channel}, clock)

    def open(self) -> LiveDraft:
        made = self.drafts.open("item", CHAT)
        assert made is not None
        return made

    @property
    def edits(self) -> list[str]:
        return [act.text for _, act in self.channel.acts if isinstance(act, EditAction)]

    async def kept(self) -> list[DraftRecord]:
        return [msgspec.json.decode(row.data, type=DraftRecord) for row in await self.store.list_records(KIND)]

    async def until(self, count: int) -> None:
        """So many messages were sent and are on record."""
        async with asyncio.timeout(60):
            while len(self.channel.sends) < count or not all(k.message_id for k in await self.kept()):
                await asyncio.sleep(0.002)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock = FakeClock()
    store = await open_store(str(tmp_path), clock)
    await store.accept(InboxItem("item", "d", "agent:main:main", "main", b"{}", 0), claim=True)
    made = Scene(store, clock, FakeChannel(abilities=ABLE))
    yield made
    await made.drafts.close()
    await store.close()


async def test_edits_keep_the_channels_pace(scene: Scene) -> None:
    draft = scene.open()
    draft.touch(lambda: "one")
    await scene.until(1)
    for text in ("one two", "one two three"):
        draft.touch(lambda text=text: text)
        await asyncio.sleep(0.01)
    assert scene.edits == []
    await scene.clock.advance(2.0)
    await asyncio.sleep(0.02)
    assert scene.edits == ["one two three"]  # the newest, once


async def test_the_record_is_there_before_the_message(scene: Scene) -> None:
    scene.channel.faults = ["late"]
    scene.open().touch(lambda: "one")
    async with asyncio.timeout(60):
        while not scene.channel.seen:
            await asyncio.sleep(0.002)
    (kept,) = await scene.kept()
    assert kept.message_id == "" and kept.item == "item"
    scene.channel.release()


async def test_after_a_crash_while_it_was_sent_the_draft_is_found_again(scene: Scene) -> None:
    await scene.channel.send(Reply(CHAT, "half", "item.d1", "draft"))
    await scene.store.put_record(KIND, "item.d1", msgspec.json.encode(DraftRecord("item", CHAT, "item.d1")))
    await scene.drafts.load()
    scene.open().touch(lambda: "half and more")
    async with asyncio.timeout(60):
        while not scene.edits:
            await asyncio.sleep(0.002)
    assert scene.channel.texts == ["half and more"]


async def test_what_grows_after_a_row_took_the_place_is_another_message(scene: Scene) -> None:
    scene.open().touch(lambda: "first")
    await scene.until(1)
    assert await scene.drafts.take("item", "row1", CHAT) == "fake-1"
    assert await scene.drafts.take("item", "row1", CHAT) == "fake-1"  # again, if the edit failed
    scene.open().touch(lambda: "second")
    await scene.until(2)
    await scene.drafts.done("item")
    assert scene.channel.texts == ["first", "second"]
    assert await scene.drafts.take("item", "row2", CHAT) == "fake-2"
    assert await scene.drafts.take("item", "row3", CHAT) == ""


async def test_a_draft_is_for_its_own_chat_only(scene: Scene) -> None:
    scene.open().touch(lambda: "first")
    await scene.until(1)
    assert await scene.drafts.take("item", "row1", Target("fake", "other")) == ""
    assert await scene.drafts.take("another", "row1", CHAT) == ""


async def test_dropping_takes_it_away(scene: Scene) -> None:
    scene.open().touch(lambda: "first")
    await scene.until(1)
    scene.drafts.drop("item")
    async with asyncio.timeout(60):
        while await scene.kept():
            await asyncio.sleep(0.002)
    assert scene.channel.texts == []


async def test_one_that_cannot_be_removed_now_is_tried_again_at_the_next_start(scene: Scene) -> None:
    class Down(FakeChannel):
        async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
            return SendFailure("down") if isinstance(act, DeleteAction) else await super().act(target, act)

    scene.channel = Down(abilities=ABLE)
    scene.drafts = LiveDrafts(scene.store, {"fake": scene.channel}, scene.clock)
    scene.open().touch(lambda: "first")
    await scene.until(1)
    scene.drafts.drop("item")
    await scene.drafts.close()
    assert len(await scene.kept()) == 1


async def test_one_that_cannot_be_removed_now_is_removed_once_the_platform_is_back(scene: Scene) -> None:
    class Away(FakeChannel):
        tries = 0

        async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
            self.tries += isinstance(act, DeleteAction)
            return SendFailure("down", "down") if self.tries == 1 else await super().act(target, act)

    scene.channel = Away(abilities=ABLE)
    scene.drafts = LiveDrafts(scene.store, {"fake": scene.channel}, scene.clock)
    scene.open().touch(lambda: "first")
    await scene.until(1)
    scene.drafts.drop("item")
    async with asyncio.timeout(60):
        while await scene.kept():
            await asyncio.sleep(0.002)
            await scene.clock.advance(5.0)
    assert scene.channel.texts == []


@pytest.mark.parametrize("taken", [False, True])
async def test_a_draft_of_a_stopped_run_does_not_stay(scene: Scene, taken: bool) -> None:
    """Its reply was queued, and is never sent: also when it was just about to take the draft's place."""
    scene.open().touch(lambda: "a fragment")
    await scene.until(1)
    claim = RunClaim("item", "agent:main:main", "main", b"{}", 0, attempts=1, fence=1)
    await scene.store.queue_replies(claim, [OutboxRow("item.0", "item", "fake", "chat", b"{}", 0)])
    if taken:
        assert await scene.drafts.take("item", "item.0", CHAT)
    await scene.store.stop("agent:main:main", "stopped", silent=True)
    await scene.store.settle(claim, Settlement("answered", "a fragment of the whole"))
    scene.drafts.on_ended("item")
    async with asyncio.timeout(60):
        while await scene.kept():
            await asyncio.sleep(0.002)
    assert scene.channel.texts == []


async def test_a_draft_whose_reply_is_still_to_be_sent_stays(scene: Scene) -> None:
    scene.open().touch(lambda: "a fragment")
    await scene.until(1)
    claim = RunClaim("item", "agent:main:main", "main", b"{}", 0, attempts=1, fence=1)
    row = OutboxRow("item.0", "item", "fake", "chat", b"{}", 0)
    await scene.store.settle(claim, Settlement("answered", "whole", replies=(row,)))
    scene.drafts.on_ended("item")
    await scene.drafts.close()
    assert len(await scene.kept()) == 1 and len(scene.channel.texts) == 1


async def test_a_draft_that_fails_is_left_alone_after_some_tries(scene: Scene) -> None:
    scene.channel.faults = ["refused"] * 10
    draft = scene.open()
    for n in range(TRIES + 2):
        draft.touch(lambda n=n: f"text {n}")
        await asyncio.sleep(0.02)
        await scene.clock.advance(2.0)
    assert len(scene.channel.sends) == TRIES and await scene.kept() == []


async def test_where_nothing_can_be_edited_there_are_no_drafts(scene: Scene) -> None:
    scene.channel.abilities = ChannelAbilities()
    assert scene.drafts.open("item", CHAT) is None and scene.drafts.open("item", Target("none")) is None
