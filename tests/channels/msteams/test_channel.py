"""Teams: whose request it is, what was said, and where an answer goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from channels.web.payloads import JSON
from palinurus.channels.msteams.channel import TeamsChannel
from palinurus.channels.msteams.inbound import parse_activity
from palinurus.core.types.channel import ChannelHttpRequest, SendFailure, SendReceipt
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import PNG, ChannelHarness, wait_until
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.web.msteams import ALICE, APP, GROUP, PASSWORD, TOKEN, FakeTeams

SAID: dict[str, Any] = {
    "type": "message", "id": "1", "from": {"id": "29:x", "aadObjectId": ALICE}, "recipient": {"id": "28:me"},
    "conversation": {"id": "c", "conversationType": "groupChat"}, "text": "hi", "channelId": "msteams",
}  # fmt: skip


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ChannelHarness]:
    async with FakeTeams() as platform:
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


async def test_only_the_bot_framework_is_believed(world: ChannelHarness) -> None:
    fake = world.platform
    activity = {**SAID, "serviceUrl": f"{fake.http.url}/teams"}
    assert await fake.post(fake.sign_request({**activity, "type": "conversationUpdate"})) == 200
    for wrong in (
        fake.sign_request(activity, aud="another-app"),
        fake.sign_request(activity, iss="https://sts.windows.net/x/"),
        fake.sign_request(activity, exp=1),
        fake.sign_request(activity, serviceurl="https://evil.example"),
        fake.sign_request({**activity, "channelId": "directline"}),  # not what the key is endorsed for
        ChannelHttpRequest("POST", {}, {}, b"{}"),
        ChannelHttpRequest("POST", {"authorization": f"Bearer {TOKEN}"}, {}, b"{}"),
    ):
        assert await fake.post(wrong) == 401
    assert await fake.post(fake.sign_request({"serviceUrl": "x", "channelId": "msteams"})) == 400
    assert world.heard == []


def test_what_people_say() -> None:
    mention = {"type": "mention", "mentioned": {"id": "28:me"}, "text": "<at>Pal</at>"}
    found = parse_activity({**SAID, "text": "<at>Pal</at>&nbsp;a &lt; b", "entities": [mention]}, "default", 0)
    assert found is not None and (found.inbound.text, found.inbound.mentioned) == ("a < b", True)
    found = parse_activity({**SAID, "text": "a &lt; b", "textFormat": "plain"}, "default", 0)
    assert found is not None and (found.inbound.text, found.inbound.mentioned) == ("a &lt; b", False)
    assert (found.inbound.sender.id, found.inbound.sender.also) == (ALICE, ("29:x",))
    place = {"id": f"{GROUP};messageid=77", "conversationType": "channel"}
    found = parse_activity({**SAID, "conversation": place}, "default", 0)
    assert found is not None and (found.inbound.target.to, found.inbound.target.thread) == (GROUP, "77")
    assert parse_activity({**SAID, "from": {"id": "28:me"}}, "default", 0) is None
    assert parse_activity({**SAID, "type": "typing"}, "default", 0) is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(payload: Any) -> None:
    for body in (payload, {**SAID, **(payload if isinstance(payload, dict) else {})}, {**SAID, "entities": [payload]}):
        if isinstance(body, dict):
            parse_activity(body, "default", 0)


async def test_answers_go_to_the_thread_and_the_address_that_asked(world: ChannelHarness) -> None:
    await world.platform.say("go", chat="group", mention=True, conversation={"id": f"{GROUP};messageid=77"})
    await wait_until(lambda: bool(world.heard))
    await world.restart()  # where answers go is on disk
    await world.ready()
    assert isinstance(await world.channel.send(Reply(world.heard[0].target, "here", "c")), SendReceipt)
    assert [(one.text, one.reply_to) for one in world.platform.visible_messages("group")] == [("here", "77")]


async def test_files(world: ChannelHarness) -> None:
    world.platform.files |= {"a.pdf": b"pdf", "b.png": PNG}
    url = f"{world.platform.http.url}/files"
    info = "application/vnd.microsoft.teams.file.download.info"
    sent = [
        {"contentType": info, "name": "a.pdf", "content": {"downloadUrl": f"{url}/a.pdf"}},
        {"contentType": "image/*", "contentUrl": f"{url}/b.png"},
        {"contentType": "text/html", "content": "<p>x</p>"},
    ]
    await world.platform.say("look", attachments=sent)
    await wait_until(lambda: bool(world.heard))
    assert [Path(one.path).read_bytes() for one in world.heard[0].files] == [b"pdf", PNG]
    path = Path(world.folder) / "notes.txt"
    path.write_text("words")
    reply = Reply(world.heard[0].target, "**here**", "c", media=(str(path),))
    assert isinstance(await world.channel.send(reply), SendReceipt)
    assert world.platform.visible_messages()[-1].text == "here\nnotes.txt"


async def test_a_wrong_secret_is_said(tmp_path: Path) -> None:
    async with FakeTeams() as fake:
        made = TeamsChannel(make_channel_kit("msteams", str(tmp_path), {**fake.section, "appPassword": "old"}))
        task = asyncio.ensure_future(made.run(_never))
        await wait_until(lambda: made.status().state == "signed_out")
        task.cancel()
        assert "AADSTS7000215" in made.status().detail
        told = await made.send(Reply(parse_activity(SAID, "default", 0).inbound.target, "x", "c"))  # type: ignore[union-attr]
    assert isinstance(told, SendFailure) and told.trouble == "signed_out"


async def test_one_token_serves_many_calls(world: ChannelHarness) -> None:
    target = await world.target()
    for number in range(3):
        await world.channel.send(Reply(target, "x", f"c{number}"))
    assert world.platform.logins == 1


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    whole = {"appId": APP, "appPassword": PASSWORD, "tenantId": "t"}
    for key in whole:
        with pytest.raises(ConfigError, match=key):
            TeamsChannel(make_channel_kit("msteams", str(tmp_path), {k: v for k, v in whole.items() if k != key}))
    assert PASSWORD not in repr(vars(TeamsChannel(make_channel_kit("msteams", str(tmp_path), whole))))


async def _never(inbound: object) -> str:
    raise AssertionError("nothing was said")
