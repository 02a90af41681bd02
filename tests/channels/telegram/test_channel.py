"""The channel by itself: what it acknowledges and when, requests to us, files in several messages, its health."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from channels.scene import until
from palinurus.channels.telegram.channel import BUSY, TelegramChannel, make_telegram_channel
from palinurus.core.types.channel import (
    ChannelHttpRequest,
    DeleteAction,
    EditAction,
    PinAction,
    PollAction,
    ReactAction,
    ReadAction,
    SendFailure,
    SendReceipt,
    ThreadAction,
    TypingAction,
)
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError, Draining, PalinurusError, QueueFull
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.telegram.api import TOKEN
from palinurus.testing.telegram.server import ANN, FORUM, GROUP, FakeTelegram

CHAT = Target("telegram", str(ANN))


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as made:
        yield made


class Taker:
    """A `submit` that keeps what it is given; `full` names chats that take nothing."""

    def __init__(self) -> None:
        self.heard: list[Inbound] = []
        self.full: set[str] = set()
        self.tries = 0

    async def __call__(self, inbound: Inbound) -> str:
        self.tries += 1
        if inbound.target.to in self.full:
            raise QueueFull("no room")
        self.heard.append(inbound)
        return str(len(self.heard))

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.heard]


@asynccontextmanager
async def receiving(channel: TelegramChannel, submit: Any) -> AsyncIterator[TelegramChannel]:
    task = asyncio.ensure_future(channel.run(submit))
    try:
        await until(lambda: channel.status().state == "ready" or task.done())
        yield channel
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_only_what_was_taken_is_acknowledged(tmp_path: Path, fake: FakeTelegram) -> None:
    taker = Taker()
    taker.full = {str(ANN)}
    async with receiving(fake.channel(str(tmp_path)), taker):
        await fake.say("one")
        await fake.say("of bob", chat="bob")
        await fake.say("two")
        await until(lambda: taker.texts == ["of bob"] and taker.tries > 3)
        assert [update["message"]["text"] for update in fake.updates] == ["one", "of bob", "two"]
        taker.full = set()
        await until(lambda: not fake.updates)
    assert taker.texts == ["of bob", "one", "two"]  # each once, and each chat in its order


async def test_a_flood_in_one_chat_keeps_nobody_else_waiting(tmp_path: Path, fake: FakeTelegram) -> None:
    taker = Taker()
    taker.full = {str(ANN)}
    for number in range(250):
        await fake.say(f"flood {number}")
    await fake.say("hello", chat="bob")
    async with receiving(fake.channel(str(tmp_path)), taker):
        await until(lambda: taker.texts == ["hello"])
        assert fake.read() == [BUSY, BUSY]  # a notice for every batch that was refused
        assert len(fake.updates) == 51
        taker.full = set()
        await until(lambda: len(taker.texts) == 51)
    assert taker.texts[1:] == [f"flood {number}" for number in range(200, 250)]


async def test_a_message_that_breaks_the_program_keeps_no_other_chat_waiting(
    tmp_path: Path, fake: FakeTelegram
) -> None:
    heard: list[str] = []

    async def breaks(inbound: Inbound) -> str:
        if inbound.text == "bad":
            raise RuntimeError("a bug")
        heard.append(inbound.text)
        return "1"

    async with receiving(fake.channel(str(tmp_path)), breaks):
        await fake.say("bad")
        await fake.say("after it")
        await fake.say("hello", chat="bob")
        await until(lambda: heard == ["hello"])
        assert len(fake.updates) == 3  # it may be mended, and then they are answered in order
        for number in range(100):
            await fake.say(f"b{number}", chat="bob")
        await until(lambda: len(heard) == 101 and not fake.updates)
    assert heard[1:] == [f"b{number}" for number in range(100)] and fake.read() == [BUSY]


async def test_draining_keeps_everything_at_telegram(tmp_path: Path, fake: FakeTelegram) -> None:
    async def drained(inbound: Inbound) -> str:
        raise Draining("going down")

    for number in range(120):
        await fake.say(f"m{number}")
    async with receiving(fake.channel(str(tmp_path)), drained):
        await until(lambda: len(fake.calls_of("getUpdates")) > 5)
    assert len(fake.updates) == 120 and fake.read() == []


async def test_an_update_that_cannot_be_read_stops_nothing(tmp_path: Path, fake: FakeTelegram) -> None:
    taker = Taker()
    async with receiving(fake.channel(str(tmp_path)), taker):
        fake.add(message={"message_id": "x", "chat": 7})
        fake.add(message=None, strange={"new": "things"})
        fake.add(callback_query={"id": "1"})
        fake.add(callback_query=[1], message="words")
        await fake.say("still here")
        await until(lambda: taker.texts == ["still here"] and not fake.updates)


async def test_a_minute_without_telegram_is_a_handful_of_tries(tmp_path: Path, fake: FakeTelegram) -> None:
    clock, taker = FakeClock(), Taker()
    channel = make_telegram_channel(make_channel_kit("telegram", str(tmp_path), fake.section, clock))
    async with receiving(channel, taker):
        await fake.cut()
        await until(lambda: clock.sleeper_count)
        await fake.say("meanwhile")
        for _ in range(12):
            await clock.advance(5)
            await until(lambda: clock.sleeper_count)  # another try has failed
        tries = len(clock.slept)
        assert 8 <= tries <= 20 and max(clock.slept) <= 30 and channel.status().state == "reconnecting"
        await fake.mend()
        await clock.advance(30)
        await until(lambda: taker.texts == ["meanwhile"])
        assert channel.status().state == "ready" and len(clock.slept) == tries


async def test_a_refused_token_ends_the_channel_and_says_what_to_do(tmp_path: Path, fake: FakeTelegram) -> None:
    channel = fake.channel(str(tmp_path), botToken="1:wrong")
    async with asyncio.timeout(60):
        await channel.run(Taker())
    assert channel.status().state == "signed_out" and "@BotFather" in channel.status().detail
    answer = await channel.send(Reply(CHAT, "hello", "c1"))
    assert isinstance(answer, SendFailure) and answer.trouble == "signed_out"


async def test_another_program_with_the_same_token_is_told_of(tmp_path: Path, fake: FakeTelegram) -> None:
    one, two = fake.channel(str(tmp_path)), fake.channel(str(tmp_path))
    async with receiving(one, Taker()), receiving(two, Taker()):
        await until(lambda: "other getUpdates" in one.status().detail + two.status().detail)


def test_a_token_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="botToken"):
        make_telegram_channel(make_channel_kit("telegram", str(tmp_path), {}))
    with pytest.raises(ConfigError, match="webhookSecret"):
        make_telegram_channel(
            make_channel_kit("telegram", str(tmp_path), {"botToken": "1:x", "webhookUrl": "https://e.x/"})
        )
    with pytest.raises(ConfigError, match="tokenFile"):
        make_telegram_channel(make_channel_kit("telegram", str(tmp_path), {"tokenFile": str(tmp_path / "none")}))


async def test_the_token_of_a_file(tmp_path: Path, fake: FakeTelegram) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    channel = fake.channel(str(tmp_path), botToken="", tokenFile=str(tmp_path / "token"))
    async with receiving(channel, Taker()):
        assert channel.status().state == "ready"


# requests to us


def request(update: Any, secret: str = "s-3", method: str = "POST") -> ChannelHttpRequest:
    body = update if isinstance(update, bytes) else json.dumps(update).encode()
    return ChannelHttpRequest(method, {"x-telegram-bot-api-secret-token": secret} if secret else {}, {}, body)


async def test_requests_need_the_secret_and_are_answered_when_taken(tmp_path: Path, fake: FakeTelegram) -> None:
    channel = fake.channel(
        str(tmp_path), webhookUrl="https://pal.example/channels/telegram/default", webhookSecret="s-3"
    )
    taker = Taker()
    message = {"message_id": 5, "date": 1, "chat": fake.describe_chat(ANN), "from": fake.user(ANN), "text": "hi"}
    update = {"update_id": 1, "message": message}
    assert (await channel.hook(request(update), taker)).status == 503  # not connected yet
    async with receiving(channel, taker):
        assert fake.hook["url"] == "https://pal.example/channels/telegram/default"
        assert (fake.hook["secret_token"], "callback_query" in fake.hook["allowed_updates"]) == ("s-3", True)
        for wrong in ("", "s-2", "s-3x", "ß"):
            assert (await channel.hook(request(update, wrong), taker)).status == 401
        assert (await channel.hook(request(b"{"), taker)).status == 400
        assert (await channel.hook(request([1]), taker)).status == 400
        assert taker.heard == []
        assert (await channel.hook(request(update), taker)).status == 200
        taker.full = {str(ANN)}
        with pytest.raises(PalinurusError):  # the gateway answers with an error, and Telegram asks again
            await channel.hook(request(update), taker)
    assert taker.texts == ["hi"] and fake.calls_of("getUpdates") == []


async def test_who_polls_takes_no_requests(tmp_path: Path, fake: FakeTelegram) -> None:
    fake.hook = {"url": "https://old.example/"}
    channel = fake.channel(str(tmp_path))
    async with receiving(channel, Taker()):
        assert fake.hook == {}  # Telegram would not let us poll
        assert (await channel.hook(request({}), Taker())).status == 404


# sending


async def test_a_retry_goes_on_where_the_last_try_stopped(tmp_path: Path, fake: FakeTelegram) -> None:
    channel = fake.channel(str(tmp_path))
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(PNG)
    reply = Reply(CHAT, "x" * 2000, "c1", media=(str(tmp_path / "a.png"), str(tmp_path / "b.png")))
    await channel.send(Reply(CHAT, "before", "c0"))
    fake.faults = ["ok", "ok"]  # two go well
    fake.fail("limited", retry_after=3)
    answer = await channel.send(reply)
    assert isinstance(answer, SendFailure) and (answer.trouble, answer.retry_after) == ("limited", 3.0)
    sent = await channel.send(reply)
    shown = fake.visible_messages()[1:]
    assert isinstance(sent, SendReceipt) and sent.message_id == shown[0].message_id
    assert [one.media for one in shown] == [(), ("a.png",), ("b.png",)] and shown[0].text == "x" * 2000


async def test_no_address_of_an_answer_is_fetched_for_a_preview(tmp_path: Path, fake: FakeTelegram) -> None:
    await fake.channel(str(tmp_path)).send(Reply(CHAT, "see https://evil.example/?d=secret", "c0"))
    assert "true" in str(fake.calls_of("sendMessage")[-1]["link_preview_options"]).lower()


async def test_a_file_that_telegram_refuses_is_told_of(tmp_path: Path, fake: FakeTelegram) -> None:
    channel = fake.channel(str(tmp_path))
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "good.png").write_bytes(PNG)
    bad, good = str(tmp_path / "empty.png"), str(tmp_path / "good.png")
    answer = await channel.send(Reply(CHAT, "short", "c1", media=(bad,)))
    assert isinstance(answer, SendFailure) and answer.trouble == "media" and fake.read() == []
    assert isinstance(await channel.send(Reply(CHAT, "y" * 2000, "c2", media=(bad, good))), SendReceipt)
    assert fake.read()[1].startswith("empty.png could not be sent") and fake.visible_messages()[2].media == (
        "good.png",
    )
    answer = await channel.send(Reply(CHAT, "z", "c3", media=(str(tmp_path / "none.png"),)))
    assert isinstance(answer, SendFailure) and answer.trouble == "media"


async def test_what_else_can_be_done(tmp_path: Path, fake: FakeTelegram) -> None:
    channel = fake.channel(str(tmp_path))
    heard = await fake.say("hi")
    event = f"{ANN}:{heard}"
    assert isinstance(await channel.act(CHAT, ReactAction(event, "👀")), SendReceipt)
    assert fake.reactions[ANN, int(heard)] == ["👀"]
    assert isinstance(await channel.act(CHAT, ReactAction(event, "👀", remove=True)), SendReceipt)
    assert fake.reactions[ANN, int(heard)] == []
    sent = await channel.send(Reply(CHAT, "same", "c1", reply_to=event))
    assert isinstance(sent, SendReceipt) and fake.visible_messages()[0].reply_to == heard
    for act in (
        EditAction(sent.message_id, "same"),
        PinAction(sent.message_id),
        PinAction(sent.message_id, remove=True),
    ):
        assert isinstance(await channel.act(CHAT, act), SendReceipt), act
    for act in (DeleteAction(sent.message_id), DeleteAction(sent.message_id)):  # what is gone is gone
        assert isinstance(await channel.act(CHAT, act), SendReceipt)
    assert isinstance(await channel.act(CHAT, PollAction("Tea?", ("yes", "no"))), SendReceipt)
    assert fake.read() == ["Tea?\nyes\nno"]
    forum = Target("telegram", str(FORUM))
    topic = await channel.act(forum, ThreadAction("Plans"))
    assert isinstance(topic, SendReceipt)
    sent = await channel.send(Reply(Target("telegram", str(FORUM), thread=topic.message_id), "in it", "c2"))
    assert isinstance(sent, SendReceipt) and fake.read("forum", int(topic.message_id)) == ["in it"]
    assert isinstance(
        await channel.act(Target("telegram", str(FORUM), thread=topic.message_id), TypingAction()), SendReceipt
    )
    assert fake.calls_of("sendChatAction")[-1]["message_thread_id"] == topic.message_id
    for bad in (
        ReactAction("press/7", "👀"),
        ReactAction(event, "no emoji"),
        EditAction("x", "y"),
        EditAction("999", "y"),
        ReadAction(),
    ):
        answer = await channel.act(CHAT, bad)
        assert isinstance(answer, SendFailure) and answer.trouble == "refused", bad


async def test_words_below_a_file_can_be_edited(tmp_path: Path, fake: FakeTelegram) -> None:
    channel = fake.channel(str(tmp_path))
    (tmp_path / "a.png").write_bytes(PNG)
    sent = await channel.send(Reply(CHAT, "*draft*", "c1", media=(str(tmp_path / "a.png"),)))
    assert isinstance(sent, SendReceipt) and isinstance(
        await channel.act(CHAT, EditAction(sent.message_id, "**done**")), SendReceipt
    )
    assert [(one.text, one.media) for one in fake.visible_messages()] == [("done", ("a.png",))]


@pytest.mark.parametrize("to", ["", "ann", "12ab", "１２", "@", "-"])
async def test_what_is_no_chat_is_gone(tmp_path: Path, fake: FakeTelegram, to: str) -> None:
    answer = await fake.channel(str(tmp_path)).send(Reply(Target("telegram", to), "hi", "c1"))
    assert isinstance(answer, SendFailure) and answer.trouble == "gone" and fake.calls == []


async def test_the_general_topic_is_not_named(tmp_path: Path, fake: FakeTelegram) -> None:
    channel = fake.channel(str(tmp_path))
    assert isinstance(await channel.send(Reply(Target("telegram", str(FORUM), thread="1"), "hi", "c1")), SendReceipt)
    gone = await channel.send(Reply(Target("telegram", str(FORUM), thread="77"), "hi", "c2"))
    assert isinstance(gone, SendFailure) and gone.trouble == "gone"


async def test_a_group_may_be_told_of_its_new_id_by_an_error(tmp_path: Path, fake: FakeTelegram) -> None:
    fake.chats[-9] = dict(fake.chats[GROUP])
    fake.moved[GROUP] = -9
    old = Target("telegram", str(GROUP))
    for channel in (fake.channel(str(tmp_path)), fake.channel(str(tmp_path))):
        async with receiving(channel, Taker()):
            assert isinstance(await channel.send(Reply(old, "hi", "c1")), SendReceipt)
    assert [one.text for one in fake.messages if one.chat == -9] == ["hi", "hi"]
    assert len(fake.calls_of("sendMessage")) == 3  # the second time nobody had to be told


async def test_privacy_mode_is_named_where_it_matters(tmp_path: Path, fake: FakeTelegram) -> None:
    fake.me["can_read_all_group_messages"] = False
    for groups, hint in (({}, False), ({"*": {"requireMention": False}}, True)):
        channel = fake.channel(str(tmp_path), groups=groups)
        async with receiving(channel, Taker()):
            assert ("/setprivacy" in channel.status().detail) is hint


async def test_an_album_is_one_message_also_when_its_pictures_come_one_by_one(
    tmp_path: Path, fake: FakeTelegram
) -> None:
    taker = Taker()

    def picture(number: int, album: str, **more: Any) -> dict[str, Any]:
        photo = {**fake.keep(f"photos/{number}.jpg", PNG), "width": 1, "height": 1}
        return {"photo": [photo], "media_group_id": album, **more}

    async with receiving(fake.channel(str(tmp_path)), taker):
        first = fake.tell(picture(1, "a", caption="which one?"))
        await asyncio.sleep(0.02)
        last = fake.tell(picture(2, "a"))
        await until(lambda: taker.heard)
        fake.tell(picture(3, "b"))
        fake.tell(picture(4, "c"), chat="bob")
        fake.tell(picture(5, "b"))
        await fake.say("so?")
        await until(lambda: len(taker.heard) == 4 and not fake.updates)
    album = taker.heard[0]
    assert (album.text, album.event, len(album.files)) == ("which one?", f"{ANN}:{last}", 2) and first != last
    of_ann = [one for one in taker.heard[1:] if one.sender.id == str(ANN)]
    assert [len(one.files) for one in of_ann] == [2, 0] and of_ann[1].text == "so?"
    assert of_ann[0].text == "[file: photo.jpg]\n[file: photo.jpg]"
