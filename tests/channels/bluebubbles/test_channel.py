"""iMessage: whose request it is, what was said, and what the Private API adds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from channels.web.payloads import JSON
from palinurus.channels.bluebubbles.channel import BlueBubblesChannel
from palinurus.core.types.channel import ReactAction, SendFailure, SendReceipt
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import PNG, ChannelHarness, wait_until
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.web.bluebubbles import ALICE, GROUP, PASSWORD, FakeBlueBubbles

SAID: dict[str, Any] = {
    "guid": "1", "text": "hi", "handle": {"address": ALICE}, "chats": [{"guid": GROUP, "displayName": "Town"}],
}  # fmt: skip


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ChannelHarness]:
    async with FakeBlueBubbles() as platform:
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


def make(folder: Path, **own: Any) -> BlueBubblesChannel:
    whole = {"serverUrl": "http://127.0.0.1:9", "password": PASSWORD, **own}
    return BlueBubblesChannel(make_channel_kit("bluebubbles", str(folder), whole))


async def test_only_who_knows_the_password_is_heard(tmp_path: Path) -> None:
    made, fake = make(tmp_path), FakeBlueBubbles()
    for password, status in ((PASSWORD, None), ("", 401), ("other", 401), (PASSWORD + " ", 401)):
        told = await made.accept(fake.sign_request({"type": "new-message", "data": SAID}, password))
        assert getattr(told, "status", None) == status


def test_what_people_say(tmp_path: Path) -> None:
    made = make(tmp_path)
    found = made._parse({**SAID, "text": "\ufffclook"})
    assert found is not None
    said = found.inbound
    assert (said.text, said.kind, said.mentioned, said.title, said.sender.id) == ("look", "group", False, "Town", ALICE)
    made._ours["ours"] = None
    found = made._parse({**SAID, "threadOriginatorGuid": "ours"})
    assert found is not None and found.inbound.mentioned  # an answer to us means us
    for no in (
        {"isFromMe": True},
        {"associatedMessageGuid": "p:0/x"},
        {"itemType": 2},
        {"handle": None},
        {"chats": []},
    ):
        assert made._parse({**SAID, **no}) is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(tmp_path: Path, payload: Any) -> None:
    made, fake = make(tmp_path), FakeBlueBubbles()

    async def main() -> None:
        for body in (
            payload,
            {"type": "new-message", "data": payload},
            {"type": "new-message", "data": {**SAID, "chats": payload}},
        ):
            await made.accept(fake.sign_request(body))

    asyncio.run(main())


async def test_files_both_ways_each_once(world: ChannelHarness) -> None:
    await world.platform.say("look", files=[("a.png", "image/png", PNG)])
    await wait_until(lambda: bool(world.heard))
    assert Path(world.heard[0].files[0].path).read_bytes() == PNG
    path = Path(world.folder) / "b.png"
    path.write_bytes(PNG)
    reply = Reply(world.heard[0].target, "and this", "c", media=(str(path),))
    world.platform.faults = ["", "down"]  # the file goes, the text does not
    assert isinstance(await world.channel.send(reply), SendFailure)
    assert isinstance(await world.channel.send(reply), SendReceipt)
    shown = world.platform.visible_messages()
    assert [(one.text, one.media) for one in shown] == [("", ("b.png",)), ("and this", ())]


async def test_tapbacks(world: ChannelHarness) -> None:
    target = await world.target()
    assert isinstance(await world.channel.act(target, ReactAction("g1", "❤️")), SendReceipt)
    assert isinstance(await world.channel.act(target, ReactAction("g1", "👍", remove=True)), SendReceipt)
    assert [one["reaction"] for one in world.platform.reactions] == ["love", "-like"]
    assert isinstance(await world.channel.act(target, ReactAction("g1", "🦞")), SendFailure)


async def test_without_the_private_api_it_only_sends(tmp_path: Path) -> None:
    async with FakeBlueBubbles() as platform:
        platform.private = False
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        assert made.channel.abilities.acts == frozenset() and made.channel.status().me == "me@icloud.com"
        assert isinstance(await made.channel.send(Reply(await made.target(), "x", "c")), SendReceipt)
        await made.stop()
    assert platform.methods == {"apple-script"}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for own, key in (
        ({"password": ""}, "password"),
        ({"serverUrl": ""}, "serverUrl"),
        ({"serverUrl": "mac"}, "serverUrl"),
    ):
        with pytest.raises(ConfigError, match=key):
            make(tmp_path, **own)
    assert PASSWORD not in repr(vars(make(tmp_path)))
