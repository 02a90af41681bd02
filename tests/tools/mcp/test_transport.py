"""Whom requests may reach: the configured host, at an address that was judged, and nobody else."""

from __future__ import annotations

import httpx2
import pytest
from aiohttp import web

from palinurus.core.policy.address import OpenHosts
from palinurus.tools.mcp.port import McpWatch
from palinurus.tools.mcp.transport import PinnedTransport
from palinurus.tools.web.egress import EgressGuard


async def nowhere(host: str, port: int) -> list[str]:
    return {"inner.example": ["10.0.0.1"], "meta.example": ["169.254.169.254"], "me.example": ["127.0.0.1"]}[host]


def client(url: str, watch: McpWatch, *open_: str) -> httpx2.AsyncClient:
    door, rules = EgressGuard(resolve=nowhere), OpenHosts(frozenset(open_))
    return httpx2.AsyncClient(
        transport=PinnedTransport(url, lambda one: door.resolve_open(one, rules), watch), trust_env=False
    )


@pytest.mark.parametrize("url", ["http://inner.example/", "http://127.0.0.1:9/", "http://meta.example/"])
async def test_inner_addresses_are_closed_unless_the_config_names_the_host(url: str) -> None:
    watch = McpWatch()
    async with client(url, watch) as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(url)
    assert "Not fetched" in watch.why


async def test_another_host_is_never_spoken_to() -> None:
    watch = McpWatch()
    async with client("http://me.example:81/", watch, "me.example:81", "other.example:80") as http:
        for url in ("http://other.example/", "https://me.example:81/", "http://me.example:82/"):
            with pytest.raises(httpx2.ConnectError):
                await http.get(url, headers={"X-Key": "k"})
    assert "another host" in watch.why


async def test_the_judged_address_is_connected_to_under_the_configured_name() -> None:
    hosts: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        hosts.append(request.headers["Host"])
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        watch = McpWatch()
        async with client(f"http://me.example:{port}/", watch, f"me.example:{port}") as http:
            assert (await http.get(f"http://me.example:{port}/")).text == "ok"
        assert hosts == [f"me.example:{port}"]
    finally:
        await runner.cleanup()
