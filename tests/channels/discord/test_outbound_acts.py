"""What the agent can do on Discord besides writing."""

from __future__ import annotations

from pathlib import Path

from channels.discord.scene import running
from channels.scene import texts, until
from palinurus.core.types.channel import (
    DeleteAction,
    EditAction,
    LookAction,
    PinAction,
    PollAction,
    ReactAction,
    ReadAction,
    SendFailure,
    SendReceipt,
    ThreadAction,
    TypingAction,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.discord.state import GROUP
from palinurus.testing.model import ScriptedModel, say


async def test_acts(tmp_path: Path) -> None:
    async with FakeDiscord() as discord, running(tmp_path / "h", discord, ScriptedModel([say("hi")])) as app:
        asked = await discord.say("hello", chat="group", mention=True)
        await until(lambda: texts(discord, "group") == ["hi"])
        channel, target = app.channels["discord"], Target("discord", GROUP)
        assert await channel.act(target, TypingAction()) == SendReceipt("")
        assert await channel.act(target, ReactAction(asked, "👀")) == SendReceipt(asked)
        assert discord.world.message(GROUP, asked)["reactions"][0]["emoji"]["name"] == "👀"
        assert await channel.act(target, ReactAction(asked, "", remove=True)) == SendReceipt(asked)
        assert discord.world.message(GROUP, asked)["reactions"] == []
        assert await channel.act(target, PinAction(asked)) == SendReceipt(asked)
        assert discord.world.message(GROUP, asked)["pinned"]
        poll = await channel.act(target, PollAction("Tea?", ("yes", "no")))
        assert discord.world.message(GROUP, poll.message_id)["poll"]["question"] == {"text": "Tea?"}
        thread = await channel.act(target, ThreadAction("plans", asked))
        assert discord.world.chats[thread.message_id]["parent_id"] == GROUP
        read = await channel.act(target, ReadAction(2))
        assert [one["text"] for one in read.data] == ["hi", ""]
        gone = await channel.act(target, DeleteAction("1"))
        assert (gone.trouble, gone.reason) == ("refused", "there is no such message")
    assert GROUP in discord.world.typed


async def test_an_edit_replaces_text_and_buttons(tmp_path: Path) -> None:
    async with FakeDiscord() as discord, running(tmp_path / "h", discord, ScriptedModel([])) as app:
        channel, target = app.channels["discord"], Target("discord", GROUP)
        sent = await channel.send(Reply(target, "May I?", "c", buttons=(Button("Yes", "/yes"), Button("No", "/no"))))
        assert discord.visible_messages("group")[0].buttons == ("Yes", "No")
        assert await channel.act(target, EditAction(sent.message_id, "You said **yes**.")) == SendReceipt(
            sent.message_id
        )
        (shown,) = discord.visible_messages("group")
        assert (shown.text, shown.buttons) == ("You said yes.", ())


async def test_a_person_is_a_target(tmp_path: Path) -> None:
    async with FakeDiscord() as discord, running(tmp_path / "h", discord, ScriptedModel([])) as app:
        stranger = discord.world.person("stranger")["id"]
        for number in range(2):
            reply = Reply(Target("discord", f"user:{stranger}"), f"psst {number}", f"c{number}")
            assert isinstance(await app.channels["discord"].send(reply), SendReceipt)
        assert texts(discord, discord.world.direct(stranger)["id"]) == ["psst 0", "psst 1"]
        inside = discord.world.thread(GROUP, "plans")["id"]
        made = await app.channels["discord"].act(Target("discord", GROUP, thread=inside), ThreadAction("more"))
        assert discord.world.chats[made.message_id]["parent_id"] == GROUP


async def test_the_server_and_its_people_can_be_looked_up(tmp_path: Path) -> None:
    async with FakeDiscord() as discord, running(tmp_path / "h", discord, ScriptedModel([])) as app:
        channel, target, stranger = app.channels["discord"], Target("discord", GROUP), discord.world.person("stranger")
        discord.looks = {
            "roles": [{"id": "1", "name": "crew", "position": 2, "permissions": "8"}],
            "voice-states": {"channel_id": "7", "user_id": stranger["id"], "session_id": "secret"},
            "scheduled-events": [{"id": "3", "name": "regatta", "status": 1}],
            "search": {
                "messages": [
                    [{"id": "4", "channel_id": GROUP, "content": "ahoy", "author": {"id": "9", "username": "ann"}}]
                ]
            },
        }
        asked = {
            "channel-info": LookAction("channel-info"),
            "member-info": LookAction("member-info", user=stranger["id"]),
            "role-info": LookAction("role-info"),
            "voice-status": LookAction("voice-status", user=stranger["id"]),
            "event-list": LookAction("event-list"),
            "search": LookAction("search", text="ahoy"),
        }
        told = {name: await channel.act(target, act) for name, act in asked.items()}
        assert all(isinstance(one, SendReceipt) for one in told.values()), told
        assert told["channel-info"].data["id"] == GROUP
        assert told["member-info"].data["user"]["id"] == stranger["id"]
        assert told["role-info"].data == [{"id": "1", "name": "crew", "position": 2}]
        assert told["voice-status"].data == {"channel_id": "7", "user_id": stranger["id"]}
        assert told["event-list"].data == [{"id": "3", "name": "regatta", "status": 1}]
        assert told["search"].data == [
            {"id": "4", "channel_id": GROUP, "content": "ahoy", "author": {"id": "9", "name": "ann"}}
        ]
        direct = Target("discord", f"user:{stranger['id']}")
        alone = await channel.act(direct, LookAction("role-info"))
        assert alone.data == {"note": "this chat belongs to no server"}
        assert isinstance(await channel.act(target, LookAction("member-info", user="../x")), SendFailure)
