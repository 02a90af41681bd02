import asyncio

import pytest

from palinurus.core.types.channel import SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.testing.channel import FakeChannel


def reply(text="hi", client_id="c1"):
    return Reply(Target("fake", "chat"), text, client_id)


async def test_what_was_sent_is_what_the_human_saw():
    channel = FakeChannel()
    assert await channel.send(reply()) == SendReceipt("fake-1")
    assert await channel.send(reply("more", "c2")) == SendReceipt("fake-2")
    assert channel.texts == ["hi", "more"] and channel.duplicate_ids == []


@pytest.mark.parametrize(
    ("fault", "seen", "trouble"),
    [("lost", 0, "cut"), ("shown", 1, "cut"), ("limited", 0, "limited"), ("refused", 0, "gone"), ("down", 0, "down")],
)
async def test_faults(fault, seen, trouble):
    channel = FakeChannel()
    channel.faults = [fault]
    answer = await channel.send(reply())
    assert isinstance(answer, SendFailure)
    assert (len(channel.seen), answer.trouble) == (seen, trouble)
    assert (await channel.find(reply()) is not None) == bool(seen)
    assert isinstance(await channel.send(reply()), SendReceipt)
    assert bool(channel.duplicate_ids) == bool(seen)


async def test_a_platform_that_dedupes_shows_one_message():
    channel = FakeChannel(dedupes=True)
    channel.faults = ["shown"]
    await channel.send(reply())
    assert await channel.send(reply()) == SendReceipt("fake-1") and channel.texts == ["hi"]


async def test_a_platform_without_read_back_cannot_tell():
    channel = FakeChannel(finds=False)
    await channel.send(reply())
    assert await channel.find(reply()) is None


async def test_a_late_acknowledgement_is_shown_at_once_and_answered_on_release():
    channel = FakeChannel()
    channel.faults = ["late"]
    task = asyncio.create_task(channel.send(reply()))
    while not channel.seen:
        await asyncio.sleep(0)
    assert not task.done()
    channel.release()
    assert await task == SendReceipt("fake-1")


async def test_a_channel_that_breaks_its_promise():
    channel = FakeChannel()
    channel.faults = ["raises"]
    with pytest.raises(RuntimeError):
        await channel.send(reply())


async def test_redelivery_submits_the_same_event_again():
    channel, got = FakeChannel(), []

    async def submit(inbound):
        got.append(inbound)
        return f"id-{inbound.event}"

    task = asyncio.create_task(channel.run(submit))
    assert await channel.receive("hello", event="e1", times=3) == ["id-e1"] * 3
    assert {(i.event, i.text, i.sender.id, i.target.to) for i in got} == {("e1", "hello", "human", "chat")}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
