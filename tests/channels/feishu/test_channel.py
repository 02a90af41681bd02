"""Feishu: whose request it is, which way an answer goes, and what becomes of files."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from channels.feishu.sealing import seal_event
from channels.web.payloads import JSON
from palinurus.channels.feishu.channel import FeishuChannel, open_event
from palinurus.channels.feishu.inbound import RECEIVED, FeishuContext, find_message, parse_message
from palinurus.core.types.channel import (
    ChannelHttpRequest,
    DeleteAction,
    EditAction,
    PinAction,
    ReactAction,
    SendFailure,
    SendReceipt,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import PNG, ChannelHarness, wait_until
from palinurus.testing.platform import HumanMessage, make_channel_kit
from palinurus.testing.web.feishu import APP, GROUP, KEY, ME, SECRET, TOKEN, FakeFeishu

HELLO = HumanMessage("hello", "", "", "", mention=False, times=1)
OWN = {"appId": APP, "appSecret": SECRET, "verificationToken": TOKEN, "encryptKey": KEY}
CHALLENGE = {"type": "url_verification", "challenge": "ajls384k", "token": TOKEN}


def make(folder: Path, **own: Any) -> FeishuChannel:
    return FeishuChannel(make_channel_kit("feishu", str(folder), {**OWN, **own}))


async def status(made: FeishuChannel, request: ChannelHttpRequest) -> int:
    async def submit(inbound: object) -> str:
        raise AssertionError("nothing was said")

    return (await made.hook(request, submit)).status


def test_the_vendors_own_sealed_text() -> None:
    """The example of Feishu's page on receiving events: the key "test key" and what it opens to."""
    sealed = "P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="
    assert open_event("test key", sealed) == b"hello world"
    for wrong in ("", "?", sealed[:-4], base64.b64encode(bytes(48)).decode()):
        assert open_event("test key", wrong) is None


async def test_the_question_whether_we_are_there(tmp_path: Path) -> None:
    """It is sealed but not signed, and answered only to who knows the token."""
    sealed = {"encrypt": seal_event(KEY, json.dumps(CHALLENGE).encode())}
    request = ChannelHttpRequest("POST", {}, {}, json.dumps(sealed).encode())
    answer = await make(tmp_path).accept(request)
    assert getattr(answer, "body", b"") == b'{"challenge": "ajls384k"}'
    plain = ChannelHttpRequest("POST", {}, {}, json.dumps(CHALLENGE).encode())
    assert getattr(await make(tmp_path, encryptKey="").accept(plain), "status", 0) == 200
    assert await status(make(tmp_path), plain) == 401  # with a key nothing comes readable
    other = ChannelHttpRequest("POST", {}, {}, json.dumps({**CHALLENGE, "token": "other"}).encode())
    assert await status(make(tmp_path, encryptKey=""), other) == 401


async def test_only_signed_requests_are_read(tmp_path: Path) -> None:
    made, fake = make(tmp_path), FakeFeishu(seal_event)
    event = {"header": {"event_type": "im.chat.updated_v1", "token": TOKEN}, "event": {}}
    right = fake.sign_request(json.dumps(event).encode())
    assert await status(made, right) == 200
    assert await status(made, ChannelHttpRequest("POST", {}, {}, right.body)) == 401
    odd = {**right.headers, "x-lark-signature": "\udcff", "x-lark-request-nonce": "\udcff"}
    assert await status(made, ChannelHttpRequest("POST", odd, {}, right.body)) == 401
    assert await status(made, ChannelHttpRequest("POST", right.headers, {}, right.body + b" ")) == 401
    assert await status(made, fake.sign_request(json.dumps(event).encode(), "another key")) == 401
    event["header"]["token"] = "other"
    assert await status(made, fake.sign_request(json.dumps(event).encode())) == 401
    large = {"encrypt": seal_event(KEY, json.dumps({**CHALLENGE, "x": "x" * 9000}).encode())}
    assert await status(made, ChannelHttpRequest("POST", {}, {}, json.dumps(large).encode())) == 401


async def test_before_we_know_who_we_are_it_has_to_come_again(tmp_path: Path) -> None:
    assert await status(make(tmp_path), FakeFeishu(seal_event).make_request(HELLO, "1", {})) == 503


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ({"appId": ""}, "appId"),
        ({"appSecret": ""}, "appSecret"),
        ({"verificationToken": ""}, "verificationToken"),
        ({"domain": "elsewhere"}, "domain"),
        ({"connectionMode": "websocket"}, "connectionMode"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, own: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        make(tmp_path, **own)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(tmp_path: Path, payload: Any) -> None:
    made = make(tmp_path, encryptKey="")
    bodies = (payload, {"header": {"event_type": RECEIVED, "token": TOKEN}, "event": payload})

    async def main() -> None:
        for body in bodies:
            await made.accept(ChannelHttpRequest("POST", {}, {}, json.dumps(body).encode()))

    asyncio.run(main())
    said = {"message_id": "om_1", "chat_id": "oc_1", "content": json.dumps(payload), "message_type": "post"}
    for message in (payload, said, {**said, "mentions": payload}, {**said, "content": payload}):
        event = {"sender": {"sender_id": {"open_id": "ou_1"}}, "message": message}
        found = find_message({"header": {"event_type": RECEIVED}, "event": event})
        assert found is None or parse_message(found, FeishuContext("default", "https://x.example", ME))


class FeishuHarness(ChannelHarness):
    platform: FakeFeishu


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    async with FakeFeishu() as platform:
        made = FeishuHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


async def test_names_are_looked_up_and_can_be_missing(world: FeishuHarness) -> None:
    await world.platform.say("hi", chat="group", mention=True)
    await wait_until(lambda: len(world.heard) == 1)
    heard = world.heard[0]
    assert (heard.sender.name, heard.title, heard.sender.also, heard.target.to) == ("Ann", "Harbour", ("u1",), GROUP)
    world.platform.nameless = True
    await world.platform.say("hi", sender="ou_bob")
    await wait_until(lambda: len(world.heard) == 2)
    assert (world.heard[1].sender.id, world.heard[1].sender.name) == ("ou_bob", "")


async def test_an_answer_in_a_topic_stays_there(world: FeishuHarness) -> None:
    await world.platform.say("topic", chat="group", event="om_root", thread_id="omt_1")
    await world.platform.say("below", chat="group", thread_id="omt_1", root_id="om_root", parent_id="om_root")
    await wait_until(lambda: len(world.heard) == 2)
    assert {one.target.thread for one in world.heard} == {"om_root"}
    assert isinstance(await world.channel.send(Reply(world.heard[1].target, "here", "c1")), SendReceipt)
    ((how, root, given),) = world.platform.calls
    assert (how, root, given["reply_in_thread"]) == ("reply", "om_root", True)


async def test_what_was_recalled_is_answered_without_it(world: FeishuHarness) -> None:
    target = await world.target()
    world.platform.recalled.add("om_gone")
    world.platform.places["om_gone"] = target.to
    assert isinstance(await world.channel.send(Reply(target, "so?", "c1", reply_to="om_gone")), SendReceipt)
    assert isinstance(await world.channel.send(Reply(target, "yes", "c2", reply_to="om_1001")), SendReceipt)
    assert [(how, root) for how, root, _ in world.platform.calls] == [("chat_id", ""), ("reply", "om_1001")]
    assert len({given["uuid"] for _, _, given in world.platform.calls}) == 2


@pytest.mark.parametrize(
    ("to", "kind"), [("ou_x", "open_id"), ("on_x", "union_id"), ("a@b.c", "email"), ("u7", "user_id")]
)
async def test_people_can_be_named_in_all_of_feishus_ways(world: FeishuHarness, to: str, kind: str) -> None:
    assert isinstance(await world.channel.send(Reply(Target("feishu", to), "x", "c")), SendReceipt)
    assert world.platform.calls[-1][0] == kind


async def test_files_go_up_first_and_are_messages_of_their_own(world: FeishuHarness, tmp_path: Path) -> None:
    """Each with its own uuid: tried again after a lost answer, everything is there once."""
    target = await world.target()
    for name, data in (("a.png", PNG), ("b.pdf", b"%PDF-1.4"), ("c.bin", b"\x00\x01")):
        (tmp_path / name).write_bytes(data)
    files = tuple(str(tmp_path / name) for name in ("a.png", "b.pdf", "c.bin"))
    reply = Reply(target, "look", "c1", media=files)
    world.platform.faults = ["", "cut"]
    failed = await world.channel.send(reply)
    assert isinstance(failed, SendFailure) and failed.trouble == "cut"
    assert isinstance(await world.channel.send(reply), SendReceipt)
    shown = world.platform.visible_messages()
    assert [(one.text, one.media) for one in shown] == [
        ("look", ()), ("", ("a.png",)), ("", ("b.pdf",)), ("", ("c.bin",)),
    ]  # fmt: skip
    assert [kind for how, kind, _ in world.platform.calls if how == "upload"][:3] == ["message", "pdf", "stream"]
    assert [one["type"] for one in world.platform.seen.values()] == ["post", "image", "file", "file"]


async def test_an_upload_survives_a_token_that_died(world: FeishuHarness, tmp_path: Path) -> None:
    """A form can be sent once: the second try makes another."""
    target = await world.target()
    (tmp_path / "a.png").write_bytes(PNG)
    world.platform.tokens += 1  # ours is not taken any more
    assert isinstance(await world.channel.send(Reply(target, "", "c1", media=(str(tmp_path / "a.png"),))), SendReceipt)
    assert world.platform.visible_messages()[0].media == ("a.png",)


async def test_an_empty_file_is_not_taken_and_nothing_is_shown(world: FeishuHarness, tmp_path: Path) -> None:
    target = await world.target()
    (tmp_path / "a.txt").write_bytes(b"")
    told = await world.channel.send(Reply(target, "look", "c1", media=(str(tmp_path / "a.txt"),)))
    assert isinstance(told, SendFailure) and told.trouble == "media"
    assert world.platform.visible_messages() == []


async def test_a_file_comes_in(world: FeishuHarness) -> None:
    world.platform.files["file_v3_1"] = ("plan.txt", b"north")
    content = json.dumps({"file_key": "file_v3_1", "file_name": "plan.txt"})
    await world.platform.say("", message_type="file", content=content)
    await wait_until(lambda: bool(world.heard))
    assert Path(world.heard[0].files[0].path).read_bytes() == b"north"


@pytest.mark.parametrize("ident", ["om_else", "om_unknown", "om_1/../../../x", "../om_1", "om_1?x=", "om_é", ""])
async def test_a_message_of_another_chat_is_not_touched(world: FeishuHarness, ident: str) -> None:
    """Ids hold for the whole tenant, rights for one chat; and nothing leads out of the path."""
    target = await world.target()
    world.platform.places["om_else"] = GROUP
    for act in (EditAction(ident, "x"), DeleteAction(ident), ReactAction(ident, "👀"), PinAction(ident)):
        told = await world.channel.act(target, act)
        assert isinstance(told, SendFailure) and told.trouble in ("refused", "gone")
    assert isinstance(await world.channel.send(Reply(target, "x", "c1", reply_to=ident)), SendReceipt)
    assert world.platform.calls[-1][:2] == ("chat_id", "")  # said without
    away = await world.channel.send(Reply(Target("feishu", target.to, thread=ident or "?"), "x", "c2"))
    assert isinstance(away, SendFailure) and away.trouble == "gone"
    assert not world.platform.reactions and not world.platform.pins


async def test_reactions_and_pins(world: FeishuHarness) -> None:
    target = await world.target()
    mine = world.heard[-1].event
    for emoji in ("👀", ":DONE:"):
        assert isinstance(await world.channel.act(target, ReactAction(mine, emoji)), SendReceipt)
    assert [one["reaction_type"]["emoji_type"] for one in world.platform.reactions] == ["GLANCE", "DONE"]
    refused = await world.channel.act(target, ReactAction(mine, "🦞"))
    assert isinstance(refused, SendFailure) and "name" in refused.reason
    assert isinstance(await world.channel.act(target, ReactAction(mine, "", remove=True)), SendReceipt)
    assert world.platform.reactions == []
    for remove in (False, True):
        assert isinstance(await world.channel.act(target, PinAction(mine, remove)), SendReceipt)
    assert world.platform.pins == []


async def test_wrong_credentials_are_told(tmp_path: Path) -> None:
    async with FakeFeishu() as platform:
        made = FeishuChannel(make_channel_kit("feishu", str(tmp_path), {**platform.section, "appSecret": "other"}))
        told = await made.greet()
        assert isinstance(told, SendFailure) and told.trouble == "signed_out" and "appSecret is wrong" in told.reason


async def test_a_limit_says_how_long(world: FeishuHarness) -> None:
    target = await world.target()
    world.platform.fail("limited", retry_after=52)
    told = await world.channel.send(Reply(target, "x", "c"))
    assert isinstance(told, SendFailure) and (told.trouble, told.retry_after) == ("limited", 52)
    assert isinstance(await world.channel.act(target, EditAction("om_x", "y")), SendReceipt | SendFailure)
