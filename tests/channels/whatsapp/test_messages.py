from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.channels.whatsapp.messages import explain_whatsapp_error
from palinurus.channels.whatsapp.port import WhatsAppRefusal
from palinurus.core.types.channel import EditAction, ReactAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.testing.whatsapp import HUMAN, FakeWhatsApp


@pytest.mark.parametrize(
    ("text", "sending", "word"),
    [
        ("failed to get device list: failed to send usync query: websocket not connected", False, "down"),
        ("dial tcp: lookup web.whatsapp.com: no such host", False, "down"),
        ("the store doesn't contain a device JID", True, "signed_out"),
        ("server returned error 429", True, "limited"),
        ("timed out waiting for message send response", True, "cut"),
        ("upload: failed to execute request", False, "media"),
        ("server returned error 403", True, "gone"),
        ("server returned error 479", True, "refused"),
        ("server returned error 503", True, "down"),
        ("what is this", True, "cut"),
        ("what is this", False, "refused"),
    ],
)
def test_every_complaint_has_its_word(text: str, sending: bool, word: str) -> None:
    found = explain_whatsapp_error(WhatsAppRefusal(text, sending=sending))
    assert found.trouble == word and text in found.reason and (found.retry_after is not None) == (word == "limited")


async def test_files_captions_and_sounds(tmp_path: Path) -> None:
    people = FakeWhatsApp()
    channel = people.channel(str(tmp_path))
    for name in ("a.png", "b.pdf", "c.ogg"):
        (tmp_path / name).write_bytes(b"x")
    files = {name: str(tmp_path / name) for name in ("a.png", "b.pdf", "c.ogg")}
    target = Target("whatsapp", HUMAN)
    assert isinstance(
        await channel.send(Reply(target, "look", "1", media=(files["a.png"], files["b.pdf"]))), SendReceipt
    )
    assert [one[1:3] for one in people.visible_messages()] == [("look", ("a.png",)), ("", ("b.pdf",))]
    await channel.send(Reply(target, "listen", "2", media=(files["c.ogg"],), voice=True))
    assert [one[1:3] for one in people.visible_messages()[2:]] == [
        ("listen", ()),
        ("", ("c.ogg",)),
    ]  # a sound has no caption
    assert people.seen[-1]["post"].voice
    people.faults = ["refused"]
    assert isinstance(await channel.send(Reply(target, "x", "3", media=("/etc/passwd",))), SendFailure)
    assert people.faults == ["refused"]  # it never came that far


async def test_when_the_second_file_fails_nobody_says_all_of_it_again_for_sure(tmp_path: Path) -> None:
    people = FakeWhatsApp()
    channel = people.channel(str(tmp_path))
    (tmp_path / "a.png").write_bytes(b"x")
    people.faults = ["", "refused"]  # type: ignore[list-item]
    path = str(tmp_path / "a.png")
    answer = await channel.send(Reply(Target("whatsapp", HUMAN), "look", "1", media=(path, path)))
    assert isinstance(answer, SendFailure) and answer.trouble == "cut"


async def test_acts_name_the_sender_of_a_message(tmp_path: Path) -> None:
    people = FakeWhatsApp()
    channel, target = people.channel(str(tmp_path)), Target("whatsapp", HUMAN)
    assert isinstance(await channel.act(target, ReactAction(f"{HUMAN}/ID1", "👀")), SendReceipt)
    await channel.act(target, ReactAction("ID2", "👀", remove=True))
    assert people.calls == [("react", HUMAN, HUMAN, "ID1", "👀"), ("react", HUMAN, "", "ID2", "")]
    assert isinstance(await channel.act(target, EditAction("nothing", "x")), SendFailure)
