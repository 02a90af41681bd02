"""Mattermost: who is meant, what nobody is called by, what was missed, and one copy of what we say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from channels.scene import asked, running, texts, until
from channels.web.payloads import JSON
from palinurus.channels.intake import ChatWorkers
from palinurus.channels.mattermost.channel import MattermostChannel
from palinurus.channels.mattermost.inbound import MattermostContext, MattermostRoom, parse_post
from palinurus.channels.web.markdown import write_text
from palinurus.core.types.channel import PinAction, ReactAction, ReadAction, SendFailure, SendReceipt, ThreadAction
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import ChannelHarness, wait_until
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.web.mattermost import ALICE, DIRECT, GROUP, TOKEN, FakeMattermost

ROOM = MattermostRoom("c", "O", "Town", "t")
AROUND = MattermostContext("bot0", "pal", "default", "https://mm.example")


def heard(text: str, around: MattermostContext = AROUND, **more: Any) -> Any:
    found = parse_post({"id": "p", "user_id": "u", "message": text, **more}, ROOM, around)
    return found.inbound if found else None


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ChannelHarness]:
    async with FakeMattermost() as platform:
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


@pytest.mark.parametrize(
    ("text", "meant", "read"),
    [
        ("@pal go", True, "go"),
        ("hey @Pal, go", True, "hey , go"),
        ("@pal.", True, "."),
        ("mail me@pal.example or @pals or @pal-x or @pal.smith", False, ""),
        ("@all listen", False, ""),
    ],
)
def test_who_is_meant(text: str, meant: bool, read: str) -> None:
    said = heard(text)
    assert (said.mentioned, said.text) == (meant, read or text) and said.title == "Town"


def test_chat_modes() -> None:
    onchar = MattermostContext("bot0", "pal", "default", "b", prefixes=("!", ">"))
    assert (heard("! status", onchar).text, heard("! status", onchar).mentioned) == ("status", True)
    assert not heard("status!", onchar).mentioned
    assert heard("x", MattermostContext("bot0", "pal", "default", "b", always=True)).mentioned
    assert heard("x", MattermostContext("bot0", "pal", "default", "b", threads=True)).target.thread == "p"


def test_what_is_no_message() -> None:
    assert heard("x", user_id="bot0") is None and heard("joined", type="system_join_channel") is None
    assert heard("x", delete_at=5) is None
    assert heard("x", props={"from_webhook": "true"}).sender.bot


def test_nobody_is_called_by_what_a_model_writes() -> None:
    sent = write_text("@all and `@channel` and @here, not me@allies", plain=False)
    assert "@all " not in sent and "@here," not in sent and "`@channel`" in sent and "me@allies" in sent
    assert write_text("&lt; `&lt;`", plain=False) == "&amp;lt; `&lt;`"
    assert write_text("*x* @ALL", plain=True) == "\\*x\\* @\u200bALL"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(tmp_path: Path, payload: Any) -> None:
    async def main() -> None:
        own = {"baseUrl": "http://127.0.0.1:9", "botToken": TOKEN}
        made = MattermostChannel(make_channel_kit("mattermost", str(tmp_path), own))

        async def nothing(one: object) -> None:
            return None

        workers: ChatWorkers[Any] = ChatWorkers(nothing, lambda one: None)
        for frame in (payload, {"event": "posted", "data": payload}):
            if isinstance(frame, dict):
                await made._heard(frame, workers)
        if isinstance(payload, dict):
            parse_post(payload, ROOM, AROUND)
        await workers.close()

    asyncio.run(main())


async def test_one_copy_also_when_the_server_has_forgotten(world: ChannelHarness) -> None:
    """The server drops repeats for half a minute; after that the channel is read back."""
    reply = Reply(await world.target(), "once", "c")
    world.platform.fail("cut")
    assert isinstance(await world.channel.send(reply), SendFailure)
    world.platform.forget()
    assert isinstance(await world.channel.send(reply), SendReceipt)
    await world.restart()
    await world.ready()
    found = await world.channel.find(reply)
    assert found is not None and [one.text for one in world.platform.visible_messages()] == ["once"]


async def test_a_pending_id_keeps_a_repeat_one(world: ChannelHarness) -> None:
    reply = Reply(await world.target(), "once", "c")
    first, second = await world.channel.send(reply), await world.channel.send(reply)
    assert isinstance(first, SendReceipt) and first == second


async def test_what_was_said_while_the_program_was_off(world: ChannelHarness) -> None:
    await world.platform.say("before")
    await wait_until(lambda: world.texts == ["before"])
    await asyncio.sleep(0.05)
    await world.stop()
    await world.platform.say("meanwhile", files=[("a.txt", "text/plain", b"abc")])
    await world.platform.say("here too", chat="group", mention=True)
    await world.restart()
    await wait_until(lambda: len(world.events) == 3)
    by = {one.text: one for one in world.heard}
    assert Path(by["meanwhile"].files[0].path).read_bytes() == b"abc"
    assert by["here too"].mentioned and by["here too"].target.to == GROUP
    assert [one.text for one in world.heard].count("before") == 1  # how far it was taken is on disk


async def test_a_revoked_token_ends_it(world: ChannelHarness) -> None:
    world.platform.revoked = True
    await world.platform.cut()
    await world.platform.mend()
    await wait_until(lambda: world.channel.status().state == "signed_out")
    assert "make a new one" in world.channel.status().detail


async def test_acts_and_people_by_name(world: ChannelHarness) -> None:
    for to in (f"user:{ALICE}", "@alice", f"channel:{DIRECT}"):
        assert isinstance(await world.channel.send(Reply(Target("mattermost", to), to, to)), SendReceipt)
    assert len(world.platform.visible_messages()) == 3
    target = Target("mattermost", DIRECT)
    ident = world.platform.visible_messages()[0].message_id
    for emoji in ("👍", ":eyes:"):
        assert isinstance(await world.channel.act(target, ReactAction(ident, emoji)), SendReceipt)
    assert isinstance(await world.channel.act(target, ReactAction(ident, "", remove=True)), SendReceipt)
    assert world.platform.posts[ident]["metadata"]["reactions"] == []
    assert isinstance(await world.channel.act(target, ReactAction(ident, "🫥")), SendFailure)
    assert isinstance(await world.channel.act(target, PinAction(ident)), SendReceipt)
    assert world.platform.posts[ident]["is_pinned"]
    root = await world.channel.act(target, ThreadAction("a thread"))
    assert isinstance(root, SendReceipt)
    read = await world.channel.act(target, ReadAction(2))
    assert isinstance(read, SendReceipt) and [one["text"] for one in read.data][-1] == "a thread"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    whole = {"baseUrl": "https://mm.example", "botToken": TOKEN}
    for key in whole:
        with pytest.raises(ConfigError, match=key):
            MattermostChannel(
                make_channel_kit("mattermost", str(tmp_path), {k: v for k, v in whole.items() if k != key})
            )
    with pytest.raises(ConfigError, match="baseUrl"):
        MattermostChannel(make_channel_kit("mattermost", str(tmp_path), {**whole, "baseUrl": "chat.example"}))
    assert TOKEN not in repr(vars(MattermostChannel(make_channel_kit("mattermost", str(tmp_path), whole))))


async def test_a_conversation_threads_and_an_answer_that_grows(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([say("below"), say("again"), hold_at(say("It begins here. " * 10 + "The end."), gate, 4)])
    async with FakeMattermost() as platform:
        async with running(tmp_path / "h", model, platform, ALICE, {"streaming": "partial"}) as app:
            assert app.channels["mattermost"].status().me == "pal"
            root = await platform.say("a root", chat="group")
            await platform.say("what now?", chat="group", mention=True, root_id=root)
            await until(lambda: texts(platform, "group") == ["below"])
            await platform.say("and then?", chat="group", root_id=root)  # we have spoken here: no mention is needed
            await until(lambda: len(texts(platform, "group")) == 2)
            await platform.say("go on")
            await gate.wait_reached()
            await until(lambda: texts(platform))
            assert not texts(platform)[0].endswith("The end.")
            gate.open()
            await until(lambda: texts(platform)[0].endswith("The end."))
        assert [one.reply_to for one in platform.visible_messages("group")] == [root, root]
        assert len(texts(platform)) == 1 and "what now?" in asked(model, 0)
        assert any(call.startswith("PUT") for call in platform.calls)
