"""What came while the connection was gone, or came twice: every message is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from channels.discord.scene import running
from channels.scene import texts, until
from palinurus.channels.discord.inbound import DiscordIdentity, make_lowest_id
from palinurus.channels.discord.reader import DiscordReader
from palinurus.channels.discord.wire import DiscordRest
from palinurus.clock import SystemClock
from palinurus.core.types.channel import SendFailure
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import BadRequest, PalinurusError, QueueFull
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.discord.state import GROUP, GUILD, ME, TOKEN
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as made:
        yield made


def echo() -> ScriptedModel:
    """Says what it heard."""

    def answer(request: Any) -> Any:
        return say("re " + request.messages[-1].text.split()[-1])

    return ScriptedModel([answer], repeat=True)


def state(app: Any) -> str:
    return str(app.channels["discord"].status().state)


async def test_what_is_told_twice_is_answered_once(discord: FakeDiscord, tmp_path: Path) -> None:
    model = echo()
    async with running(tmp_path / "h", discord, model):
        await discord.say("m1", times=3)
        await until(lambda: texts(discord) == ["re m1"])
        await discord.say("m2")
        await until(lambda: texts(discord) == ["re m1", "re m2"])
    assert len(model.requests) == 2


async def test_a_broken_connection_is_resumed_and_nothing_is_lost(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, echo()) as app:
        await discord.say("m1")
        await until(lambda: texts(discord) == ["re m1"])
        await discord.cut()
        await until(lambda: state(app) == "reconnecting")
        await discord.say("m2")
        await discord.say("m3", chat="group", mention=True)
        await discord.mend()
        await until(lambda: texts(discord) == ["re m1", "re m2"] and texts(discord, "group") == ["re m3"])
        assert state(app) == "ready"
    assert (len(discord.sessions.identified), discord.sessions.resumed) == (1, 1)


async def test_discord_asks_for_a_new_connection(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, echo()):
        await discord.ask_to_reconnect()
        await until(lambda: discord.sessions.resumed == 1)
        await discord.say("m1")
        await until(lambda: texts(discord) == ["re m1"])
    assert len(discord.sessions.identified) == 1


async def test_a_session_that_is_lost_is_begun_anew_and_the_gap_is_read(discord: FakeDiscord, tmp_path: Path) -> None:
    thread = discord.world.thread(GROUP, "plans")["id"]
    human = discord.world.person("human")["id"]
    discord.world.roles[human] = ["77"]
    async with running(tmp_path / "h", discord, echo()) as app:
        await discord.say("m1")
        await until(lambda: texts(discord) == ["re m1"])
        await discord.cut()
        discord.sessions.forget()
        await until(lambda: state(app) == "reconnecting")
        await discord.say("m2")
        await discord.say("m3", chat="group", mention=True)
        await discord.say("small talk", chat="group", sender="friend")
        await discord.say("m4", chat=thread, mention=True)
        await discord.mend()
        await until(lambda: texts(discord) == ["re m1", "re m2"])
        await until(lambda: texts(discord, "group") == ["re m3"] and texts(discord, thread) == ["re m4"])
        await discord.say("m5")
        await until(lambda: texts(discord) == ["re m1", "re m2", "re m5"])
    assert len(discord.sessions.identified) == 2
    assert f"GET /guilds/{GUILD}/members/{human}" in discord.world.calls  # REST does not tell the roles


async def test_what_was_said_while_we_were_not_running_is_answered(discord: FakeDiscord, tmp_path: Path) -> None:
    model = echo()
    async with running(tmp_path / "h", discord, model):
        await discord.say("m1")
        await until(lambda: texts(discord) == ["re m1"])
    discord.sessions.forget()
    for number in range(2, 5):
        await discord.say(f"m{number}")
    await discord.say("hello", sender="friend")  # never wrote before, but may
    async with running(tmp_path / "h", discord, model, {}, messages={"queue": {"mode": "followup"}}):
        await until(lambda: texts(discord) == ["re m1", "re m2", "re m3", "re m4"])
        friend = discord.world.direct(discord.world.person("friend")["id"])["id"]
        await until(lambda: texts(discord, friend) == ["re hello"])


async def test_what_was_said_before_the_first_start_is_not_answered(discord: FakeDiscord, tmp_path: Path) -> None:
    await discord.say("old")
    await discord.say("old too", chat="group", mention=True)
    async with running(tmp_path / "h", discord, echo()):
        await discord.say("new")
        await until(lambda: texts(discord) == ["re new"])
    assert texts(discord, "group") == []


async def test_more_than_a_page_was_missed(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("ok")], repeat=True)
    async with running(tmp_path / "h", discord, model):
        await discord.say("m0")
        await until(lambda: texts(discord) == ["ok"])
    discord.sessions.forget()
    for number in range(150):
        discord.world.write(GROUP, discord.world.person("friend"), f"talk {number}")
    await discord.say("last", chat="group", mention=True)
    async with running(tmp_path / "h", discord, model):
        await until(lambda: texts(discord, "group") == ["ok"])
    assert sum(call == f"GET /channels/{GROUP}/messages" for call in discord.world.calls) == 2


async def test_a_token_that_is_not_taken_is_said(discord: FakeDiscord, tmp_path: Path, caplog: Any) -> None:
    discord.extra = {"token": "wrong.token.text"}
    channel = discord.channel(str(tmp_path))
    async with asyncio.timeout(60):
        await channel.run(lambda inbound: asyncio.sleep(0, ""))  # returns: there is nothing to wait for
    status = channel.status()
    assert status.state == "signed_out" and "developer portal" in status.detail
    unsent = await channel.send(Reply(Target("discord", GROUP), "hello", "c"))
    assert isinstance(unsent, SendFailure) and unsent.trouble == "signed_out"
    assert "wrong.token" not in caplog.text + repr(channel) + repr(status) + unsent.reason


@pytest.mark.parametrize(("code", "sessions"), [(4000, 1), (1000, 1), (4007, 2), (4009, 2)])
async def test_the_gateway_hangs_up(discord: FakeDiscord, tmp_path: Path, code: int, sessions: int) -> None:
    async with running(tmp_path / "h", discord, echo()) as app:
        await discord.say("m1")
        await until(lambda: texts(discord) == ["re m1"])
        await discord.sessions.hang_up(code)
        await until(lambda: state(app) == "reconnecting")
        await discord.say("m2")
        await until(lambda: texts(discord) == ["re m1", "re m2"])
    assert len(discord.sessions.identified) == sessions


async def test_the_token_is_taken_away_while_we_listen(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, echo()) as app:
        await discord.sessions.hang_up(4004)
        await until(lambda: state(app) == "signed_out")


async def test_no_more_sessions_than_discord_allows(discord: FakeDiscord, tmp_path: Path) -> None:
    discord.sessions.starts = 0
    async with running(tmp_path / "h", discord, echo(), waits=False) as app:
        await until(lambda: "allows no new session" in app.channels["discord"].status().detail)
        assert discord.sessions.identified == []
        discord.sessions.starts = 1
        await until(lambda: state(app) == "ready")


@pytest.mark.parametrize(
    ("trouble", "told"),
    [(QueueFull("full"), "Please try again shortly"), (BadRequest("too odd"), "not taken: too odd")],
)
async def test_who_presses_is_told_when_it_is_not_taken(
    discord: FakeDiscord, tmp_path: Path, trouble: PalinurusError, told: str
) -> None:
    async def submit(inbound: Inbound) -> str:
        raise trouble

    channel = discord.channel(str(tmp_path))
    task = asyncio.ensure_future(channel.run(submit))
    await until(lambda: discord.world.commands)
    await discord.command("status")
    await until(lambda: discord.world.answers)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ((_, answer),) = discord.world.answers
    assert told in answer["data"]["content"] and answer["data"]["flags"] == 64
    assert channel.status().state == "stopped"


async def test_without_the_intent_for_content_we_live_on_mentions(discord: FakeDiscord, tmp_path: Path) -> None:
    discord.sessions.allowed = False
    async with running(tmp_path / "h", discord, echo()) as app:
        assert "Message Content Intent" in app.channels["discord"].status().detail
        await discord.say("unheard", chat="group")
        await discord.say("m1", chat="group", mention=True)
        await discord.say("m2")
        await until(lambda: texts(discord, "group") == ["re m1"] and texts(discord) == ["re m2"])


async def test_few_intents_and_nothing_of_members(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, echo()):
        pass
    (identify,) = discord.sessions.identified
    assert identify["intents"] == 1 << 0 | 1 << 9 | 1 << 12 | 1 << 15


async def test_a_session_that_ends_before_it_told_of_its_servers(discord: FakeDiscord, tmp_path: Path) -> None:
    """What was missed there is still to be read in the next, though later messages of other chats were taken."""
    now, heard = SystemClock().now(), []
    own = make_channel_kit("discord", str(tmp_path), discord.section)
    await own.memo.put("read", b'{"floor": %d}' % make_lowest_id(now - 120_000))
    missed = await discord.say("missed", chat="group", event=str(make_lowest_id(now - 60_000)))
    later = discord.world.write(discord.world.chat("")["id"], discord.world.person(""), "later")

    async def submit(inbound: Inbound) -> str:
        heard.append(inbound.event)
        return inbound.event

    rest = DiscordRest(TOKEN, discord.section["apiBase"])
    reader = DiscordReader(own, rest, DiscordIdentity(ME), submit, lambda: None)
    await reader.load()
    ready = {"application": {"id": "1"}, "guilds": [{"id": GUILD, "unavailable": True}]}
    reader.parsers["READY"](ready)
    reader.parsers["MESSAGE_CREATE"](later)
    await until(lambda: heard == [later["id"]])
    reader.parsers["READY"](ready)
    reader.parsers["GUILD_CREATE"](discord.world.guild())
    await until(lambda: missed in heard)
    await reader.stop()
    await rest.close()
