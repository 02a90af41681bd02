"""Requests of chat platforms: what is read, what is refused, and what the channel is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from gateway.host import FakeHost
from palinurus.core.types.channel import ChannelHttpResponse
from palinurus.errors import Draining, QueueFull
from palinurus.gateway.server import GatewayServer
from palinurus.gateway.webhooks import CHANNEL_BODY, ChannelEndpoint
from palinurus.testing.clock import FakeClock


@pytest.fixture
async def platform(server: GatewayServer) -> AsyncIterator[aiohttp.ClientSession]:
    """A caller without the gateway's token."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield session


async def test_the_channel_gets_the_request_as_it_came_without_a_token(
    platform: aiohttp.ClientSession, host: FakeHost
) -> None:
    host.answers["telegram", "my bot"] = ChannelHttpResponse(202, b"taken", "text/plain; charset=utf-8")
    sent = {"X-Signature": "abc", "Content-Type": "text/odd"}
    async with platform.post("/channels/telegram/my%20bot/events?hub=1", data=b"\x00raw", headers=sent) as answer:
        assert (answer.status, await answer.read(), answer.charset) == (202, b"taken", "utf-8")
    ((channel, account, request),) = host.hooked
    assert (channel, account) == ("telegram", "my bot")
    assert (request.method, request.body, request.query) == ("POST", b"\x00raw", {"hub": "1"})
    assert request.headers["x-signature"] == "abc"


async def test_a_challenge_by_get_and_an_account_that_does_not_exist(
    platform: aiohttp.ClientSession, host: FakeHost
) -> None:
    host.answers["x", "default"] = ChannelHttpResponse(200, b"challenge")
    async with platform.get("/channels/x/default?challenge=1") as answer:
        assert await answer.text() == "challenge"
    async with platform.post("/channels/x/other", data=b"") as answer:
        assert answer.status == 404
    async with platform.put("/channels/x/default", data=b"") as answer:
        assert answer.status == 405
    async with platform.post("/channels/x", data=b"") as answer:
        assert answer.status == 404


async def test_large_bodies_are_not_read_to_the_end(platform: aiohttp.ClientSession, host: FakeHost) -> None:
    host.answers["x", "default"] = ChannelHttpResponse()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(CHANNEL_BODY // 65536 + 2):
            yield b"x" * 65536

    async with platform.post("/channels/x/default", data=b"x" * CHANNEL_BODY) as answer:
        assert answer.status == 200
    for body in (b"x" * (CHANNEL_BODY + 1), endless()):
        try:
            async with platform.post("/channels/x/default", data=body) as answer:
                assert answer.status == 413
        except aiohttp.ClientConnectionError:
            pass  # closed on us while we were still writing
    assert len(host.hooked) == 1


async def test_what_the_program_cannot_take_now_is_to_be_sent_again(
    platform: aiohttp.ClientSession, host: FakeHost
) -> None:
    for error, status in ((Draining("stopping"), 503), (QueueFull("full"), 429)):
        host.refuse = error
        async with platform.post("/channels/x/default", data=b"{}") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (status, "5")


async def test_the_rate_of_an_address_is_limited_and_recovers(
    server: GatewayServer, platform: aiohttp.ClientSession, host: FakeHost, clock: FakeClock
) -> None:
    host.answers["x", "default"] = ChannelHttpResponse()
    server.calls = ChannelEndpoint(clock.monotonic, rate=2)
    statuses = []
    for _ in range(3):
        async with platform.post("/channels/x/default", data=b"{}") as answer:
            statuses.append(answer.status)
    assert statuses == [200, 200, 429] and len(host.hooked) == 2
    await clock.advance(61)
    async with platform.post("/channels/x/default", data=b"{}") as answer:
        assert answer.status == 200


async def test_a_body_that_does_not_come_is_not_waited_for(
    server: GatewayServer, host: FakeHost, clock: FakeClock
) -> None:
    server.calls = ChannelEndpoint(clock.monotonic, seconds=0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST /channels/x/default HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nhalf")
    status = await asyncio.wait_for(reader.readline(), 60)
    writer.close()
    assert b" 408 " in status and host.hooked == []
