from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from gateway.host import TOKEN, FakeHost
from palinurus.gateway.server import GatewayServer
from palinurus.testing.clock import FakeClock


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def server(host: FakeHost, clock: FakeClock) -> AsyncIterator[GatewayServer]:
    gateway = GatewayServer(host, clock, TOKEN)
    await gateway.start("127.0.0.1", 0)
    yield gateway
    await gateway.stop()


@pytest.fixture
async def http(server: GatewayServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{server.port}", headers={"Authorization": f"Bearer {TOKEN}"}
    ) as session:
        yield session
