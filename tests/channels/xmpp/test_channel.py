"""The XMPP channel keeps what every channel promises, and what is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.channels.xmpp.channel import make_xmpp_channel
from palinurus.core.types.channel import SendReceipt, TypingAction
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import PNG, ChannelHarness, ChannelSuite, wait_until
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.xmpp.server import HUMAN, FakeXmpp


class TestConformance(ChannelSuite):
    platform = FakeXmpp

    async def test_the_archive_says_whether_it_was_shown(self, world: ChannelHarness) -> None:
        target = await world.target()
        reply = Reply(target, "once", "c1")
        assert await world.channel.find(reply) is None
        await world.channel.send(reply)
        assert await world.channel.find(reply) == SendReceipt("c1")
        for number in range(120):  # further back than a page
            await world.channel.send(Reply(target, f"m{number}", f"m{number}"))
        assert await world.channel.find(reply) == SendReceipt("c1")

    async def test_more_than_a_page_was_said_while_we_were_away(self, world: ChannelHarness) -> None:
        await world.target()
        await world.stop()
        for number in range(120):
            await world.platform.say(f"m{number}")
        await world.platform.say("in the room", chat="group")
        await world.restart()
        await wait_until(lambda: len(world.events) == 122)
        direct = [one for one in world.texts if one != "in the room"]
        assert direct == ["are you there?", *(f"m{number}" for number in range(120))]

    async def test_receipts_when_it_is_on_disk_and_states(self, world: ChannelHarness) -> None:
        assert isinstance(world.platform, FakeXmpp)
        target = await world.target()
        await wait_until(lambda: bool(world.platform.received))  # type: ignore[attr-defined]
        await world.channel.act(target, TypingAction())
        await world.channel.send(Reply(target, "done", "c1"))
        assert world.platform.states == ["composing", "active"] and target.to == HUMAN

    async def test_a_file_comes_as_an_address(self, world: ChannelHarness) -> None:
        """Addresses go through the one guard: this machine's are refused, and that is said."""
        assert isinstance(world.platform, FakeXmpp)
        world.platform.files["chart.png"] = PNG
        url = f"{world.platform._http.url}/f/chart.png"
        await world.platform.say(url, inside=f"<x xmlns='jabber:x:oob'><url>{url}</url></x>")
        await wait_until(lambda: bool(world.heard))
        assert "chart.png could not be fetched" in world.heard[0].text

    async def test_an_id_that_somebody_else_claims_to_have_given_is_no_id(self, world: ChannelHarness) -> None:
        forged = f"<stanza-id xmlns='urn:xmpp:sid:0' by='{HUMAN}' id='a1'/>"
        await world.platform.say("one", inside=forged)
        await world.platform.say("two", inside=forged)
        await wait_until(lambda: world.texts == ["one", "two"])


def test_what_the_config_must_say(tmp_path: Path) -> None:
    for own in ({"password": "x"}, {"jid": "nobody", "password": "x"}, {"jid": "a@b"},
                {"jid": "a@b", "password": "x", "tls": False}):  # fmt: skip
        with pytest.raises(ConfigError):
            make_xmpp_channel(make_channel_kit("xmpp", str(tmp_path), own))
