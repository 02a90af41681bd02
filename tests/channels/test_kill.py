"""kill -9 of a real gateway on the way of a message, on channels with and without client ids: what people see.

Telegram, Signal, Teams and an IRC server without history take no ids and cannot be asked: two copies at most, and the
trace says that nobody could know. Discord, Matrix, Feishu, LINE, Google Chat and the webhook's receiver know the id of
what they have; Slack, Mattermost, Nextcloud, Twilio, BlueBubbles, XMPP and an IRC server with history can be read
back: one copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from channels.scene import Gateway, texts, until
from palinurus.core.types.channel import ChannelHttpRequest
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.irc import FakeIrc
from palinurus.testing.matrix.sealed import FakeSealedMatrix
from palinurus.testing.matrix.server import FakeMatrix
from palinurus.testing.matrix.state import ALICE
from palinurus.testing.server import ModelServer
from palinurus.testing.signal import PEOPLE, FakeSignal
from palinurus.testing.slack.server import FakeSlack
from palinurus.testing.telegram.server import ANN, FakeTelegram
from palinurus.testing.web import bluebubbles, feishu, googlechat, line, mattermost, msteams, nextcloud, sms
from palinurus.testing.web.bluebubbles import FakeBlueBubbles
from palinurus.testing.web.feishu import FakeFeishu
from palinurus.testing.web.googlechat import FakeGoogleChat
from palinurus.testing.web.hooked import HookedPlatform
from palinurus.testing.web.line import FakeLine
from palinurus.testing.web.mattermost import FakeMattermost
from palinurus.testing.web.msteams import FakeTeams
from palinurus.testing.web.nextcloud import FakeNextcloud
from palinurus.testing.web.sms import FakeTwilio
from palinurus.testing.webhook import FakeWebhook
from palinurus.testing.xmpp.server import HUMAN, FakeXmpp

LONG = 30.0


async def at_once(people: Any, port: int) -> None:
    """The platform keeps what is said until we are there."""


async def joined(people: FakeIrc, port: int) -> None:
    """IRC keeps nothing: wait until we are in the room."""
    await until(lambda: any(one.command == "JOIN" for one in people.lines), LONG)
    people.lines.clear()


async def identified(people: FakeDiscord, port: int) -> None:
    """What was said before our first session is not for us."""
    await until(lambda: people.sessions.identified and people.sessions.all, LONG)
    people.sessions.identified.clear()


async def synced(people: FakeMatrix, port: int) -> None:
    """What was said before our first look is not for us."""
    await until(lambda: any("/sync" in path for _, path in people.requests), LONG)
    people.requests.clear()


async def introduced(people: FakeSealedMatrix, port: int) -> None:
    await until(lambda: bool(people.spare), LONG)
    await synced(people, port)


async def signed_in(people: FakeXmpp, port: int) -> None:
    """What was said before our first look is not for us."""
    await until(lambda: bool(people.looked), LONG)
    people.looked.clear()


async def through(people: FakeWebhook, port: int) -> None:
    """Requests go to the gateway; one that is not up yet is tried again."""

    async def post(data: bytes, headers: dict[str, str]) -> int:
        url = f"http://127.0.0.1:{port}/channels/webhook/default"
        try:
            async with aiohttp.ClientSession() as http, http.post(url, data=data, headers=headers) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 503

    people.post = post


async def called(people: HookedPlatform, port: int) -> None:
    """The platform calls the gateway, again and again where that is not up."""

    async def post(request: ChannelHttpRequest) -> int:
        url = f"http://127.0.0.1:{port}/channels/{people.name}/default"
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.post(url, data=request.body, headers=request.headers, params=request.query) as answer,
            ):
                return answer.status
        except aiohttp.ClientError:
            return 503

    people.post = post


async def attached(people: FakeMattermost, port: int) -> None:
    """What was said before our first socket is not for us."""
    await until(lambda: any("/websocket" in call for call in people.calls), LONG)
    people.calls.clear()


class Case(NamedTuple):
    fake: Callable[[], Any]
    owner: Callable[[Any], str]
    reached: Callable[[Any, int], Awaitable[None]] = at_once
    copies: int = 1


CASES: dict[str, Case] = {
    "telegram": Case(FakeTelegram, lambda people: str(ANN), at_once, 2),
    "discord": Case(FakeDiscord, lambda people: str(people.world.person("")["id"]), identified),
    "slack": Case(FakeSlack, lambda people: "UALICE"),
    "signal": Case(FakeSignal, lambda people: PEOPLE["human"][0], at_once, 2),
    "matrix": Case(FakeMatrix, lambda people: ALICE, synced),
    "matrix-encrypted": Case(FakeSealedMatrix, lambda people: ALICE, introduced),
    "irc": Case(FakeIrc, lambda people: "human", joined),
    "irc-old": Case(lambda: FakeIrc(modern=False), lambda people: people.mask(), joined, 2),
    "xmpp": Case(FakeXmpp, lambda people: HUMAN, signed_in),
    "webhook": Case(FakeWebhook, lambda people: "human", through),
    "feishu": Case(FakeFeishu, lambda people: feishu.ANN, called),
    "line": Case(FakeLine, lambda people: line.ALICE, called),
    "googlechat": Case(FakeGoogleChat, lambda people: googlechat.ALICE, called),
    "msteams": Case(FakeTeams, lambda people: msteams.ALICE, called, 2),
    "nextcloud-talk": Case(FakeNextcloud, lambda people: nextcloud.ALICE, called),
    "sms": Case(FakeTwilio, lambda people: sms.ALICE, called),
    "bluebubbles": Case(FakeBlueBubbles, lambda people: bluebubbles.ALICE, called),
    "mattermost": Case(FakeMattermost, lambda people: mattermost.ALICE, attached),
}
SHORT = ("telegram", "discord", "slack", "signal")  # one of each kind, and those most people use


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.torture) for name in CASES]
)
async def test_killed_between_send_and_receipt(tmp_path: Path, name: str) -> None:
    """The same words were said before, too."""
    case = CASES[name]
    async with case.fake() as people, ModelServer() as model:
        gateway = Gateway(tmp_path, model.url, people, case.owner(people))
        with gateway.up("outbox.sent:2") as process:
            await case.reached(people, gateway.port)
            await people.say("SAY Hello there.")
            await until(lambda: texts(people) == ["Hello there."], LONG)
            await people.say("SAY Hello there.")
            await until(lambda: process.poll() is not None, LONG)
            assert process.returncode == 137 and texts(people) == ["Hello there."] * 2
        with gateway.up():
            await case.reached(people, gateway.port)
            await until(gateway.delivered, LONG)
            await people.say("SAY And again.")
            await until(lambda: texts(people)[-1:] == ["And again."], LONG)
    assert texts(people) == ["Hello there."] * (1 + case.copies) + ["And again."]
    assert len(model.requests) == 3
    told = [f"{what} {detail}" for what, detail in gateway.rows("SELECT what, detail FROM steps ORDER BY item, n")]
    assert case.copies == 1 or any("not known" in line or "uncertain" in line for line in told), told


@pytest.mark.torture
@pytest.mark.parametrize("crash", ["accept.before:1", "accept.after:1", "model.done:1", "settle.after:1"])
@pytest.mark.parametrize("name", ["telegram", "slack", "matrix", "webhook"])
async def test_answered_once_wherever_we_die(tmp_path: Path, name: str, crash: str) -> None:
    """Who was not told that a message is on disk tells it again."""
    case = CASES[name]
    async with case.fake() as people, ModelServer() as model:
        gateway = Gateway(tmp_path, model.url, people, case.owner(people))
        with gateway.up(crash) as process:
            await case.reached(people, gateway.port)
            await people.say("SAY Hello there.")
            await until(lambda: process.poll() is not None, LONG)
        with gateway.up():
            await case.reached(people, gateway.port)
            await until(lambda: bool(texts(people)) and gateway.delivered(), LONG)
            await people.say("SAY And again.")
            await until(lambda: texts(people)[-1:] == ["And again."], LONG)
    assert texts(people) == ["Hello there.", "And again."]
