"""What we do on Matrix besides plain messages, against the fake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palinurus.channels.matrix.channel import MatrixChannel
from palinurus.channels.matrix.rooms import MatrixRoom
from palinurus.core.types.channel import (
    DeleteAction,
    EditAction,
    PinAction,
    ReactAction,
    ReadAction,
    SendFailure,
    SendReceipt,
    ThreadAction,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.matrix.server import DIRECT, TOKEN, FakeMatrix
from palinurus.testing.matrix.state import ALICE, BOB, ME
from palinurus.testing.platform import make_channel_kit

CHAT = Target("matrix", DIRECT)


@pytest.fixture
async def matrix() -> AsyncIterator[FakeMatrix]:
    async with FakeMatrix() as made:
        yield made


@pytest.fixture
async def channel(matrix: FakeMatrix, tmp_path: Path) -> MatrixChannel:
    return await opened(matrix, tmp_path)


async def opened(matrix: FakeMatrix, folder: Path) -> MatrixChannel:
    made = matrix.channel(str(folder))
    assert isinstance(made, MatrixChannel)
    assert await made._introduced() is None
    return made


async def sent(channel: MatrixChannel, reply: Reply) -> str:
    answer = await channel.send(reply)
    assert isinstance(answer, SendReceipt), answer
    return answer.message_id


def test_what_is_missing_is_named_and_tokens_are_not_shown(tmp_path: Path) -> None:
    for own, missing in (({}, "homeserver"), ({"homeserver": "https://e.x"}, "accessToken")):
        with pytest.raises(ConfigError, match=missing):
            MatrixChannel(make_channel_kit("matrix", str(tmp_path), own))
    made = MatrixChannel(make_channel_kit("matrix", str(tmp_path), {"homeserver": "https://e.x", "accessToken": TOKEN}))
    assert TOKEN not in repr(vars(made))


async def test_reactions_come_and_go(matrix: FakeMatrix, channel: MatrixChannel) -> None:
    def left() -> list[str]:
        gone = matrix.redacted_ids()
        found = [e for e in matrix.stream if e["type"] == "m.reaction" and e["event_id"] not in gone]
        return [e["content"]["m.relates_to"]["key"] for e in found]

    ident = await matrix.say("hello")
    for emoji in ("👍", "👀", "🎉"):
        assert isinstance(await channel.act(CHAT, ReactAction(ident, emoji)), SendReceipt)
    assert isinstance(await channel.act(CHAT, ReactAction(ident, "👀", remove=True)), SendReceipt)
    assert left() == ["👍", "🎉"]
    assert isinstance(await channel.act(CHAT, ReactAction(ident, "", remove=True)), SendReceipt)
    assert left() == []


async def test_pins_threads_and_reading(matrix: FakeMatrix, channel: MatrixChannel) -> None:
    await matrix.say("one")
    ident = await sent(channel, Reply(CHAT, "two", "c1"))
    await channel.act(CHAT, PinAction("$other"))
    await channel.act(CHAT, PinAction(ident))
    await channel.act(CHAT, PinAction("$other", remove=True))
    assert matrix.pinned[DIRECT] == [ident]
    assert await channel.act(CHAT, ThreadAction("x", ident)) == SendReceipt(ident)
    assert isinstance(await channel.act(CHAT, ThreadAction("a new one")), SendReceipt)
    wrong = await sent(channel, Reply(CHAT, "taken back", "c2"))
    await channel.act(CHAT, DeleteAction(wrong))
    matrix.event(wrong)["content"] = {}  # type: ignore[index]
    await channel.act(CHAT, EditAction(ident, "two and a half"))
    read = await channel.act(CHAT, ReadAction(3))
    assert isinstance(read, SendReceipt) and [line["text"] for line in read.data] == [
        "one",
        "two and a half",
        "a new one",
    ]


async def test_a_person_can_be_written_to_by_id(matrix: FakeMatrix, channel: MatrixChannel, tmp_path: Path) -> None:
    target = Target("matrix", BOB)
    await sent(channel, Reply(target, "hello", "c1"))
    again = await opened(matrix, tmp_path)
    await sent(again, Reply(target, "again", "c2"))
    (room,) = matrix.direct[BOB]
    assert [one.text for one in matrix.visible_messages(room)] == ["hello", "again"] and matrix.members[room][
        BOB
    ] == "invite"


async def test_a_file_that_was_half_sent_is_completed_and_nothing_doubles(
    matrix: FakeMatrix, channel: MatrixChannel, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    reply = Reply(CHAT, "look", "c1", media=(str(tmp_path / "a.png"),))
    matrix.fail("limited", retry_after=1.0)
    assert isinstance(await channel.send(reply), SendFailure) and matrix.visible_messages() == []
    matrix.faults = ["", "limited"]  # the text goes, the file does not
    half = await channel.send(reply)
    assert isinstance(half, SendFailure) and [one.text for one in matrix.visible_messages()] == ["look"]
    again = await opened(matrix, tmp_path)
    assert await again.find(reply) is None
    ident = await sent(again, reply)
    assert [(one.text, one.media) for one in matrix.visible_messages()] == [("look", ()), ("", ("a.png",))]
    assert await again.find(reply) == SendReceipt(ident) == SendReceipt(matrix.visible_messages()[0].message_id)


async def test_what_was_sent_is_found_also_when_the_server_forgot_its_transaction(
    matrix: FakeMatrix, channel: MatrixChannel, tmp_path: Path
) -> None:
    reply = Reply(CHAT, "once", "c1")
    ident = await sent(channel, reply)
    matrix.forget()
    for number in range(250):
        await matrix.say(f"m{number}")
    assert await (await opened(matrix, tmp_path)).find(reply) == SendReceipt(ident)
    # What others write cannot pass for ours.
    await matrix.say("fake", **{"palinurus.client_id": "c2"})
    assert await channel.find(Reply(CHAT, "fake", "c2")) is None


async def test_only_two_alone_in_a_room_are_a_direct_chat(channel: MatrixChannel) -> None:
    rooms = channel._rooms
    two, three = {ME: "Pal", ALICE: "Alice"}, {ME: "Pal", ALICE: "Alice", BOB: "Bob"}
    assert rooms.kind("!r", MatrixRoom(two, "")) == "direct"
    assert rooms.kind("!r", MatrixRoom(two, "project")) == "group"
    assert rooms.kind("!r", None) == "group"
    rooms.direct = {ALICE: ["!r"]}
    assert rooms.kind("!r", MatrixRoom(two, "project")) == "direct"
    assert rooms.kind("!r", MatrixRoom(three, "")) == "group"  # whatever it is marked as
