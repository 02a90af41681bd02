"""The Signal channel against a daemon: its promises, and whole conversations as people saw them."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from channels.scene import hurried, running, until
from palinurus.app import App
from palinurus.channels.signal.channel import SignalChannel
from palinurus.core.types.inbound import Inbound
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import PNG, ChannelSuite
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.signal import GROUP, NUMBER, FakeSignal

OPEN = {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"}


class TestConformance(ChannelSuite):
    platform = FakeSignal


class TestSocket(ChannelSuite):
    """The same over TCP, where answers and messages share a connection."""

    @staticmethod
    def platform() -> FakeSignal:
        return FakeSignal("tcp")


def talking(home: Path, model: ScriptedModel, people: FakeSignal, **section: Any) -> AbstractAsyncContextManager[App]:
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(home.parent / "w")}}
    tools = {"trustFrom": ["signal:*"]}  # so that files of the workspace are sent
    return running(home, model, people, "", {**OPEN, **section}, agents=agents, commands={}, tools=tools)


def read(people: FakeSignal, chat: str = "") -> list[str]:
    return [one.text for one in people.visible_messages(chat)]


async def test_a_conversation_with_styles_receipts_and_duplicates(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello, **human**."), say("Yes.")])
    async with FakeSignal() as people, talking(tmp_path / "h", model, people, sendReadReceipts=True):
        first = await people.say("hello", times=3)
        await until(lambda: read(people) == ["Hello, human."])
        await people.say("still there?")
        await until(lambda: read(people) == ["Hello, human.", "Yes."])
    assert people.seen[0]["style"] == ["7:5:BOLD"] and len(model.requests) == 2
    receipts = [params for method, params in people.calls if method == "sendReceipt"]
    uuid, _, at = first.partition(":")
    assert receipts[0] == {"account": NUMBER, "recipient": uuid, "targetTimestamp": [int(at)], "type": "read"}


async def test_a_group_in_which_we_are_named_or_quoted(tmp_path: Path) -> None:
    model = ScriptedModel([say("Here."), say("I meant it.")])
    async with FakeSignal() as people, talking(tmp_path / "h", model, people):
        await people.say("among ourselves", chat="group", sender="ann")
        await people.say("and you?", chat="group", sender="bob", mention=True)
        await until(lambda: read(people, "group") == ["Here."])
        quote = {"id": people.seen[0]["timestamp"], "authorNumber": NUMBER, "authorUuid": None, "text": "Here."}
        await people.say("really?", chat="group", sender="ann", quote=quote)
        await until(lambda: read(people, "group") == ["Here.", "I meant it."])
    assert "and you?" in model.requests[0].messages[-1].text and "\ufffc" not in model.requests[0].messages[-1].text
    assert {params["groupId"] for method, params in people.calls if method == "send"} == {GROUP}


async def test_files_in_and_out_and_a_long_answer_in_parts(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {n}. " + "word " * 60 for n in range(40))
    model = ScriptedModel([say(f"Look.\n\nMEDIA:{tmp_path}/w/cat.png"), say(long)])
    async with FakeSignal() as people, talking(tmp_path / "h", model, people):
        (tmp_path / "w" / "cat.png").write_bytes(PNG)
        people.files["abc.aac"] = b"spoken"
        await people.say("", attachments=[{"contentType": "audio/aac", "id": "abc.aac", "size": 6, "filename": None}])
        await until(lambda: bool(people.visible_messages()))
        assert people.visible_messages()[-1][1:3] == ("Look.", ("cat.png",))
        await people.say("tell me more")
        await until(lambda: "Paragraph 39." in read(people)[-1])
    parts = [text for text in read(people) if text.startswith("Paragraph")]
    assert len(parts) > 1 and all(len(part) <= 4000 for part in parts)
    (kept,) = (path for path in (tmp_path / "h" / "media" / "inbound").iterdir() if path.is_file())
    assert kept.read_bytes() == b"spoken"


async def test_an_allow_entry_may_be_the_number_that_signal_tells(tmp_path: Path) -> None:
    model = ScriptedModel([say("Welcome.")], repeat=True)
    async with FakeSignal() as people:
        _, number = people.person("ann")
        async with talking(tmp_path / "h", model, people, dmPolicy="allowlist", allowFrom=[number]):
            await people.say("hi", sender="eve")
            await people.say("hi", sender="ann")
            await until(lambda: read(people, "ann") == ["Welcome."])
        assert read(people, "eve") == []


async def test_an_account_that_the_daemon_does_not_have_says_what_to_run(tmp_path: Path) -> None:
    async def nobody(inbound: Inbound) -> str:
        raise AssertionError(inbound)

    for transport in ("http", "tcp"):
        people = FakeSignal(transport)
        people.accounts = ["+15559999999"]
        async with people:
            channel = people.channel(str(tmp_path / transport))
            task = asyncio.ensure_future(channel.run(nobody))
            await until(lambda channel=channel: channel.status().state == "signed_out")
            assert f"signal-cli -a {NUMBER} register" in channel.status().detail
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_daemon_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    model = ScriptedModel([say("Back again.")])
    async with FakeSignal() as people, talking(tmp_path / "h", model, people) as app:
        await people.cut()
        await until(lambda: app.channels["signal"].status().state == "reconnecting")
        await people.say("are you there?")
        await people.mend()
        await until(lambda: read(people) == ["Back again."])


def test_what_is_no_address_is_told_at_the_start(tmp_path: Path) -> None:
    for url in ("ftp://x", "127.0.0.1:8080", "tcp://host"):
        with pytest.raises(ConfigError, match="httpUrl"):
            SignalChannel(make_channel_kit("signal", str(tmp_path), {"httpUrl": url}))
    for own in ({}, {"httpHost": "10.0.0.1", "httpPort": 8081}, {"httpUrl": "unix:/run/x.sock"}):
        assert isinstance(SignalChannel(make_channel_kit("signal", str(tmp_path), own)), SignalChannel)


async def test_what_goes_wrong_with_an_answer_and_what_people_see_then(tmp_path: Path) -> None:
    picture = f"Look.\n\nMEDIA:{tmp_path}/w/cat.png"
    model = ScriptedModel([say("**bold** word"), say(picture), say("never"), say("slowly"), say("twice"), say("last")])
    async with FakeSignal() as people, talking(tmp_path / "h", model, people) as app, hurried(app):
        (tmp_path / "w" / "cat.png").write_bytes(PNG)
        people.fail("markup")
        await people.say("one")
        await until(lambda: read(people) == ["**bold** word"])
        people.fail("media")
        await people.say("two")
        await until(lambda: len(read(people)) == 2)
        assert (
            "cat.png" in read(people)[-1] and "Look." in read(people)[-1] and people.visible_messages()[-1].media == ()
        )
        people.fail("gone")
        await people.say("three")
        await until(lambda: len(model.requests) == 3 and not people.faults)
        people.fail("limited", 2)
        await people.say("four")
        await until(lambda: read(people)[2:] == ["slowly"])
        people.fail("cut")  # shown, and nobody told us: once more, never a third time
        await people.say("five")
        await until(lambda: read(people)[3:] == ["twice", "twice"])
        await people.say("six")
        await until(lambda: read(people)[5:] == ["last"])
