"""The webhook channel: its promises, and whole conversations through a gateway, as the people behind it saw them."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.scene import hurried, running, until
from gateway.host import TOKEN
from palinurus.app import App
from palinurus.channels.webhook.channel import WebhookChannel, make_signed_headers
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import SendFailure
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.gateway.server import GatewayServer
from palinurus.testing.conformance.channel import PNG, ChannelSuite
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.webhook import SECRET, FakeWebhook

OPEN = {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"}


class TestConformance(ChannelSuite):
    platform = FakeWebhook


class Site:
    def __init__(self, app: App, server: GatewayServer, people: FakeWebhook, http: aiohttp.ClientSession) -> None:
        self.app, self.people, self._http = app, people, http
        self.url = f"http://127.0.0.1:{server.port}/channels/webhook/default"

    async def post(self, data: bytes, headers: dict[str, str]) -> int:
        async with self._http.post(self.url, data=data, headers=headers) as answer:
            await answer.read()
            return answer.status

    def read(self, chat: str = "") -> list[str]:
        return [one.text for one in self.people.visible_messages(chat)]


@asynccontextmanager
async def site(home: Path, model: ScriptedModel, people: FakeWebhook, **section: Any) -> AsyncIterator[Site]:
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(home.parent / "w")}}
    tools = {"trustFrom": ["webhook:*"]}  # so that files of the workspace are sent
    async with running(home, model, people, "", {**OPEN, **section}, agents=agents, commands={}, tools=tools) as app:
        server = GatewayServer(app, app.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        try:
            async with aiohttp.ClientSession() as http:
                made = Site(app, server, people, http)
                people.post = made.post
                yield made
        finally:
            await server.stop()


async def test_a_conversation_with_duplicates_and_a_group(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello, **human**."), say("Yes."), say("Here.")])
    async with FakeWebhook() as people, site(tmp_path / "h", model, people) as here:
        await people.say("hello", times=3)
        await until(lambda: here.read() == ["Hello, human."])
        await people.say("still there?")
        await until(lambda: here.read() == ["Hello, human.", "Yes."])
        await people.say("among ourselves", chat="group", sender="ann")
        await people.say("and you?", chat="group", sender="bob", mention=True)
        await until(lambda: here.read("group") == ["Here."])
    assert people.seen[0]["markdown"] == "Hello, **human**."
    assert len(model.requests) == 3 and "and you?" in model.requests[2].messages[-1].text


async def test_files_in_and_out_and_a_long_answer_in_parts(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {n}. " + "word " * 60 for n in range(100))
    work = tmp_path / "w"
    model = ScriptedModel([say(f"Look.\n\nMEDIA:{work}/cat.png"), say(long)])
    async with FakeWebhook() as people, site(tmp_path / "h", model, people) as here:
        (work / "cat.png").write_bytes(PNG)
        note = base64.b64encode(b"a note").decode()
        await people.say("what is this?", files=[{"name": "note.txt", "mime": "text/plain", "data": note}])
        await until(lambda: bool(people.visible_messages()))
        assert (
            people.visible_messages()[-1][1:3] == ("Look.", ("cat.png",)) and people.seen[-1]["files"][0]["data"] == PNG
        )
        await people.say("tell me more")
        await until(lambda: here.read()[-1].startswith("Paragraph") and "Paragraph 99." in here.read()[-1])
    parts = [text for text in here.read() if text.startswith("Paragraph")]
    assert len(parts) > 1 and all(len(part) <= 20_000 for part in parts)
    kept = [path for path in (tmp_path / "h" / "media" / "inbound").iterdir() if path.is_file()]
    assert [path.read_bytes() for path in kept] == [b"a note"]


async def test_the_receiver_fails_in_every_way_and_each_answer_is_shown_once(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    async with FakeWebhook() as people, site(tmp_path / "h", model, people) as here, hurried(here.app):
        people.fail("cut")
        people.fail("limited")
        await people.say("first")
        await until(lambda: here.read() == ["one"])
        await people.say("second")
        await until(lambda: here.read() == ["one", "two"])
        people.fail("gone")
        await people.say("third")
        await until(lambda: len(model.requests) == 3 and not people.faults)
    assert here.read() == ["one", "two"]


async def test_what_is_not_signed_or_not_understood_starts_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([say("no")])
    async with FakeWebhook() as people, site(tmp_path / "h", model, people) as here:
        data, now = b'{"id": "1", "from": "x", "text": "hi"}', here.app.clock.now()
        assert await here.post(data, {}) == 401
        assert await here.post(data, make_signed_headers(Secret("wrong"), data, now)) == 401
        assert await here.post(data + b" ", make_signed_headers(Secret(SECRET), data, now)) == 401
        assert await here.post(data, make_signed_headers(Secret(SECRET), data, now - 301_000)) == 401
        for bad in (b"[]", b"{", b'{"id":"1"}', b'{"id":"","from":"x","text":"y"}',
                    b'{"id":"1","from":"x","text":"y","kind":"odd"}',
                    b'{"id":"1","from":"x","files":[{"data":"%%"}]}'):  # fmt: skip
            assert await here.post(bad, make_signed_headers(Secret(SECRET), bad, now)) == 400, bad
    assert model.requests == []


async def test_without_an_address_answers_have_nowhere_to_go(tmp_path: Path) -> None:
    channel = WebhookChannel(make_channel_kit("webhook", str(tmp_path), {"secret": "s"}))
    answer = await channel.send(Reply(Target("webhook", "x"), "hi", "c"))
    assert isinstance(answer, SendFailure) and answer.trouble == "refused" and "url" in answer.reason
    with pytest.raises(ConfigError, match=r"channels\.webhook\.secret"):
        WebhookChannel(make_channel_kit("webhook", str(tmp_path), {}))
    with pytest.raises(ConfigError, match=r"channels\.webhook\.url"):
        WebhookChannel(make_channel_kit("webhook", str(tmp_path), {"secret": "s", "url": "ftp://x"}))
