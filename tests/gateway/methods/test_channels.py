"""channels.*, pairing.*, send: a whole gateway with a configured fake channel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flow.test_app import running, until
from gateway.host import TOKEN
from gateway.whole import Place
from palinurus.core.types.channel import ChannelAbilities, ChannelStatus, ReactAction
from palinurus.gateway import token
from palinurus.gateway.rpc import PAIRING, READ, MethodError
from palinurus.gateway.server import GatewayServer
from palinurus.testing.channel import FakeChannel
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.model import ScriptedModel, say


@asynccontextmanager
async def place(home: Path, channel: FakeChannel) -> AsyncIterator[Place]:
    config = {"channels": {"fake": {"dmPolicy": "pairing"}}, "gateway": {"auth": {"token": TOKEN}}}
    async with running(home, ScriptedModel([say("answer")], repeat=True), channel, **config) as app:
        server = GatewayServer(app, app.clock, TOKEN)
        port = await server.start("127.0.0.1", 0)
        token.announce_location(
            str(home), token.GatewayLocation("127.0.0.1", port, 1, proof=server.proof_key)
        )  # for the commands
        try:
            async with connect_to_gateway(server.port, app.clock, token=TOKEN) as link:
                yield Place(app, server, link)
        finally:
            await server.stop()


async def test_how_the_channels_are(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with place(tmp_path / "h", channel) as here:
        channel.set_status("ready", me="@pal")
        (account,) = (await here.call("channels.status"))["channelAccounts"]["fake"]
        assert account == {
            "accountId": "default", "name": "@pal", "enabled": True, "configured": True, "linked": True,
            "running": True, "connected": True, "healthState": "ready", "dmPolicy": "pairing",
        }  # fmt: skip
        assert await here.call("channels.stop", channel="fake") == {"channel": "fake", "stopped": True}
        assert await here.call("channels.stop", channel="fake") == {"channel": "fake", "stopped": False}
        (account,) = (await here.call("channels.status", channel="fake"))["channelAccounts"]["fake"]
        assert (account["running"], account["connected"], account["healthState"]) == (False, False, "stopped")
        assert (await here.call("channels.start", channel="fake"))["started"] is True
        assert (await here.call("channels.start", channel="fake"))["started"] is False
        channel._status = ChannelStatus("signed_out", "sign in again")
        (account,) = (await here.call("channels.status"))["channelAccounts"]["fake"]
        assert (account["linked"], account["lastError"]) == (False, "sign in again")
        assert (await here.call("channels.status", channel="no"))["channelOrder"] == []
        assert "no channel 'no'" in (await here.refused("channels.start", channel="no")).message
        assert (await here.call("channels.logout", channel="fake"))["loggedOut"] is False


async def test_a_message_to_somebody_and_its_receipt(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with place(tmp_path / "h", channel) as here:
        params = {"channel": "fake", "to": "chat", "message": "ahoy", "idempotencyKey": "k"}
        first, again = await here.call("send", **params), await here.call("send", **params)
        assert first == again and (first["state"], first["messageId"]) == ("sent", "fake-1")
        channel.faults = ["refused"]
        failed = await here.call("send", **{**params, "idempotencyKey": "k2"})
        assert (failed["state"], failed["error"]) == ("failed", "the chat does not exist")
        assert "no channel" in (await here.refused("send", **{**params, "channel": "x"})).message
        async with here.other(scopes=(READ,)) as reader:
            with pytest.raises(MethodError, match="scope"):
                await reader.call("send", params)
    assert channel.texts == ["ahoy"]


async def test_what_the_message_tool_can_do_for_a_client(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ChannelAbilities(acts=frozenset(("react", "read"))))
    async with place(tmp_path / "h", channel) as here:

        async def act(action: str, **params: object) -> dict[str, object]:
            return dict(await here.call("message.action", **asked(action, **params)))

        def asked(action: str, **params: object) -> dict[str, object]:
            return {"action": action, "params": params, "channel": "fake", "idempotencyKey": "k"}

        first, again = await act("send", target="5", message="ahoy"), await act("send", to="5", message="ahoy")
        assert first == again and first["messageId"] == "fake-1"
        assert await act("react", to="5", messageId="1", emoji="x") == {
            "ok": True, "action": "react", "channel": "fake", "messageId": "", "data": None,
        }  # fmt: skip
        for action, params, why in (
            ("send", {"message": "x"}, "target is missing"),
            ("send", {"to": "5"}, "message is missing"),
            ("react", {"to": "5", "emoji": "x"}, "messageId is missing"),
            ("pin", {"to": "5", "messageId": "1"}, "fake cannot pin; it can: send, react, read"),
            ("fly", {"to": "5"}, "cannot fly"),
        ):
            assert why in (await here.refused("message.action", **asked(action, **params))).message
        async with here.other(scopes=(READ,)) as reader:
            with pytest.raises(MethodError, match="scope"):
                await reader.call("message.action", asked("send", to="5", message="x"))
    assert channel.texts == ["ahoy"] and [act for _, act in channel.acts] == [ReactAction("1", "x")]


async def test_strangers_are_let_in_over_the_gateway(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with place(tmp_path / "h", channel) as here, here.other(scopes=(PAIRING,)) as helper:
        for who in ("7", "8"):
            assert await channel.receive("hi", event=f"e{who}", sender=who) == [""]
        requests = (await here.call("pairing.list", channel="fake"))["requests"]
        assert [(one["id"], one["channel"]) for one in requests] == [("7", "fake"), ("8", "fake")]
        # Whoever may only pair makes nobody the owner.
        helped = await helper.call("pairing.approve", {"code": requests[0]["code"], "notify": False})
        assert (helped["id"], helped["owner"]) == ("7", False)
        assert (await here.call("pairing.approve", code=requests[1]["code"]))["owner"] is True
        assert "no stranger" in (await here.refused("pairing.approve", code=requests[1]["code"])).message
        await until(lambda: len(channel.seen) == 3)
        assert sum("let in" in text and "lets you in" not in text for text in channel.texts) == 1
        (ident,) = await channel.receive("hi again", event="e9", sender="7")
        assert (await here.app.wait(ident)).outcome == "answered"
        assert (await here.call("pairing.revoke", who="fake:7"))["id"] == "7"
        assert await channel.receive("and now", event="e10", sender="7") == [""]
        (asking,) = (await here.call("pairing.list"))["requests"]
        assert (await here.call("pairing.reject", code=asking["code"]))["id"] == "7"
        assert [one["id"] for one in (await here.call("pairing.list"))["paired"]] == ["8"]


async def test_what_could_not_be_opened_says_why(tmp_path: Path) -> None:
    config = {
        "channels": {"line": {"channelSecret": "s"}, "nowhere": {}, "sms": {"accounts": {"a": {"authToken": "t"}}}},
        "gateway": {"auth": {"token": TOKEN}},
    }
    async with running(tmp_path / "h", ScriptedModel([]), FakeChannel(), **config) as app:
        server = GatewayServer(app, app.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        try:
            async with connect_to_gateway(server.port, app.clock, token=TOKEN) as link:
                told = (await Place(app, server, link).call("channels.status"))["channelAccounts"]
        finally:
            await server.stop()
    assert "channels.line.channelAccessToken: is missing" in told["line"][0]["lastError"]
    assert (told["line"][0]["healthState"], told["line"][0]["running"]) == ("failed", False)
    assert "channels.sms.accounts.a.accountSid: is missing" in told["sms"][0]["lastError"]
    assert told["nowhere"][0]["lastError"] == "there is no such channel"
