"""LINE: whose request it is, what was said, and which way an answer goes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from channels.web.payloads import JSON
from palinurus.channels.line.channel import LineChannel
from palinurus.channels.line.inbound import LineContext, find_events, parse_event
from palinurus.core.types.channel import ChannelHttpRequest, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import ChannelHarness, wait_until
from palinurus.testing.platform import FastClock, HumanMessage, make_channel_kit
from palinurus.testing.web.line import ALICE, GROUP, SECRET, TOKEN, FakeLine

HELLO = HumanMessage("hello", "", "", "", mention=False, times=1)
AROUND = LineContext("default", "https://data.example", ours=("55",))


def heard(message: dict[str, Any], **source: str) -> Any:
    event = {"type": "message", "source": {"userId": ALICE, **source}, "timestamp": 5, "message": message}
    return parse_event(find_events({"events": [event]})[0], AROUND)


def test_the_vendors_way_to_sign() -> None:
    """The base64 of the HMAC-SHA256 of the body; this one was made with openssl."""
    request = FakeLine().sign_request(b'{"events":[]}', "8c570fa6dd201bb328f1c1eac23a96d8")
    assert request.headers["x-line-signature"] == "RIZv+ghLA0VnBQ9V4IKZeQBgYqUhjr9LL05tE4VSkWo="


async def test_only_signed_requests_are_read(tmp_path: Path) -> None:
    made = LineChannel(make_channel_kit("line", str(tmp_path), {"channelAccessToken": "t", "channelSecret": SECRET}))
    right = FakeLine().sign_request(b'{"events": []}')

    async def submit(inbound: object) -> str:
        raise AssertionError("nothing was said")

    async def status(request: ChannelHttpRequest) -> int:
        return (await made.hook(request, submit)).status

    assert await status(right) == 200  # LINE's own test of the address
    assert await status(FakeLine().sign_request(b'{"events": []}', "other")) == 401
    assert await status(ChannelHttpRequest("POST", right.headers, {}, right.body + b" ")) == 401
    assert await status(ChannelHttpRequest("POST", {}, {}, right.body)) == 401
    assert await status(ChannelHttpRequest("GET", {}, {"file": "x"}, b"")) == 405  # no public address, no files


def test_what_people_say() -> None:
    assert heard({"type": "text", "id": "1", "text": "hi"}).inbound.kind == "direct"
    mention = {"mentionees": [{"index": 3, "length": 4, "isSelf": True}, {"index": 0, "length": 2, "isSelf": False}]}
    said = heard({"type": "text", "id": "1", "text": "🜂 @pal go", "mention": mention}, groupId=GROUP).inbound
    assert (said.text, said.mentioned, said.target.to) == ("🜂 go".replace(" go", "  go"), True, GROUP)
    said = heard({"type": "text", "id": "2", "text": "and?", "quotedMessageId": "55"}, groupId=GROUP).inbound
    assert said.mentioned and said.reply_to == "55"
    assert not heard({"type": "text", "id": "3", "text": "and?"}, roomId="R1").inbound.mentioned
    assert heard({"type": "sticker", "id": "4", "keywords": ["happy", "sun"]}).inbound.text == "[sticker happy, sun]"
    place = {"type": "location", "id": "5", "title": "Pier", "latitude": 1.5, "longitude": 2}
    assert heard(place).inbound.text == "[location: Pier, (1.5, 2)]"
    (file,) = heard({"type": "file", "id": "6", "fileName": "a.pdf", "fileSize": 9}).files
    assert (file.name, file.size, file.source) == ("a.pdf", 9, "https://data.example/v2/bot/message/6/content")
    assert heard({"type": "audio", "id": "7"}).files[0].voice


def test_what_is_no_message() -> None:
    said = {"type": "text", "id": "1", "text": "x"}
    for event in (
        {"type": "follow", "source": {"userId": ALICE}},
        {"type": "message", "source": {"groupId": GROUP}, "message": said},  # nobody knows who
        {"type": "message", "mode": "standby", "source": {"userId": ALICE}, "message": said},
    ):
        assert find_events({"events": [event]}) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(tmp_path: Path, payload: Any) -> None:
    made = LineChannel(make_channel_kit("line", str(tmp_path), {"channelAccessToken": "t", "channelSecret": SECRET}))
    bodies = (payload, {"events": payload}, {"events": [payload, {"type": "message", "message": payload}]})

    async def main() -> None:
        for body in bodies:
            await made.accept(FakeLine().sign_request(json.dumps(body).encode()))

    asyncio.run(main())


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    async with FakeLine() as platform:
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


async def test_the_first_answer_is_free_and_the_next_is_pushed(world: ChannelHarness) -> None:
    target = await world.target()
    for number in range(2):
        assert isinstance(await world.channel.send(Reply(target, f"{number}", f"c{number}")), SendReceipt)
    assert [how for how, _ in world.platform.calls] == ["reply", "push"]
    assert [one.text for one in world.platform.visible_messages()] == ["0", "1"]


async def test_a_token_that_is_too_old_is_not_used(tmp_path: Path) -> None:
    async with FakeLine() as platform:
        clock = FastClock()
        made = LineChannel(make_channel_kit("line", str(tmp_path), platform.section, clock))
        await made.accept(platform.make_request(HELLO, "1", {}))
        clock.ahead = 60_000
        assert isinstance(await made.send(Reply(Target("line", ALICE), "late", "c")), SendReceipt)
        await made.accept(platform.make_request(HELLO, "2", {}))
        platform.expired = True  # LINE thinks so before we do
        assert isinstance(await made.send(Reply(Target("line", ALICE), "later", "d")), SendReceipt)
    assert [how for how, _ in platform.calls] == ["push", "reply", "push"]


async def test_after_a_kill_the_same_token_shows_nothing_twice(world: ChannelHarness) -> None:
    reply = Reply(await world.target(), "once", "c")
    world.platform.fail("cut")
    assert isinstance(await world.channel.send(reply), SendFailure)
    await world.restart()
    assert isinstance(await world.channel.send(reply), SendReceipt)
    assert [one.text for one in world.platform.visible_messages()] == ["once"]
    assert [how for how, _ in world.platform.calls] == ["reply", "reply"]


async def test_a_push_has_a_key_that_stays_the_same(world: ChannelHarness) -> None:
    target = await world.target()
    await world.channel.send(Reply(target, "first", "c1"))
    world.platform.fail("cut")
    reply = Reply(target, "pushed", "c2")
    assert isinstance(await world.channel.send(reply), SendFailure)
    await world.restart()
    sent = await world.channel.send(reply)
    assert isinstance(sent, SendReceipt) and sent.message_id == world.platform.visible_messages()[-1].message_id
    assert [one.text for one in world.platform.visible_messages()] == ["first", "pushed"]


async def test_a_used_up_month_is_said_and_not_waited_for(world: ChannelHarness) -> None:
    target = await world.target()
    world.platform.fail("refused")
    told = await world.channel.send(Reply(target, "x", "c"))
    assert isinstance(told, SendFailure) and told.trouble == "refused" and "this month" in told.reason


async def test_files_come_in_and_others_than_pictures_go_out_as_links(world: ChannelHarness) -> None:
    world.platform.files["77"] = b"voice"
    await world.platform.say("", event="77", type="audio")
    await wait_until(lambda: bool(world.heard))
    (file,) = world.heard[0].files
    assert Path(file.path).read_bytes() == b"voice" and file.voice
    path = Path(world.folder) / "notes.txt"
    path.write_text("words")
    assert isinstance(
        await world.channel.send(Reply(world.heard[0].target, "here", "c", media=(str(path),))), SendReceipt
    )
    text = world.platform.visible_messages()[-1].text
    assert text.startswith("here\nnotes.txt: https://pal.example/channels/line/default?file=")
    assert (await world.platform.fetch_public(text.partition(": ")[2]))[2] == b"words"


async def test_a_quote_is_a_quote(world: ChannelHarness) -> None:
    target = await world.target()
    await world.channel.send(Reply(target, "as you say", "c", reply_to=world.heard[-1].event))
    assert world.platform.visible_messages()[-1].reply_to == world.heard[-1].event


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for own, key in (({}, "channelAccessToken"), ({"channelAccessToken": TOKEN}, "channelSecret")):
        with pytest.raises(ConfigError, match=key):
            LineChannel(make_channel_kit("line", str(tmp_path), own))
    (tmp_path / "token").write_text("from a file\n")
    own = {"tokenFile": str(tmp_path / "token"), "channelSecret": "s"}
    assert "from a file" not in repr(vars(LineChannel(make_channel_kit("line", str(tmp_path), own))))
