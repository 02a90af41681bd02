"""Notices to browsers: subscribed by a device, sent empty and signed, asked for with a secret, gone with the device."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from gateway.whole import Place, place
from palinurus.testing.loopback import LoopbackHttp
from palinurus.testing.model import ScriptedModel, say


class PushService:
    """A vendor's endpoint. `status` is what it answers."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()
        self.status = 201
        self.http = LoopbackHttp({"POST /push/{id}": self._take})

    async def _take(self, request: web.Request) -> web.Response:
        self.came.put_nowait((dict(request.headers), await request.read()))
        return web.Response(status=self.status)


@asynccontextmanager
async def vendor() -> AsyncIterator[PushService]:
    made = PushService()
    await made.http.start()
    try:
        yield made
    finally:
        await made.http.stop()


def opened(service: PushService) -> dict[str, Any]:
    """The owner lets the gate reach the fake."""
    return {"tools": {"web": {"fetch": {"allowedHosts": [service.http.url.removeprefix("http://")]}}}}


async def news(here: Place, secret: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{here.server.port}/push/news"
    async with aiohttp.ClientSession() as session:
        answer = await session.get(url, headers={"Authorization": f"Bearer {secret}"})
        return answer.status, await answer.json()


async def test_a_finished_run_knocks_at_a_browser_that_is_away(tmp_path: Path) -> None:
    model = ScriptedModel([say("The report is ready.")], repeat=True)
    async with vendor() as service, place(tmp_path / "h", model, **opened(service)) as here:
        async with here.other() as phone:
            key = (await phone.call("push.key", {}))["publicKey"]
            assert len(base64.urlsafe_b64decode(key + "=")) == 65
            told = await phone.call("push.subscribe", {"endpoint": f"{service.http.url}/push/1"})
            device = (await phone.call("device.pair.list", {}))["self"]
        assert (tmp_path / "h" / "gateway" / "push.key").stat().st_mode & 0o077 == 0
        await here.call("chat.send", sessionKey="agent:main:main", message="go", idempotencyKey="r1")
        headers, body = await asyncio.wait_for(service.came.get(), 30)
        assert (
            body == b""
            and headers["TTL"]
            and "vapid t=" in headers["Authorization"]
            and key in headers["Authorization"]
        )
        claims = headers["Authorization"].split("t=")[1].split(".")[1]
        assert json.loads(base64.urlsafe_b64decode(claims + "=="))["aud"] == service.http.url
        status, said = await news(here, told["secret"])
        assert (
            status == 200 and said["notes"][0]["kind"] == "done" and said["notes"][0]["body"] == "The report is ready."
        )
        assert (await news(here, told["secret"]))[1]["notes"] == []  # told once
        assert (await news(here, "wrong"))[0] == 401
        shown = await here.call("device.pair.list")
        row = next(one for one in shown["paired"] if one["deviceId"] == device)
        assert row["push"] is True and service.http.url not in json.dumps(shown)
        # A device whose access is taken away is told nothing more.
        await here.call("device.pair.remove", deviceId=device)
        assert (await news(here, told["secret"]))[0] == 401


async def test_a_subscription_that_is_over_is_forgotten(tmp_path: Path) -> None:
    async with vendor() as service, place(tmp_path / "h", **opened(service)) as here, here.other() as phone:
        await phone.call("push.subscribe", {"endpoint": f"{service.http.url}/push/1"})
        assert (await phone.call("push.try", {}))["ok"]
        service.status = 410
        assert (await phone.call("push.try", {}))["problem"] == "HTTP 410"
        assert not (await phone.call("push.key", {}))["subscribed"]
        await phone.call("push.unsubscribe", {})


async def test_the_gate_keeps_notices_from_private_addresses(tmp_path: Path) -> None:
    async with vendor() as service, place(tmp_path / "h") as here, here.other() as phone:
        await phone.call("push.subscribe", {"endpoint": f"{service.http.url}/push/1"})
        assert not (await phone.call("push.try", {}))["ok"] and service.came.empty()
