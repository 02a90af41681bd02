"""The IRC channel against a server: its promises, and whole conversations as people saw them."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from channels.scene import hurried, running, until
from palinurus.app import App
from palinurus.channels.irc.channel import IrcChannel, make_irc_channel
from palinurus.core.types.channel import SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.channel import PNG, ChannelHarness, ChannelSuite
from palinurus.testing.irc import NICK, ROOM, FakeIrc
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit

OPEN = {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"}


class TestConformance(ChannelSuite):
    platform = FakeIrc


class TestOldServer(ChannelSuite):
    """A server from before capabilities: no ids, no history, no accounts."""

    @staticmethod
    def platform() -> FakeIrc:
        return FakeIrc(modern=False)

    async def test_what_was_said_while_we_were_cut_off_comes(self, world: ChannelHarness) -> None:
        """Nobody keeps it. What is said afterwards comes."""
        await world.platform.cut()
        await until(lambda: world.channel.status().state == "reconnecting")
        await world.platform.say("meanwhile")
        await world.platform.mend()
        await world.ready()
        await world.platform.say("after")
        await until(lambda: world.texts == ["after"])

    async def test_a_reply_is_read_without_markup(self, world: ChannelHarness) -> None:
        sent = await world.channel.send(Reply(await world.target(), "**bold** `code`", "c1"))
        assert sent == SendReceipt("c1") and [one.text for one in world.platform.visible_messages()] == ["bold code"]


def talking(home: Path, model: ScriptedModel, people: FakeIrc, **section: Any) -> AbstractAsyncContextManager[App]:
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(home.parent / "w")}}
    tools = {"trustFrom": ["irc:*"]}  # so that files of the workspace are sent
    return running(home, model, people, "", {**OPEN, **section}, agents=agents, commands={}, tools=tools)


def read(people: FakeIrc, chat: str = "") -> list[str]:
    return [one.text for one in people.visible_messages(chat)]


async def test_a_conversation_with_duplicates_and_a_room(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello, **human**."), say("Two\nlines."), say("Here.")])
    async with FakeIrc() as people, talking(tmp_path / "h", model, people):
        await people.say("hello", times=3)
        await until(lambda: read(people) == ["Hello, human."])
        await people.say("more?")
        await until(lambda: read(people)[1:] == ["Two", "lines."])
        await people.say("among ourselves", chat="group", sender="ann")
        await people.say("and you?", chat="group", sender="bob", mention=True)
        await until(lambda: read(people, "group") == ["Here."])
    assert len(model.requests) == 3 and NICK not in model.requests[2].messages[-1].text


async def test_a_long_answer_comes_whole_in_lines_the_protocol_allows(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {n}: " + "wörd 🜂 " * 40 for n in range(8))
    async with FakeIrc() as people, talking(tmp_path / "h", ScriptedModel([say(long)]), people):
        await people.say("tell me")
        await until(lambda: "".join(read(people)).count("🜂") == 320)
    assert " ".join(read(people)).split() == long.split()


async def test_a_connection_that_breaks_is_made_again_and_nothing_is_lost(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two")])
    async with FakeIrc() as people, talking(tmp_path / "h", model, people):
        await people.say("first")
        await until(lambda: read(people) == ["one"])
        await people.cut()
        await people.say("second")
        await people.mend()
        await until(lambda: read(people) == ["one", "two"])


class Heard:
    """A channel that runs without a program around it."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    async def __call__(self, inbound: Any) -> str:
        self.all.append(inbound)
        return "id"


@asynccontextmanager
async def alone(
    folder: Path, people: FakeIrc, clock: FakeClock | None = None, **section: Any
) -> AsyncIterator[tuple[IrcChannel, Heard]]:
    channel, heard = (
        make_irc_channel(make_channel_kit("irc", str(folder), {**people.section, **section}, clock)),
        Heard(),
    )
    task = asyncio.ensure_future(channel.run(heard))
    try:
        yield channel, heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_identity_is_the_account_or_the_whole_mask_and_never_the_nick(tmp_path: Path) -> None:
    async with FakeIrc() as people, alone(tmp_path, people) as (channel, heard):
        await until(lambda: channel.status().state == "ready")
        await people.say("it is me")
        await people.say("it is me too", mask="human!evil@elsewhere", sender="human2")
        await until(lambda: len(heard.all) == 2)
    me, other = (one.sender for one in heard.all)
    assert (me.id, me.also) == ("human", ("human!human@home.human",))
    assert (other.id, other.also, other.name) == ("human!evil@elsewhere", (), "human")


async def test_a_login_with_sasl_and_a_wrong_one(tmp_path: Path) -> None:
    async with FakeIrc() as people:
        people.password = "right"
        async with alone(tmp_path, people, nickserv={"password": "right"}) as (channel, _):
            await until(lambda: channel.status().state == "ready")
        assert ("PLAIN",) in [one.params for one in people.lines if one.command == "AUTHENTICATE"]
        async with alone(tmp_path, people, nickserv={"password": "wrong"}) as (channel, _):
            await until(lambda: channel.status().state == "signed_out")
            assert "nickserv.password" in channel.status().detail and "wrong" not in repr(channel.status())


async def test_without_sasl_the_services_are_told(tmp_path: Path) -> None:
    async with FakeIrc(modern=False) as people, alone(tmp_path, people, nickserv={"password": "pw"}) as (channel, _):
        await until(lambda: channel.status().state == "ready")
    assert [one.params for one in people.lines if one.command == "PRIVMSG"] == [("NickServ", "IDENTIFY pw")]


async def test_a_nick_that_is_taken_and_a_room_that_is_closed(tmp_path: Path) -> None:
    async with FakeIrc() as people:
        people.taken, people.banned = {NICK}, {ROOM}
        async with alone(tmp_path, people) as (channel, _):
            await until(lambda: channel.status().state == "ready")
            assert channel.status().me == f"{NICK}_"
            assert ROOM in channel.status().detail and "+b" in channel.status().detail
    assert ("pal_", "+B") in [one.params for one in people.lines if one.command == "MODE"]


async def test_why_a_server_hangs_up_is_told(tmp_path: Path) -> None:
    async with FakeIrc() as people, alone(tmp_path, people, FakeClock()) as (channel, _):
        await until(lambda: channel.status().state == "ready")
        people.tell("ERROR", "Closing Link: pal (K-Lined)")
        await until(lambda: channel.status().state == "reconnecting")
        assert "K-Lined" in channel.status().detail


async def test_programs_and_services_are_not_answered(tmp_path: Path) -> None:
    async with FakeIrc() as people, alone(tmp_path, people) as (channel, heard):
        await until(lambda: channel.status().state == "ready")
        people.tell("NOTICE", NICK, "you are being noticed", source="x!y@z")
        people.tell("PRIVMSG", NICK, "\x01VERSION\x01", source="x!y@z")
        people.tell("PRIVMSG", NICK, "You are now identified", source="NickServ!s@services")
        people.tell("PRIVMSG", NICK, "from a server")
        people.tell("PRIVMSG", NICK, "\x02\x0304,01hi\x0f there", source="x!y@z")
        await until(lambda: bool(heard.all))
    assert [one.text for one in heard.all] == ["hi there"]


async def test_a_nick_that_somebody_else_holds_by_now_is_not_written_to(tmp_path: Path) -> None:
    async with FakeIrc() as people, alone(tmp_path, people) as (channel, heard):
        await until(lambda: channel.status().state == "ready")
        await people.say("a secret question", sender="ann")
        await until(lambda: bool(heard.all))
        assert isinstance(await channel.send(Reply(heard.all[0].target, "yes", "c1")), SendReceipt)
        people.tell("NICK", "ann2", source=people.mask("ann"))
        people.tell("JOIN", ROOM, source="ann!mallory@elsewhere")
        await people.say("sync")
        await until(lambda: len(heard.all) == 2)
        answer = await channel.send(Reply(heard.all[0].target, "the secret", "c2"))
        assert isinstance(answer, SendFailure) and answer.trouble == "gone"
    assert read(people, "ann") == ["yes"]


async def test_a_line_break_in_an_answer_or_a_target_is_no_command(tmp_path: Path) -> None:
    async with FakeIrc() as people, alone(tmp_path, people) as (channel, _):
        await until(lambda: channel.status().state == "ready")
        await channel.send(Reply(Target("irc", "human\r\nQUIT"), "a\r\nQUIT :b\x00c", "c1", plain=True))
        assert {one.command for one in people.lines} <= {"CAP", "NICK", "USER", "MODE", "JOIN", "PING", "PRIVMSG"}, (
            people.lines
        )


async def test_tls_is_on_unless_it_is_switched_off_and_certificates_are_checked(tmp_path: Path) -> None:
    pem = tmp_path / "pem"
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
    ]
    argv += ["-keyout", f"{pem}.key", "-out", str(pem), "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    if shutil.which("openssl") is None or subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("needs openssl to make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, f"{pem}.key")
    async with FakeIrc(certificate=context) as people:
        async with alone(tmp_path, people, tls=None) as (channel, _):
            await until(lambda: channel.status().state == "reconnecting")
            assert "certificate" in channel.status().detail
        async with alone(tmp_path, people, tls=None, tlsCaFile=str(pem)) as (channel, _):
            await until(lambda: channel.status().state == "ready")


def test_passwords_need_tls_and_a_nick_is_needed(tmp_path: Path) -> None:
    secret = {"host": "irc.example", "nick": "pal", "tls": False, "nickserv": {"password": "x"}}
    with pytest.raises(ConfigError, match=r"channels\.irc\.tls"):
        make_irc_channel(make_channel_kit("irc", str(tmp_path), secret))
    with pytest.raises(ConfigError, match=r"channels\.irc\.nick"):
        make_irc_channel(make_channel_kit("irc", str(tmp_path), {"host": "irc.example"}))


async def test_what_goes_wrong_with_an_answer_and_what_people_see_then(tmp_path: Path) -> None:
    picture = f"Look.\n\nMEDIA:{tmp_path}/w/cat.png"
    model = ScriptedModel(
        [say("never"), say("a longer answer than the server takes"), say(picture), say("once"), say("then")]
    )
    async with FakeIrc() as people, talking(tmp_path / "h", model, people) as app, hurried(app):
        (tmp_path / "w" / "cat.png").write_bytes(PNG)
        people.fail("gone")
        await people.say("one")
        await until(lambda: len(model.requests) == 1 and not people.faults)
        people.fail("long")
        await people.say("two")
        await until(lambda: " ".join(read(people)) == "a longer answer than the server takes")
        await people.say("three")
        await until(lambda: read(people)[-1] == "📎 cat.png" and "Look." in read(people))
        people.fail("cut")  # shown, and the connection broke: the server's history says so
        before = len(read(people))
        await people.say("four")
        await until(lambda: read(people)[before:] == ["once"] and not people.faults)
        await people.say("five")
        await until(lambda: read(people)[before:] == ["once", "then"])


async def test_without_history_a_broken_connection_is_one_more_copy_and_no_third(tmp_path: Path) -> None:
    model = ScriptedModel([say("twice")])
    async with FakeIrc(modern=False) as people, talking(tmp_path / "h", model, people) as app, hurried(app):
        (tmp_path / "w").mkdir(exist_ok=True)
        people.fail("cut")
        await people.say("hello")
        await until(lambda: read(people) == ["twice", "twice"])
