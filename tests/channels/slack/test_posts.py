"""What we do on Slack besides plain messages, against the fake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palinurus.channels.slack.channel import SlackChannel
from palinurus.core.types.channel import (
    Channel,
    EditAction,
    LookAction,
    PinAction,
    ReactAction,
    ReadAction,
    SendFailure,
    SendReceipt,
    ThreadAction,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.slack.server import FakeSlack

CHAT = Target("slack", "DALICE")


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack() as made:
        yield made


@pytest.fixture
def channel(slack: FakeSlack, tmp_path: Path) -> Channel:
    return slack.channel(str(tmp_path))


async def sent(channel: Channel, reply: Reply) -> str:
    answer = await channel.send(reply)
    assert isinstance(answer, SendReceipt), answer
    return answer.message_id


async def test_reactions_come_and_go(slack: FakeSlack, channel: Channel) -> None:
    ts = await sent(channel, Reply(CHAT, "hello", "c1"))
    message = slack.chats["DALICE"][0]
    for _ in range(2):  # what is there already is fine
        assert isinstance(await channel.act(CHAT, ReactAction(f"DALICE:{ts}", "👍")), SendReceipt)
    assert message["reactions"] == ["+1"]
    assert isinstance(await channel.act(CHAT, ReactAction(ts, "👍", remove=True)), SendReceipt)
    assert isinstance(await channel.act(CHAT, ReactAction(ts, "👍", remove=True)), SendReceipt)
    assert message["reactions"] == []
    unknown = await channel.act(CHAT, ReactAction(ts, "🫥"))
    assert isinstance(unknown, SendFailure) and unknown.trouble == "refused"


async def test_pins_threads_and_reading(slack: FakeSlack, channel: Channel) -> None:
    await slack.say("one &amp; two")
    ts = await sent(channel, Reply(CHAT, "three", "c1"))
    assert isinstance(await channel.act(CHAT, PinAction(ts)), SendReceipt)
    assert await channel.act(CHAT, ThreadAction("x", ts)) == SendReceipt(ts)
    root = await channel.act(CHAT, ThreadAction("a *new* thread"))
    assert isinstance(root, SendReceipt) and slack.visible_messages()[-1].text == "a *new* thread"
    read = await channel.act(CHAT, ReadAction(2))
    assert isinstance(read, SendReceipt) and [line["text"] for line in read.data] == ["three", "a *new* thread"]


async def test_people_and_emoji_can_be_looked_up(slack: FakeSlack, channel: Channel) -> None:
    who = await channel.act(CHAT, LookAction("member-info", user="UALICE"))
    assert isinstance(who, SendReceipt) and who.data["id"] == "UALICE" and who.data["name"] == slack.names["UALICE"]
    emoji = await channel.act(CHAT, LookAction("emoji-list"))
    assert isinstance(emoji, SendReceipt) and emoji.data == ["party", "ship"]
    unknown = await channel.act(CHAT, LookAction("member-info", user="UNOBODY"))
    assert isinstance(unknown, SendFailure)


async def test_a_person_can_be_written_to_by_id(slack: FakeSlack, channel: Channel) -> None:
    target = Target("slack", "UBOB")
    await sent(channel, Reply(target, "hello", "c1"))
    await sent(channel, Reply(target, "again", "c2"))
    assert [one.text for one in slack.visible_messages("DBOB")] == ["hello", "again"]
    assert [method for method, _ in slack.calls].count("conversations.open") == 1


async def test_an_edit_takes_the_buttons_away(slack: FakeSlack, channel: Channel) -> None:
    ts = await sent(channel, Reply(CHAT, "May I?", "c1", buttons=(Button("Yes", "/yes"),)))
    assert isinstance(await channel.act(CHAT, EditAction(ts, "You may.")), SendReceipt)
    assert [(one.text, one.buttons) for one in slack.visible_messages()] == [("You may.", ())]


async def test_a_very_long_text_behind_a_button_is_kept(slack: FakeSlack, channel: Channel, tmp_path: Path) -> None:
    long = "/say " + "x" * 3000
    await sent(channel, Reply(CHAT, "?", "c1", buttons=(Button("Go", long),)))
    (value,) = (e["value"] for e in slack.chats["DALICE"][0]["blocks"][-1]["elements"])
    assert len(value) < 100
    assert (
        await SlackChannel(make_channel_kit("slack", str(tmp_path), slack.section))._posts.decode_button(value) == long
    )


async def test_find_reads_threads_and_pages(slack: FakeSlack, channel: Channel) -> None:
    root = await sent(channel, Reply(CHAT, "root", "c0"))
    below = Target("slack", "DALICE", thread=root)
    reply = Reply(below, "deep", "c-deep")
    ts = await sent(channel, reply)
    for number in range(450):
        slack.add_message(f"m{number}")
        slack.add_message(f"t{number}", thread_ts=root)
    assert await channel.find(reply) == SendReceipt(ts)
    assert await channel.find(Reply(CHAT, "root", "c0")) == SendReceipt(root)
    assert await channel.find(Reply(CHAT, "deep", "c-none")) is None


@pytest.mark.parametrize("buttons", [(), (Button("Yes", "/yes"),)])
async def test_files_are_shown_once_also_when_the_answer_was_lost(
    slack: FakeSlack, channel: Channel, tmp_path: Path, buttons: tuple[Button, ...]
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    reply = Reply(CHAT, "look", "c1", media=(str(tmp_path / "a.png"),), buttons=buttons)
    slack.fail("cut")
    answer = await channel.send(reply)
    assert isinstance(answer, SendFailure) and answer.trouble == "cut"
    again = slack.channel(str(tmp_path))  # after a kill
    found = await again.find(reply)
    if found is None:
        found = await again.send(reply)
    assert isinstance(found, SendReceipt)
    shown = slack.visible_messages()
    assert [name for one in shown for name in one.media] == ["a.png"]
    assert [one.text for one in shown if one.text] == ["look"] and shown[-1].message_id == found.message_id


async def test_a_file_that_cannot_go_is_the_files_trouble(slack: FakeSlack, channel: Channel, tmp_path: Path) -> None:
    missing = await channel.send(Reply(CHAT, "look", "c1", media=(str(tmp_path / "none.png"),)))
    assert isinstance(missing, SendFailure) and missing.trouble == "media"
    (tmp_path / "a.png").write_bytes(PNG)
    slack.fail("media")
    refused = await channel.send(Reply(CHAT, "look", "c2", media=(str(tmp_path / "a.png"),)))
    assert isinstance(refused, SendFailure) and refused.trouble == "media" and slack.visible_messages() == []


async def test_what_may_be_there_is_not_posted_again_before_slack_can_be_asked(
    slack: FakeSlack, channel: Channel, tmp_path: Path
) -> None:
    reply = Reply(CHAT, "once", "c1")
    slack.fail("cut")
    assert isinstance(await channel.send(reply), SendFailure)
    again = slack.channel(str(tmp_path))  # after a kill; and the line is dead
    for one in (channel, again):
        await slack.cut()
        assert await one.find(reply) is None
        assert isinstance(await one.send(reply), SendFailure)
        await slack.mend()
        assert await one.send(reply) == SendReceipt(slack.visible_messages()[0].message_id)
    assert [one.text for one in slack.visible_messages()] == ["once"]


async def test_what_cannot_be_looked_up_for_want_of_a_permission_is_posted(slack: FakeSlack, channel: Channel) -> None:
    reply = Reply(CHAT, "twice at most", "c1")
    slack.fail("cut")
    slack.forbidden.add("conversations.history")
    assert isinstance(await channel.send(reply), SendFailure)
    assert await channel.find(reply) is None
    assert isinstance(await channel.send(reply), SendReceipt)
    assert len(slack.visible_messages()) == 2
