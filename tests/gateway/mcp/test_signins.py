"""models.login.*, mcp.*: a page signs in to a vendor and to a tool server, at a whole gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from gateway.host import TOKEN
from gateway.whole import Place
from palinurus.gateway.rpc import READ, MethodError
from palinurus.gateway.server import GatewayServer
from palinurus.testing.channel import FakeChannel
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.oauth import EMAIL, FakeOAuth


@asynccontextmanager
async def place(home: Path, oauth: FakeOAuth, **more: Any) -> AsyncIterator[Place]:
    lab = {"baseUrl": "http://127.0.0.1:9/v1", "signIn": oauth.make_config()}
    config = {"gateway": {"auth": {"token": TOKEN}}, "models": {"providers": {"lab": lab}}, **more}
    async with running(home, ScriptedModel([say("answer")], repeat=True), FakeChannel(), **config) as app:
        server = GatewayServer(app, app.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        try:
            async with connect_to_gateway(server.port, app.clock, token=TOKEN) as link:
                yield Place(app, server, link)
        finally:
            await server.stop()


async def over(here: Place, method: str, ident: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while (told := await here.call(method, id=ident))["state"] == "waiting":
            await asyncio.sleep(0.01)
    return told


async def test_a_vendor_from_the_page(tmp_path: Path) -> None:
    async with FakeOAuth() as oauth, place(tmp_path / "h", oauth) as here:
        assert {row["id"] for row in (await here.call("models.login.list"))["places"]} >= {"openai-codex", "anthropic"}
        shown = await here.call("models.login.start", provider="lab")
        assert shown["id"] == "lab:signed-in" and shown["kind"] == "browser" and shown["state"] == "waiting"
        assert (await here.call("models.login.paste", id=shown["id"], address="http://x/?a=b"))["taken"] is False
        back = await oauth.browse(shown["url"], follow=False)  # the browser is on another machine
        assert await here.call("models.login.paste", id=shown["id"], address=back) == {"taken": True}
        told = await over(here, "models.login.poll", shown["id"])
        assert told == {"id": "lab:signed-in", "state": "done", "account": EMAIL}
        (row,) = (await here.call("models.login.list"))["signIns"]
        assert row["account"] == EMAIL and "canary" not in str(row)
        assert (await here.call("models.logout", provider="lab"))["done"] == ["lab:signed-in: revoked and forgotten"]
        assert "nobody is signed in" in (await here.refused("models.logout", provider="lab")).message
        shown = await here.call("models.login.start", provider="lab")
        assert (await here.call("models.login.cancel", id=shown["id"]))["cancelled"] is True
        assert "no sign-in was begun" in (await here.refused("models.login.poll", id=shown["id"])).message
        assert "terms" in (await here.refused("models.login.start", provider="anthropic")).message
        async with here.other(scopes=(READ,)) as reader:
            for method in ("models.login.list", "models.login.start", "mcp.login.start", "mcp.logout"):
                with pytest.raises(MethodError, match="scope"):
                    await reader.call(method, {"provider": "lab", "name": "far"})


async def test_a_tool_server_from_the_page(tmp_path: Path) -> None:
    async with FakeOAuth() as oauth:
        servers = {"far": {"url": f"{oauth.url}/mcp", "transport": "http"}, "off": {"command": "x", "enabled": False}}
        async with place(tmp_path / "h", oauth, mcp={"servers": servers}) as here:
            servers_now = here.app.mcp
            servers_now.start()
            await servers_now.all["far"].wait_settled()
            far, off = (await here.call("mcp.list"))["servers"]
            assert (far["state"], far["wantsSignIn"], far["signedIn"]) == ("stopped", True, False)
            assert "pal mcp login far" in far["problem"] and off["state"] == "off"
            shown = await here.call("mcp.login.start", name="far")
            await oauth.browse(shown["url"])
            assert (await over(here, "mcp.login.poll", shown["id"]))["state"] == "done"
            await servers_now.all["far"].wait_settled()
            told = await here.call("mcp.status", name="far")
            assert (told["state"], told["signedIn"], told["tools"]) == ("connected", True, 1)
            assert told["listed"] == [{"name": "ping", "description": "Answers."}] and told["server"] == "far 1"
            assert (await here.call("mcp.logout", name="far"))["done"]
            assert "no MCP server" in (await here.refused("mcp.status", name="nobody")).message


async def test_without_servers(tmp_path: Path) -> None:
    async with FakeOAuth() as oauth, place(tmp_path / "h", oauth) as here:
        assert await here.call("mcp.list") == {"servers": []}
        assert "no MCP servers" in (await here.refused("mcp.login.start", name="far")).message
