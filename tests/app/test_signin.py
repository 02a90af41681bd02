"""A sign-in while the program runs, as the web page and the agent see it; a fake phone reads the code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from channels.scene import texts, until
from channels.whatsapp.test_channel import running
from gateway.host import TOKEN
from gateway.whole import Place
from palinurus.app.signin import SignInRunner
from palinurus.channels.whatsapp import channel
from palinurus.errors import BadRequest
from palinurus.gateway.server import GatewayServer
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.testing.whatsapp import HUMAN, FakeWhatsApp

PNG = "data:image/png;base64,aGVsbG8="


def drawn(code: str) -> channel.QrPicture:
    picture = channel.QrPicture(code)
    picture.url = PNG
    return picture


@asynccontextmanager
async def place(root: Path, people: FakeWhatsApp, model: ScriptedModel, **own: Any) -> AsyncIterator[Place]:
    async def enter(kit: Any, show: Any) -> str:
        return await channel.link_device(people.client(), drawn, show)

    async with running(root, model, people, **own) as app:
        signins = app.program.chats.signins if app.program.chats else None
        assert isinstance(signins, SignInRunner)
        signins._enter = lambda channel: enter
        server = GatewayServer(app, app.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        try:
            async with connect_to_gateway(server.port, app.clock, token=TOKEN) as link:
                yield Place(app, server, link)
        finally:
            await server.stop()


async def test_the_page_shows_the_code_and_hears_when_it_was_read(tmp_path: Path) -> None:
    people = FakeWhatsApp()
    people.linked = False
    async with place(tmp_path, people, ScriptedModel([])) as here:
        await until(lambda: here.app.channels["whatsapp"].status().state == "signed_out")
        assert "no sign-in was begun" in (await here.refused("web.login.wait")).message
        begun = await here.call("web.login.start")
        assert begun["qrDataUrl"] == PNG and begun["connected"] is False
        assert (await here.call("web.login.start"))["qrDataUrl"] == PNG  # the same one
        assert (await here.call("web.login.wait", timeoutMs=10))["connected"] is False
        people.scan()
        assert (await here.call("web.login.wait"))["connected"] is True
        await until(lambda: here.app.channels["whatsapp"].status().state == "ready")


@pytest.mark.seed(277)
async def test_the_tool_is_for_the_owner_and_for_nobody_else(tmp_path: Path) -> None:
    people = FakeWhatsApp()
    ann = people.person("ann")
    model = ScriptedModel([call_tools(("whatsapp_login", {"action": "start"})), say("Linked."), say("Hello Ann.")])
    async with place(tmp_path, people, model, allowFrom=[HUMAN, ann]):
        await people.say("link it")
        await until(lambda: texts(people)[-1:] == ["Linked."])
        assert "whatsapp is signed in" in str(model.requests[1].messages[-1].text)
        await people.say("hi", sender="ann")
        await until(lambda: texts(people, "ann") == ["Hello Ann."])
    offered = [{spec.name for spec in request.tools} for request in model.requests]
    assert "whatsapp_login" in offered[0] and offered[2] and "whatsapp_login" not in offered[2]


async def test_what_cannot_sign_in_is_told(tmp_path: Path) -> None:
    people = FakeWhatsApp()
    async with place(tmp_path, people, ScriptedModel([])) as here:
        signins = here.app.signins
        with pytest.raises(BadRequest, match="no sign-in of its own"):
            await signins.start("telegram", "default", 1)

        async def broken(kit: Any, show: Any) -> str:
            return "nobody read the code in time"

        signins._enter = lambda channel: broken
        assert (await here.call("web.login.start"))["message"] == "nobody read the code in time"
        await until(lambda: here.app.channels["whatsapp"].status().state == "ready")  # the channel goes on
