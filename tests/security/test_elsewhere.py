"""A turn in one chat reaches no other by an id: what the model gives as a thread or a message is looked at by the
channel, and what lies elsewhere is neither read nor changed. Rights are asked for the chat (`recipient.py`);
these ids come after that.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from channels.discord.scene import running
from palinurus import channels
from palinurus.channels.kit import ChannelKit
from palinurus.channels.nextcloudtalk.channel import NextcloudTalkChannel
from palinurus.core.types.channel import (
    DeleteAction,
    EditAction,
    LookAction,
    PinAction,
    ReactAction,
    ReadAction,
    SendFailure,
    SendReceipt,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import ChannelHarness
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.discord.state import GROUP, GUILD
from palinurus.testing.model import ScriptedModel
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.web.feishu import GROUP as CREW
from palinurus.testing.web.feishu import FakeFeishu
from palinurus.testing.web.googlechat import GROUP as SPACE
from palinurus.testing.web.googlechat import FakeGoogleChat
from palinurus.testing.web.mattermost import DIRECT, FakeMattermost
from palinurus.testing.web.mattermost import GROUP as TOWN

CHANNELS = Path(channels.__file__).parent


async def test_a_thread_on_discord_is_one_of_its_channel(tmp_path: Path) -> None:
    """Discord's threads are channels: an id of another channel, or of a person, would be taken for one."""
    async with FakeDiscord() as discord, running(tmp_path / "h", discord, ScriptedModel([])) as app:
        channel, world = app.channels["discord"], discord.world
        world.chats["77"] = {"id": "77", "type": 0, "guild_id": GUILD, "name": "board", "last_message_id": None}
        world.write("77", world.person("human"), "the vault is behind the map")
        inside = world.thread(GROUP, "plans")["id"]
        elsewhere = world.thread("77", "minutes")["id"]
        for thread in ("77", elsewhere, f"user:{world.person('stranger')['id']}", "../users/@me", "404"):
            there = Target("discord", GROUP, thread=thread)
            for done in (
                await channel.act(there, ReadAction(5)),
                await channel.send(Reply(there, "psst", "c")),
                await channel.act(there, DeleteAction("1")),
            ):
                assert isinstance(done, SendFailure) and done.trouble in ("refused", "gone"), (thread, done)
        assert isinstance(await channel.send(Reply(Target("discord", GROUP, thread=inside), "hi", "d")), SendReceipt)
        assert not [call for call in world.calls if "/77/messages" in call or f"/{elsewhere}/messages" in call]


async def test_a_search_on_discord_stays_in_its_channel(tmp_path: Path) -> None:
    """The bot sees more of a server than who asks it."""
    async with FakeDiscord() as discord, running(tmp_path / "h", discord, ScriptedModel([])) as app:
        found = [
            [{"id": "4", "channel_id": GROUP, "content": "ahoy"}],
            [{"id": "5", "channel_id": "77", "content": "vault"}],
        ]
        discord.looks = {"search": {"messages": found}}
        told = await app.channels["discord"].act(Target("discord", GROUP), LookAction("search", text="a"))
        assert [one["content"] for one in told.data] == ["ahoy"]
        assert discord.asked[-1]["channel_id"] == GROUP


@pytest.mark.parametrize("ident", ["{other}", "../channels/town0", "../users/alice0", "x/../../channels/town0", "a?b"])
async def test_a_post_on_mattermost_is_one_of_its_channel(tmp_path: Path, ident: str) -> None:
    async with FakeMattermost() as fake:
        world = ChannelHarness(fake, str(tmp_path))
        await world.ready()
        other = fake._add(DIRECT, "bot0", "only for Alice")["id"]
        ident, here = ident.replace("{other}", other), Target("mattermost", TOWN)
        fake.calls.clear()
        for act in (DeleteAction(ident), EditAction(ident, "x"), PinAction(ident), ReactAction(ident, "👍")):
            done = await world.channel.act(here, act)
            assert isinstance(done, SendFailure) and done.trouble in ("refused", "gone"), act
        read = await world.channel.act(Target("mattermost", TOWN, thread=ident), ReadAction(5))
        assert isinstance(read, SendFailure) or read.data == []
        assert not [call for call in fake.calls if not call.startswith("GET ") or "/posts/" not in call]
        assert fake.posts[other]["message"] == "only for Alice" and not fake.posts[other]["delete_at"]
        await world.stop()


@pytest.mark.parametrize(
    "name", ["spaces/B/messages/1", "spaces/A", f"{SPACE}/members/1", f"{SPACE}/messages/../x", "x"]
)
async def test_a_message_in_google_chat_is_one_of_its_space(tmp_path: Path, name: str) -> None:
    async with FakeGoogleChat() as fake:
        world = ChannelHarness(fake, str(tmp_path))
        await world.ready()
        here = Target("googlechat", SPACE)
        for act in (DeleteAction(name), EditAction(name, "x")):
            done = await world.channel.act(here, act)
            assert isinstance(done, SendFailure) and done.reason.startswith("this is no message"), done
        for space in ("spaces/A/members?x=", "../v1/spaces/A", ""):
            done = await world.channel.send(Reply(Target("googlechat", space), "hi", "c"))
            assert isinstance(done, SendFailure) and done.trouble == "gone"
        await world.stop()


@pytest.mark.parametrize("ident", ["om_other", "om_x/../../chats/oc_1", "../chats/oc_1", "om_404"])
async def test_a_message_in_feishu_is_one_of_its_chat(tmp_path: Path, ident: str) -> None:
    """Answering one is a way, too: Feishu says it where the answered one is."""
    async with FakeFeishu() as fake:
        world = ChannelHarness(fake, str(tmp_path))
        await world.ready()
        fake.places["om_other"] = "oc_other"
        for act in (DeleteAction(ident), EditAction(ident, "x"), PinAction(ident), ReactAction(ident, "👍")):
            done = await world.channel.act(Target("feishu", CREW), act)
            assert isinstance(done, SendFailure) and done.trouble in ("refused", "gone"), act
        inside = await world.channel.send(Reply(Target("feishu", CREW, thread=ident), "hi", "c"))
        assert isinstance(inside, SendFailure)
        assert isinstance(
            await world.channel.send(Reply(Target("feishu", CREW), "hi", "d", reply_to=ident)), SendReceipt
        )
        assert [call[0] for call in fake.calls] == ["chat_id"]
        await world.stop()


def make_kit(folder: Path, **own: str) -> ChannelKit:
    return make_channel_kit("nextcloud-talk", str(folder), {"baseUrl": "http://127.0.0.1:9", **own})


@pytest.mark.parametrize("words", ["", " \n"])
def test_an_empty_secret_opens_nothing(tmp_path: Path, words: str) -> None:
    """Whoever knows that it is empty could sign as the platform does."""
    (tmp_path / "secret").write_text(words)
    with pytest.raises(ConfigError, match="empty"):
        NextcloudTalkChannel(make_kit(tmp_path, botSecretFile=str(tmp_path / "secret")))
    with pytest.raises(ConfigError, match="missing"):
        NextcloudTalkChannel(make_kit(tmp_path, botSecret=words))


# Files that put a message's id or a chat's into a path of an API; each has its test above, or escapes the whole part.
IN_PATHS = {"mattermost/posts.py", "googlechat/channel.py", "feishu/channel.py"}


def test_whoever_puts_an_id_into_a_path_is_known_here() -> None:
    found = {
        path.relative_to(CHANNELS).as_posix()
        for path in CHANNELS.rglob("*.py")
        if re.search(
            r'f"[^"\n]*/\{(?:act\.message_id|target\.to|reply\.target\.to)\}', path.read_text(encoding="utf-8")
        )
    }
    assert found == IN_PATHS
