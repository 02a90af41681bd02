"""SMS: whose request it is, what comes although nobody called, and what is not sent twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from palinurus.channels.sms import inbound
from palinurus.channels.sms.channel import SmsChannel
from palinurus.core.types.channel import ChannelHttpRequest, SendFailure, SendReceipt
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError, QueueFull
from palinurus.testing.conformance.channel import PNG, ChannelHarness, wait_until
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.web.sms import ADDRESS, TOKEN, FakeTwilio


class Quiet(FakeTwilio):
    """There is no public address: nobody calls us."""

    @property
    def section(self) -> dict[str, Any]:
        return {key: value for key, value in super().section.items() if key != "publicWebhookUrl"}


@pytest.fixture(params=[FakeTwilio, Quiet])
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ChannelHarness]:
    async with request.param() as platform:
        platform.calls_us = request.param is FakeTwilio
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


def test_the_vendors_own_example_of_a_signature() -> None:
    """From Twilio's page on security."""
    form = [("CallSid", "CA1234567890ABCDE"), ("Caller", "+14158675309"), ("Digits", "1234"), ("From", "+14158675309")]
    form.append(("To", "+18005551212"))
    right = "RSOYDt4T1cUTdK1PDd93/VVr8B8="
    for url in ("https://mycompany.com/myapp.php?foo=1&bar=2", "https://mycompany.com:443/myapp.php?foo=1&bar=2"):
        assert inbound.verify_twilio("12345", url, form[::-1], right)
    assert not inbound.verify_twilio("12345", "https://mycompany.com/myapp.php?foo=1", form, right)
    assert not inbound.verify_twilio("12346", "https://mycompany.com/myapp.php?foo=1&bar=2", form, right)
    assert not inbound.verify_twilio("12345", "https://mycompany.com/myapp.php?foo=1&bar=2", form[1:], right)
    assert not inbound.verify_twilio("", "https://mycompany.com/myapp.php?foo=1&bar=2", form, right)


async def test_only_signed_requests_are_read(tmp_path: Path) -> None:
    fake = FakeTwilio()
    made = SmsChannel(make_channel_kit("sms", str(tmp_path), fake.section))
    form = {"MessageSid": "SM1", "From": "+1", "Body": "x"}

    async def status(request: ChannelHttpRequest) -> Any:
        told = await made.accept(request)
        return getattr(told, "status", "read")

    assert await status(fake.sign_request(form)) == "read"
    assert await status(fake.sign_request(form, url=ADDRESS + "?x=1")) == 401
    assert await status(fake.sign_request(form, token="other")) == 401
    wrong = fake.sign_request(form)
    assert await status(ChannelHttpRequest("POST", wrong.headers, {}, wrong.body + b"&Body=y")) == 401
    quiet = SmsChannel(make_channel_kit("sms", str(tmp_path), Quiet().section))
    assert (await quiet.accept(fake.sign_request(form))).status == 404  # type: ignore[union-attr]


async def test_what_was_not_taken_is_looked_for_on_the_list(world: ChannelHarness) -> None:
    """Twilio calls once. A request that meets a full queue would be lost."""
    world.refuse = [QueueFull("full")]
    await world.platform.say("patience")
    await wait_until(lambda: world.texts == ["patience"])
    assert len([one for one in world.heard if one.text == "patience"]) == 1


async def test_what_was_said_before_the_first_start_is_not_answered(tmp_path: Path) -> None:
    async with Quiet() as platform:
        platform._add("SM0", "+1999", platform.section["fromNumber"], "long ago", "inbound")
        platform.rows[0]["date_created"] = "Mon, 02 Nov 2020 10:00:00 +0000"
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        await platform.say("now")
        await wait_until(lambda: bool(made.heard))
        await made.stop()
    assert made.texts == ["now"]


async def test_files_come_in_either_way(world: ChannelHarness) -> None:
    await world.platform.say("look", files=[("image/png", PNG)])
    await wait_until(lambda: bool(world.heard))
    (file,) = world.heard[0].files
    assert (file.name, file.mime, Path(file.path).read_bytes()) == ("image.png", "image/png", PNG)


async def test_nothing_is_sent_again_while_the_list_cannot_be_read(world: ChannelHarness, nepal: None) -> None:
    reply = Reply(await world.target(), "Done.", "c2")
    assert isinstance(await world.channel.send(Reply(reply.target, "Done.", "c1")), SendReceipt)
    world.platform.fail("cut")
    assert isinstance(await world.channel.send(reply), SendFailure)
    await world.restart()
    world.platform.silent = True
    assert await world.channel.find(reply) is None
    told = await world.channel.send(reply)
    assert isinstance(told, SendFailure) and told.trouble in ("down", "cut")  # a kept connection may end just then
    assert [one.text for one in world.platform.visible_messages()] == ["Done.", "Done."]
    world.platform.silent = False
    sent = await world.channel.send(reply)  # the same words as those of c1 are not taken for its own
    shown = world.platform.visible_messages()
    assert isinstance(sent, SendReceipt) and [one.text for one in shown] == ["Done.", "Done."]
    assert sent.message_id == shown[1].message_id


async def test_a_message_that_never_arrived_is_sent_again(world: ChannelHarness) -> None:
    reply = Reply(await world.target(), "hello", "c1")
    world.platform.fail("down")
    assert isinstance(await world.channel.send(reply), SendFailure)
    assert isinstance(await world.channel.send(reply), SendReceipt)
    assert isinstance(await world.channel.send(reply), SendReceipt)
    assert [one.text for one in world.platform.visible_messages()] == ["hello"]


def test_reports_on_our_own_messages_say_nothing() -> None:
    assert inbound.parse_form({"MessageSid": "1", "From": "+1", "MessageStatus": "delivered"}, "default", 0) is None
    assert inbound.parse_form({"MessageSid": "1"}, "default", 0) is None
    odd = inbound.parse_form({"MessageSid": "1", "From": "+1", "NumMedia": "x"}, "default", 0)
    assert odd is not None and odd.files == () and inbound.read_date({"date_created": "never"}) == 0


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    whole = {"accountSid": "AC1", "authToken": TOKEN, "fromNumber": "+1"}
    for key in whole:
        with pytest.raises(ConfigError, match=key):
            SmsChannel(make_channel_kit("sms", str(tmp_path), {k: v for k, v in whole.items() if k != key}))
    assert TOKEN not in repr(vars(SmsChannel(make_channel_kit("sms", str(tmp_path), whole))))
