"""One message on one channel, whatever the platform says to it: which calls are made, in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from palinurus.core.types.channel import (
    Channel,
    ChannelAbilities,
    ChannelAction,
    DeleteAction,
    EditAction,
    SendFailure,
    SendReceipt,
    SendTrouble,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.outbox import send
from palinurus.outbox.send import MessageSender, OutgoingMessage, SendShape, find_remedy, shape_reply

CHAT = Target("fake", "chat")
WORDS = "one two three four five six seven eight nine ten eleven twelve"


class Platform:
    """Says what `say` makes of each text; `there` are pieces that are found."""

    def __init__(self, say: Callable[[str], SendTrouble | None] = lambda text: None, *acts: str) -> None:
        self.abilities = ChannelAbilities(acts=frozenset(cast("Any", acts or ("edit", "delete"))))
        self.say = say
        self.sent: list[Reply] = []
        self.asked: list[str] = []
        self.acts: list[ChannelAction] = []
        self.there: dict[str, str] = {}
        self.refuses: dict[type, SendTrouble] = {}

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        if (trouble := self.say(reply.text)) is not None:
            return SendFailure("no", trouble)
        self.sent.append(reply)
        return SendReceipt(f"m{len(self.sent)}")

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        self.acts.append(act)
        trouble = self.refuses.get(type(act))
        return SendFailure("no", trouble) if trouble else SendReceipt("edited")

    async def find(self, reply: Reply) -> SendReceipt | None:
        self.asked.append(reply.client_id)
        found = self.there.get(reply.client_id)
        return SendReceipt(found) if found else None

    def sender(self) -> MessageSender:
        return MessageSender(cast("Channel", self))


def reply(text: str = WORDS, **more: Any) -> Reply:
    return Reply(CHAT, text, "id", **more)


def longer_than(most: int) -> Callable[[str], SendTrouble | None]:
    return lambda text: "long" if len(text) > most else None


async def test_pieces_get_smaller_until_they_fit_and_keep_their_order() -> None:
    platform = Platform(longer_than(20))
    made = reply(reply_to="e1", media=("/w/a.png",), voice=True, buttons=(Button("Yes", "/yes"),))
    assert await platform.sender().send(OutgoingMessage(made)) == SendReceipt("m1")  # that of the first piece
    assert " ".join(piece.text for piece in platform.sent) == WORDS and len(platform.sent) > 3
    assert [piece.client_id for piece in platform.sent] == [f"id.s{n + 1}" for n in range(len(platform.sent))]
    assert [piece.reply_to for piece in platform.sent] == ["e1"] + [""] * (len(platform.sent) - 1)
    *others, last = platform.sent
    assert (last.media, last.voice, last.buttons) == (made.media, True, made.buttons)
    assert all((piece.media, piece.voice, piece.buttons) == ((), False, ()) for piece in others)
    assert platform.asked == []  # it is the first time: nobody looks


async def test_what_is_no_voice_note_does_not_become_one_in_pieces() -> None:
    platform = Platform(longer_than(20))
    await platform.sender().send(OutgoingMessage(reply()))
    assert not any(piece.voice for piece in platform.sent)


async def test_pieces_that_are_found_are_not_sent_again() -> None:
    platform = Platform(longer_than(40))
    platform.there["id.s1"] = "before"
    assert await platform.sender().send(OutgoingMessage(reply(), again=True)) == SendReceipt("before")
    assert platform.asked[0] == "id.s1" and "id.s1" not in [piece.client_id for piece in platform.sent]
    assert platform.sent and platform.asked == ["id.s1", *(piece.client_id for piece in platform.sent)]


async def test_pieces_that_were_shown_before_a_trouble_are_remembered_until_it_is_over() -> None:
    troubles = ["down"]

    def say(text: str) -> SendTrouble | None:
        return "long" if text == WORDS else "down" if "seven" in text and troubles else None

    platform = Platform(say)
    sender = platform.sender()
    failed = await sender.send(OutgoingMessage(reply()))
    assert isinstance(failed, SendFailure) and failed.trouble == "down"
    shown = [piece.client_id for piece in platform.sent]
    troubles.clear()
    assert await sender.send(OutgoingMessage(reply())) == SendReceipt("m1")
    assert [piece.client_id for piece in platform.sent].count(shown[0]) == 1
    sender.over("id")
    await sender.send(OutgoingMessage(reply()))
    assert [piece.client_id for piece in platform.sent].count(shown[0]) == 2


@pytest.mark.parametrize(("size", "tries"), [(send.SMALLEST, 2), (send.SMALLEST + 1, 3)])
async def test_what_is_too_long_at_its_smallest_is_given_up(size: int, tries: int) -> None:
    """A piece of sixteen characters is not cut any further."""
    seen: list[str] = []

    def say(text: str) -> SendTrouble:
        seen.append(text)
        return "long"

    platform = Platform(say)
    failed = await platform.sender().send(OutgoingMessage(reply("x" * 2 * size)))
    assert isinstance(failed, SendFailure) and failed.trouble == "long" and platform.sent == []
    assert len(seen) == tries and [len(text) for text in seen[:2]] == [2 * size, size]


async def test_another_trouble_of_a_piece_ends_it_at_once() -> None:
    seen: list[str] = []

    def say(text: str) -> SendTrouble:
        seen.append(text)
        return "long" if text == WORDS else "down"

    failed = await Platform(say).sender().send(OutgoingMessage(reply()))
    assert isinstance(failed, SendFailure) and failed.trouble == "down" and len(seen) == 2


async def test_a_draft_becomes_the_answer_and_keeps_its_id() -> None:
    platform = Platform()
    made = reply("hi", buttons=(Button("Yes", "/yes"),), plain=True)
    assert await platform.sender().send(OutgoingMessage(made, draft="d1")) == SendReceipt("d1")
    assert platform.acts == [EditAction("d1", "hi", made.buttons, True)] and platform.sent == []


@pytest.mark.parametrize("trouble", send.FIXED)
async def test_a_draft_that_cannot_be_edited_goes_before_the_answer_comes(trouble: SendTrouble) -> None:
    platform = Platform()
    platform.refuses[EditAction] = trouble
    assert await platform.sender().send(OutgoingMessage(reply("hi"), draft="d1")) == SendReceipt("m1")
    assert platform.acts == [EditAction("d1", "hi"), DeleteAction("d1")] and len(platform.sent) == 1


async def test_a_draft_that_cannot_be_edited_now_is_left_for_the_next_try() -> None:
    platform = Platform()
    platform.refuses[EditAction] = "down"
    failed = await platform.sender().send(OutgoingMessage(reply("hi"), draft="d1"))
    assert isinstance(failed, SendFailure) and platform.acts == [EditAction("d1", "hi")] and platform.sent == []


async def test_a_draft_gives_way_to_a_file_and_to_pieces() -> None:
    for made, say in ((reply("hi", media=("/w/a.png",)), longer_than(99)), (reply(), longer_than(40))):
        platform = Platform(say)
        platform.refuses[EditAction] = "long"
        assert await platform.sender().send(OutgoingMessage(made, draft="d1")) == SendReceipt("m1")
        assert platform.acts[-1] == DeleteAction("d1") and platform.acts.count(DeleteAction("d1")) == 1
        assert (platform.acts[0] == EditAction("d1", WORDS)) == (not made.media)


async def test_without_a_draft_nothing_is_removed_and_where_nothing_can_be_nobody_tries() -> None:
    platform = Platform()
    await platform.sender().send(OutgoingMessage(reply("hi", media=("/w/a.png",))))
    assert platform.acts == [] and len(platform.sent) == 1
    platform = Platform(lambda text: None, "edit")
    await platform.sender().send(OutgoingMessage(reply("hi", media=("/w/a.png",)), draft="d1"))
    assert platform.acts == [] and len(platform.sent) == 1


async def test_a_channel_that_raises_may_have_sent_it() -> None:
    def broken(text: str) -> SendTrouble:
        raise RuntimeError("broken")

    failed = await Platform(broken).sender().send(OutgoingMessage(reply("hi")))
    assert isinstance(failed, SendFailure) and failed.trouble == "cut"


async def test_a_channel_that_does_not_answer_may_have_sent_it() -> None:
    def late(text: str) -> SendTrouble:
        raise TimeoutError

    failed = await Platform(late).sender().send(OutgoingMessage(reply("hi")))
    assert isinstance(failed, SendFailure) and failed.trouble == "cut" and "no answer" in failed.reason


def test_remedies_for_what_can_be_remedied() -> None:
    assert find_remedy("long", SendShape(), reply("x")) is None  # one character is as short as it gets
    assert find_remedy("long", SendShape(), reply("xy")) == SendShape(small=True)
    assert find_remedy("media", SendShape(), reply("x")) is None
    assert find_remedy("markup", SendShape(), reply("x", plain=True)) is None
    assert find_remedy("media", SendShape(plain=True), reply("x", media=("a",))) == SendShape(plain=True, bare=True)


def test_a_reply_keeps_what_nobody_refused() -> None:
    made = reply("x", media=("/w/a.png",), voice=True)
    assert shape_reply(made, SendShape()) == made
    assert shape_reply(made, SendShape(plain=True)) == reply("x", media=("/w/a.png",), voice=True, plain=True)
    assert shape_reply(reply("x "), SendShape(bare=True)) == reply("x ")
    assert shape_reply(made, SendShape(bare=True)) == reply("x\n\n📎 a.png")
