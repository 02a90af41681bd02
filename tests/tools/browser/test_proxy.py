"""The only way out, without a browser: what is let through, what is refused, and what never reaches the other side."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from palinurus.core.policy.address import OpenHosts
from palinurus.tools.browser.proxy import GuardedProxy
from palinurus.tools.web.egress import EgressGuard
from tools.browser.site import TaskSite
from tools.web.kit import Canary, Names


class Door:
    def __init__(self, port: int, proxy: GuardedProxy) -> None:
        self.port, self.proxy = port, proxy

    async def say(self, text: str, more: bytes = b"") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(text.replace("\n", "\r\n").encode() + more)
        async with asyncio.timeout(60):
            got = await reader.read()
        writer.close()
        return got


@pytest.fixture
async def door(site: TaskSite) -> AsyncIterator[Door]:
    proxy = GuardedProxy(EgressGuard(OpenHosts(), Names(a_test=[["10.0.0.1"]])), OpenHosts(frozenset(site.entries)))
    listening = socket.create_server(("127.0.0.1", 0))
    await proxy.serve(listening)
    yield Door(listening.getsockname()[1], proxy)
    await proxy.close()


async def test_an_open_host_is_asked_once_for_each_connection(door: Door, site: TaskSite) -> None:
    ask = f"GET {site.url('/table')} HTTP/1.1\nHost: x\nProxy-Connection: keep-alive\n\n"
    got = await door.say(ask + ask)  # what follows the first request is not sent on
    assert got.startswith(b"HTTP/1.1 200") and b"Connection: close" in got and b"Ada" in got
    assert site.seen == ["/table"]


async def test_a_body_goes_along(door: Door, site: TaskSite) -> None:
    heard: list[bytes] = []

    async def take(_: TaskSite, request: object) -> str:
        heard.append(await request.read())  # type: ignore[attr-defined]
        return "ok"

    site.extra["/body"] = take
    head = f"POST {site.url('/body')} HTTP/1.1\nHost: x\nExpect: 100-continue\nContent-Length: 5\n\n"
    got = await door.say(head, b"hello and more")
    assert b"200 OK" in got and heard == [b"hello"]


@pytest.mark.parametrize(
    "ask",
    [
        "CONNECT 127.0.0.1:{port} HTTP/1.1\n\n",
        "CONNECT localhost:{port} HTTP/1.1\n\n",
        "CONNECT [::1]:{port} HTTP/1.1\n\n",
        "CONNECT 2130706433:{port} HTTP/1.1\n\n",
        "CONNECT a.test:443 HTTP/1.1\n\n",
        "GET http://127.0.0.1:{port}/ HTTP/1.1\nHost: a.example\n\n",
        "GET http://0x7f.1:{port}/ HTTP/1.1\n\n",
        "GET file:///etc/passwd HTTP/1.1\n\n",
        "GET ftp://127.0.0.1:{port}/ HTTP/1.1\n\n",
    ],
)
async def test_what_is_closed_is_refused_in_words(door: Door, ask: str) -> None:
    canary = Canary()
    await canary.start()
    got = await door.say(ask.replace("{port}", str(canary.port)))
    assert got.startswith(b"HTTP/1.1 403") and canary.hits == 0
    assert door.proxy.count == 1 and door.proxy.refused[0].why.startswith("Not fetched")
    await canary.stop()


@pytest.mark.parametrize("ask", ["nonsense\n\n", "GET / HTTP/1.1\n\n", "GET http://x HTTP/2\n\n", "\n\n"])
async def test_what_is_no_request_to_a_proxy_ends(door: Door, ask: str) -> None:
    assert b"200" not in await door.say(ask)


async def test_the_browsers_maker_is_not_called(door: Door) -> None:
    got = await door.say("CONNECT update.googleapis.com:443 HTTP/1.1\n\n")
    assert got.startswith(b"HTTP/1.1 403") and door.proxy.count == 0


async def test_a_tunnel_carries_bytes_both_ways_until_both_are_done(door: Door, site: TaskSite) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n\r\n".encode())
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /table HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"Ada" in await reader.read()
    writer.close()
