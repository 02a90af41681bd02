"""Files that platforms fetch from us, and whole conversations over signed requests through a gateway."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from channels.scene import hurried, running, texts, until
from gateway.host import TOKEN
from palinurus.app import App
from palinurus.app.media import ChannelFiles
from palinurus.channels.kit import ChannelFile
from palinurus.channels.web.hook import DAY, PublicFiles, verify_base64_hmac
from palinurus.core.types.channel import ChannelHttpRequest, SendFailure
from palinurus.gateway.server import GatewayServer
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import FastClock, make_channel_kit
from palinurus.testing.web import bluebubbles, googlechat, line, msteams, nextcloud, sms
from palinurus.testing.web.hooked import HookedPlatform
from palinurus.tools.web.egress import EgressGuard

# Each platform that calls us: its fake, and its usual person.
PLATFORMS: tuple[tuple[Callable[[], HookedPlatform], str], ...] = (
    (line.FakeLine, line.ALICE),
    (sms.FakeTwilio, sms.ALICE),
    (msteams.FakeTeams, msteams.ALICE),
    (googlechat.FakeGoogleChat, googlechat.ALICE),
    (nextcloud.FakeNextcloud, nextcloud.ALICE),
    (bluebubbles.FakeBlueBubbles, bluebubbles.ALICE),
)


def over(rows: Sequence[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("make", "owner"), rows, ids=lambda one: getattr(one, "name", ""))


every = over(PLATFORMS)
once = over(
    [row for row in PLATFORMS if row[0] is not msteams.FakeTeams]
)  # it can be neither asked nor told: two copies


@asynccontextmanager
async def served(
    home: Path, model: ScriptedModel, people: HookedPlatform, owner: str, own: dict[str, Any] | None = None
) -> AsyncIterator[App]:
    """The program and its gateway; the platform's requests go over HTTP."""
    async with running(home, model, people, owner, own) as app:
        made = app.channels[people.name]
        people.made = made  # type: ignore[assignment]
        server = GatewayServer(app, app.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.port}/channels/{people.name}/default"
        try:
            async with aiohttp.ClientSession() as http:

                async def post(request: ChannelHttpRequest) -> int:
                    async with http.request(
                        request.method, address, data=request.body, headers=request.headers, params=request.query
                    ) as answer:
                        await answer.read()
                        return answer.status

                people.post = post
                yield app
        finally:
            await server.stop()


@every
async def test_a_conversation(make: Callable[[], HookedPlatform], owner: str, tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello, **you**."), say("Yes.")])
    async with make() as people, served(tmp_path / "h", model, people, owner):
        await people.say("hello", times=3)
        await until(lambda: texts(people) == ["Hello, you."])
        await people.say("still there?")
        await until(lambda: texts(people) == ["Hello, you.", "Yes."])
    assert len(model.requests) == 2


@every
async def test_strangers_get_a_code_and_what_is_not_signed_nothing(
    make: Callable[[], HookedPlatform], owner: str, tmp_path: Path
) -> None:
    model = ScriptedModel([say("no")])
    own = {"dmPolicy": "pairing", "allowFrom": []}
    async with make() as people, served(tmp_path / "h", model, people, "somebody-else", own):
        await people.say("let me in")
        await until(lambda: texts(people))
        assert "pal pairing approve" in texts(people)[0]
        for body in (b"", b"{}", b"[]", b"MessageSid=SM1&From=%2B1", b'{"events": [{"type": "message"}]}'):
            for method in ("POST", "GET"):
                assert await people.post(ChannelHttpRequest(method, {}, {}, body)) in (400, 401, 405)
    assert model.requests == []


@once
async def test_each_answer_is_shown_once_whatever_goes_wrong(
    make: Callable[[], HookedPlatform], owner: str, tmp_path: Path
) -> None:
    model = ScriptedModel([say("one"), say("two")])
    own = {"replyTokens": False}  # LINE's die while two minutes pass at once, and then nobody knows
    async with make() as people, served(tmp_path / "h", model, people, owner, own) as app, hurried(app):
        people.fail("cut")
        await people.say("first")
        await until(lambda: texts(people) == ["one"])
        people.fail("down")
        await people.say("second")
        await until(lambda: texts(people) == ["one", "two"])
    assert texts(people) == ["one", "two"]


async def test_public_files_are_served_to_who_knows_their_name(tmp_path: Path) -> None:
    clock = FastClock()
    files = PublicFiles(make_channel_kit("line", str(tmp_path), {}, clock), "https://pal.example/c?a=1")
    url = await files.publish(ChannelFile("a b.png", "image/png", b"png"))
    assert isinstance(url, str) and url.startswith("https://pal.example/c?a=1&file=") and url.endswith("name=a+b.png")
    name = url.partition("file=")[2].partition("&")[0]
    told = await files.serve(name)
    assert (told.status, told.body, told.content_type) == (200, b"png", "image/png")
    page = await files.publish(ChannelFile("page.html", "text/html", b"<script>"))
    assert isinstance(page, str)
    told = await files.serve(page.partition("file=")[2].partition("&")[0])
    assert told.content_type == "application/octet-stream"  # nothing that runs comes from our own address
    for wrong in ("", "../palinurus.json", "0" * 32, name.upper(), f"{name}/../x", "."):
        assert (await files.serve(wrong)).status == 404
    clock.ahead = int((DAY + 1) * 1000)
    await files.publish(ChannelFile("b.png", "image/png", b""))
    assert (await files.serve(name)).status == 404
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "public").iterdir()} == {0o600}


async def test_a_full_disk_costs_the_file_and_not_the_text(tmp_path: Path) -> None:
    files = PublicFiles(make_channel_kit("line", str(tmp_path), {}), "https://pal.example/c")
    (tmp_path / "public").write_text("in the way")
    told = await files.publish(ChannelFile("a.png", "image/png", b""))
    assert isinstance(told, SendFailure) and told.trouble == "media" and os.sep not in told.reason


def test_a_blank_secret_never_fits() -> None:
    assert verify_base64_hmac("s", b"x", "S1GP2cAaLVSZAVB+qUn2y2LWrWW6Dz1pXAJNz3mmMW8=") is False
    assert verify_base64_hmac("", b"x", "") is False and verify_base64_hmac(" ", b"", "é") is False


@every
async def test_bytes_that_are_no_text_are_a_wrong_signature(
    tmp_path: Path, make: Callable[[], HookedPlatform], owner: str
) -> None:
    """Headers reach us with half characters for what is no UTF-8: refused as any other, not a fault of ours."""
    names = ("x-line-signature", "x-twilio-signature", "x-nextcloud-talk-random", "x-nextcloud-talk-signature")
    headers = {**dict.fromkeys(names, "\udcff"), "authorization": "Bearer \udcff.\udcff.\udcff"}
    own = {"publicWebhookUrl": "https://pal.example/channels/sms/default"}
    async with make() as people, running(tmp_path / "h", ScriptedModel([]), people, owner, own) as app:
        for query in ({}, {"password": "\udcff"}, {"guid": "\udcff"}):
            request = ChannelHttpRequest("POST", headers, query, b"{}")
            told = await app.channels[people.name].hook(request, app.submit)
            assert told.status == 401


async def test_a_file_is_fetched_from_any_node_of_a_fleet(tmp_path: Path) -> None:
    """Requests come to whichever node is free, the file lies with the one that spoke."""

    class Shared:
        def __init__(self) -> None:
            self.kept: dict[str, bytes] = {}

        async def put_blob(self, name: str, data: bytes) -> None:
            self.kept[name] = data

        async def get_blob(self, name: str) -> bytes | None:
            return self.kept.get(name)

    store, nodes, clock = Shared(), [], FastClock()
    for name in ("one", "two"):
        kit = make_channel_kit("line", str(tmp_path / name), {}, clock)
        media = ChannelFiles(str(tmp_path / name), (), 1 << 20, EgressGuard(), clock=clock, store=store)
        nodes.append(PublicFiles(msgspec.structs.replace(kit, media=media), "https://pal.example/c"))
    url = await nodes[0].publish(ChannelFile("a.png", "image/png", b"png"))
    assert isinstance(url, str)
    name = url.partition("file=")[2].partition("&")[0]
    told = await nodes[1].serve(name)
    assert (told.status, told.body, told.content_type) == (200, b"png", "image/png")
    assert (await nodes[1].serve("0" * 32)).status == 404
    clock.ahead = int((DAY + 1) * 1000)
    assert (await nodes[1].serve(name)).status == 404
