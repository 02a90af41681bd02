"""Messages of the message tool on a real store: through the outbox, once, with what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.config.sections.channels import AccountSettings
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    PollAction,
    ReactAction,
    SendFailure,
    SendReceipt,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.outbox.deliver import Deliverer
from palinurus.outbox.post import BEGUN, KIND, OLD, OutboxPost
from palinurus.plugins.hooks import Hooks
from palinurus.store.factory import open_store
from palinurus.store.port import SessionRow, Store
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from palinurus.tools.program.recipient import MessageDelivery

CHAT = Target("fake", "chat")
CLOCK = SystemClock()
POLL = PollAction("?", ("a", "b"))


@asynccontextmanager
async def opened(
    home: Path, channel: FakeChannel, *, delivers: bool = True, accounts: dict[str, AccountSettings] | None = None
) -> AsyncIterator[tuple[OutboxPost, Store]]:
    home.mkdir(exist_ok=True)
    store = await open_store(str(home), CLOCK)
    deliverer = Deliverer(store, {channel.name: channel}, Hooks(), CLOCK)
    settings = msgspec.structs.replace(load_config(str(home), {}).settings, accounts={"fake": accounts or {}})
    post = OutboxPost(settings, store, {channel.name: channel}, CLOCK, lambda replies: deliverer.wake(channel.name))
    if delivers:
        deliverer.start()
    try:
        yield post, store
    finally:
        await deliverer.stop()
        await store.close()


async def test_sent_with_its_receipt_once_for_one_id(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with opened(tmp_path / "h", channel) as (post, _):
        first = await post.send(Reply(CHAT, "hello", "i.m-1", "message"), 10)
        again = await post.send(Reply(CHAT, "hello", "i.m-1", "message"), 10)
    assert (
        first == MessageDelivery("sent", "fake-1")
        and again == msgspec.structs.replace(first, again=True)
        and channel.texts == ["hello"]
    )


async def test_a_long_one_goes_in_parts_and_is_sent_when_all_are(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ChannelAbilities(limit=50))
    own = AccountSettings("fake", "default", limit=20)
    async with opened(tmp_path / "h", channel, accounts={"default": own}) as (post, _):
        text = "One sentence here. Another one there. And a third."
        done = await post.send(Reply(CHAT, text, "i.m-1", "message"), 10)
        assert post.accounts("fake") == ("default",)
    assert done == MessageDelivery("sent", "fake-1") and len(channel.texts) > 1
    assert " ".join(channel.texts) == text and all(len(one) <= 20 for one in channel.texts)
    assert [one.client_id for one in channel.seen] == [
        "i.m-1",
        *(f"i.m-1.p{n + 2}" for n in range(len(channel.seen) - 1)),
    ]


async def test_nobody_waits_longer_than_asked_and_nothing_is_lost(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with opened(tmp_path / "h", channel, delivers=False) as (post, _):
        assert (await post.send(Reply(CHAT, "hello", "i.m-1", "message"), 0)).state == "pending"
    async with opened(tmp_path / "h", channel) as (post, _):  # the next start sends it
        assert (await post.send(Reply(CHAT, "hello", "i.m-1", "message"), 10)).state == "sent"
    assert channel.texts == ["hello"]


async def test_what_the_platform_refuses_is_told(tmp_path: Path) -> None:
    channel = FakeChannel()
    channel.faults = ["refused"]
    async with opened(tmp_path / "h", channel) as (post, _):
        assert await post.send(Reply(CHAT, "x", "i.m-1", "message"), 10) == MessageDelivery(
            "failed", "", "the chat does not exist"
        )


class Asked(FakeChannel):
    """Answers acts as `says` does."""

    def __init__(self, says: Callable[[], Awaitable[SendReceipt | SendFailure]]) -> None:
        super().__init__()
        self.says = says

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        self.acts.append((target, act))
        return await self.says()


async def test_acts_at_once_and_a_channel_that_raises_is_a_refusal(tmp_path: Path) -> None:
    async def breaks() -> SendReceipt:
        raise RuntimeError("broken")

    channel = Asked(breaks)
    async with opened(tmp_path / "h", channel) as (post, _):
        done = await post.act(CHAT, ReactAction("1", "x"))
    assert done == SendFailure("the channel broke: broken", "refused") and channel.acts == [
        (CHAT, ReactAction("1", "x"))
    ]


async def test_what_would_show_twice_is_done_once_and_told_again(tmp_path: Path) -> None:
    async def done() -> SendReceipt:
        return SendReceipt("poll-1")

    channel = Asked(done)
    async with opened(tmp_path / "h", channel) as (post, _):
        assert await post.act_once("i.m-1", CHAT, POLL) == SendReceipt("poll-1")
    async with opened(tmp_path / "h", channel) as (post, _):
        assert await post.act_once("i.m-1", CHAT, POLL) == SendReceipt("poll-1")
        assert await post.act_once("i.m-2", CHAT, POLL) == SendReceipt("poll-1")
    assert len(channel.acts) == 2


async def test_killed_while_it_is_done_nobody_knows_and_nobody_repeats_it(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def never() -> SendReceipt:
        begun.set()
        return await asyncio.get_running_loop().create_future()

    channel = Asked(never)
    async with opened(tmp_path / "h", channel) as (post, _):
        task = asyncio.ensure_future(post.act_once("i.m-1", CHAT, POLL))
        await begun.wait()
        task.cancel()
    async with opened(tmp_path / "h", channel) as (post, _):
        assert await post.act_once("i.m-1", CHAT, POLL) is None
    assert len(channel.acts) == 1


async def test_what_was_not_done_may_be_tried_again(tmp_path: Path) -> None:
    answers: list[SendReceipt | SendFailure] = [SendFailure("down"), SendReceipt("p")]

    async def next_one() -> SendReceipt | SendFailure:
        return answers.pop(0)

    async with opened(tmp_path / "h", Asked(next_one)) as (post, _):
        assert await post.act_once("i.m-1", CHAT, POLL) == SendFailure("down")
        assert await post.act_once("i.m-1", CHAT, POLL) == SendReceipt("p")


async def test_old_records_go(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path), clock := FakeClock(1_000_000_000_000))
    settings = load_config(str(tmp_path), {}).settings
    post = OutboxPost(settings, store, {"fake": FakeChannel()}, clock, lambda replies: None)
    await store.put_record(KIND, "old", BEGUN)
    clock.jump(OLD / 1000 + 1)
    await post.act_once("new", CHAT, POLL)
    assert [one.key for one in await store.list_records(KIND)] == ["new"]
    await store.close()


async def test_the_chats_people_wrote_from(tmp_path: Path) -> None:
    def row(key: str, **fields: str) -> SessionRow:
        return SessionRow(
            key, "main", key[-1], 1, msgspec.json.encode({"sessionId": key[-1], "updatedAt": 1, **fields})
        )

    async with opened(tmp_path / "h", FakeChannel()) as (post, store):
        await store.save_session(SessionRow("agent:main:x", "main", "x", 1, b"{}"))  # unreadable: hides nobody else
        await store.save_session(row("agent:main:a", lastChannel="fake", lastTo="1", subject="Family", label="home"))
        await store.save_session(row("agent:main:b", lastChannel="gone", lastTo="2", subject="Elsewhere"))
        await store.save_session(row("agent:main:c", lastChannel="fake", lastTo="3", lastAccountId="work"))
        found = await post.chats()
    one = Target("fake", "1")
    assert set(found) == {("Family", one), ("home", one), ("", one), ("", Target("fake", "3", "work"))}
