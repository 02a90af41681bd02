"""Google Chat: whose request it is, what was said, and one copy of what we say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from channels.web.payloads import JSON
from palinurus.channels.googlechat.channel import GoogleChatChannel, make_message_id
from palinurus.channels.googlechat.inbound import parse_event, write_text
from palinurus.core.types.channel import SendFailure, SendReceipt
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import ChannelHarness, wait_until
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.web.googlechat import ALICE, AUDIENCE, GROUP, ME, FakeGoogleChat
from palinurus.testing.web.keys import write_test_pem

EVENT: dict[str, Any] = {
    "type": "MESSAGE", "space": {"name": "spaces/A", "type": "ROOM"},
    "message": {"name": "spaces/A/messages/1", "sender": {"name": ALICE, "type": "HUMAN"}, "text": "hi"},
}  # fmt: skip


def heard(me: str = "", **message: Any) -> Any:
    event = {**EVENT, "message": {**EVENT["message"], **message}}
    return parse_event(event, "default", "https://c.example", me, now=0)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ChannelHarness]:
    async with FakeGoogleChat() as platform:
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


async def test_only_google_chat_is_believed(world: ChannelHarness) -> None:
    fake = world.platform
    assert await fake.post(fake.sign_request({"type": "ADDED_TO_SPACE"})) == 200
    for wrong in (
        fake.sign_request(EVENT, aud="https://other.example"),
        fake.sign_request(EVENT, iss="https://evil.example"),
        fake.sign_request(EVENT, exp=1),
        fake.sign_request(EVENT, email="somebody@gmail.com"),  # Google signs for everybody who asks
        fake.sign_request(EVENT, email_verified=False),
    ):
        assert await fake.post(wrong) == 401
    assert world.heard == [] and world.platform.answers[0].body == b"{}"


async def test_an_app_that_is_known_by_its_project(tmp_path: Path) -> None:
    async with FakeGoogleChat() as fake:
        own = {**fake.section, "audienceType": "project-number", "audience": "1234"}
        made = GoogleChatChannel(make_channel_kit("googlechat", str(tmp_path), own))
        chat = "chat@system.gserviceaccount.com"
        right = await made.accept(fake.sign_request(EVENT, iss=chat, aud="1234", email=None))
        assert getattr(right, "heard", ()) and getattr(await made.accept(fake.sign_request(EVENT)), "status", 0) == 401


def test_what_people_say() -> None:
    mention = [{"type": "USER_MENTION", "userMention": {"user": {"name": ME, "type": "BOT"}}}]
    said = heard(ME, text="@Pal go", argumentText=" go", annotations=mention).inbound
    assert (said.text, said.mentioned, said.kind) == ("go", True, "channel")
    assert not heard("users/5", text="@Pal go", annotations=mention).inbound.mentioned  # another bot is named
    assert heard(text="@Pal go", annotations=mention).inbound.mentioned and not heard().inbound.mentioned
    assert heard(thread={"name": "spaces/A/threads/T"}).inbound.target.thread == "spaces/A/threads/T"
    assert (
        heard(sender={"name": "users/7", "type": "BOT"}).inbound.sender.bot
        and heard(sender={"name": ME}, me=ME) is None
    )
    (file,) = heard(
        attachment=[{"contentName": "a.txt", "attachmentDataRef": {"resourceName": "R"}}, {"driveDataRef": {}}]
    ).files
    assert (file.name, file.source) == ("a.txt", "https://c.example/v1/media/R?alt=media")


@settings(max_examples=60)
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(payload: Any) -> None:
    for body in (payload, {**EVENT, "message": payload}, {**EVENT, "space": payload}):
        if isinstance(body, dict):
            parse_event(body, "default", "b", "", now=0)
    heard(annotations=payload, attachment=payload, thread=payload)


def test_nobody_is_called_by_what_a_model_writes() -> None:
    assert write_text("**all** of <users/all>", plain=False) == "*all* of <\u200busers/all>"
    assert "<users/" not in write_text("<users/123>", plain=True)


async def test_a_repeat_is_one_message_and_can_be_found(world: ChannelHarness) -> None:
    reply = Reply(await world.target(), "once", "C_1.p2")
    world.platform.fail("cut")
    assert isinstance(await world.channel.send(reply), SendFailure)
    await world.restart()
    found, sent = await world.channel.find(reply), await world.channel.send(reply)
    assert found == sent and [one.text for one in world.platform.visible_messages()] == ["once"]
    ident = make_message_id("C_1.p2")
    assert ident == ident.lower() and len(ident) <= 63 and ident.startswith("client-")


async def test_a_thread_is_answered_in_it_and_files_come_in(world: ChannelHarness) -> None:
    world.platform.files["R"] = b"bytes"
    sent = [{"contentName": "a.txt", "contentType": "text/plain", "attachmentDataRef": {"resourceName": "R"}}]
    await world.platform.say("look", chat="group", mention=True, attachment=sent)
    await wait_until(lambda: bool(world.heard))
    assert Path(world.heard[0].files[0].path).read_bytes() == b"bytes"
    assert isinstance(await world.channel.send(Reply(world.heard[0].target, "seen", "c")), SendReceipt)
    assert [one.reply_to for one in world.platform.visible_messages("group")] == [f"{GROUP}/threads/T"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    account = {"client_email": "a@b", "private_key": write_test_pem()}
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account))
    for own, key in (
        ({}, "serviceAccount"),
        ({"serviceAccount": {**account, "private_key": "x"}}, "serviceAccount"),
        ({"serviceAccountFile": str(tmp_path / "no")}, "serviceAccountFile"),
        ({"serviceAccount": account}, "audience"),
        ({"serviceAccount": account, "audience": "x", "audienceType": "y"}, "audienceType"),
    ):
        with pytest.raises(ConfigError, match=key):
            GoogleChatChannel(make_channel_kit("googlechat", str(tmp_path), own))
    for own in ({"serviceAccountFile": str(path)}, {"serviceAccount": json.dumps(account)}):
        made = GoogleChatChannel(make_channel_kit("googlechat", str(tmp_path), {**own, "audience": AUDIENCE}))
        assert "PRIVATE" not in repr(vars(made))
