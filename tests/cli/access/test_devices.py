"""`pal devices` against a running gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.host import TOKEN, FakeHost, settings
from palinurus.cli.access.devices import perform_device_command, run_devices
from palinurus.config.settings import Secret, Settings
from palinurus.errors import BadRequest, GatewayUnreachable, NotFound, Unauthorized
from palinurus.gateway import token
from palinurus.gateway.client import make_identity
from palinurus.gateway.rpc import ADMIN, READ, WRITE, MethodError
from palinurus.gateway.server import GatewayServer
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.clock import FakeClock

clock = FakeClock()


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return settings(str(tmp_path))


@pytest.fixture
async def gateway(home: Settings) -> AsyncIterator[GatewayServer]:
    server = GatewayServer(FakeHost(home), clock, TOKEN)
    port = await server.start("127.0.0.1", 0)
    token.announce_location(home.home, token.GatewayLocation("127.0.0.1", port, 1, proof=server.proof_key))
    yield server
    await server.stop()


async def test_a_request_is_shown_and_approved(gateway: GatewayServer, home: Settings) -> None:
    me = make_identity()
    async with connect_to_gateway(gateway.port, clock, token=TOKEN, identity=me, scopes=(READ,)) as link:
        own = link.hello["auth"]["deviceToken"]
    with pytest.raises(MethodError) as refused:
        async with connect_to_gateway(gateway.port, clock, device_token=own, identity=me, scopes=(WRITE,)):
            pass
    request = refused.value.details["requestId"]
    shown = await perform_device_command(home, clock, "list", "")
    assert f"pal devices approve {request[:8]}" in shown and me.id[:12] in shown
    assert json.loads(await perform_device_command(home, clock, "list", "", True))["pending"][0]["requestId"] == request
    assert "operator.write" in await perform_device_command(home, clock, "approve", request[:8])
    async with connect_to_gateway(gateway.port, clock, device_token=own, identity=me, scopes=(WRITE,)):
        pass
    with pytest.raises(NotFound):
        await perform_device_command(home, clock, "reject", request[:8])


async def test_revoking_puts_a_device_out_at_once(gateway: GatewayServer, home: Settings) -> None:
    me = make_identity()
    async with connect_to_gateway(gateway.port, clock, token=TOKEN, identity=me, scopes=(ADMIN,)) as link:
        assert "stays out" in await perform_device_command(home, clock, "revoke", me.id[:10])
        assert await asyncio.wait_for(link.wait_closed(), 60) == 4001
    with pytest.raises(MethodError) as refused:
        async with connect_to_gateway(gateway.port, clock, token=TOKEN, identity=me):
            pass
    assert refused.value.code == "NOT_PAIRED"
    assert "rejected" in await perform_device_command(home, clock, "reject", refused.value.details["requestId"][:8])


async def test_rotating_kills_the_token(gateway: GatewayServer, home: Settings) -> None:
    me = make_identity()
    async with connect_to_gateway(gateway.port, clock, token=TOKEN, identity=me) as link:
        own = link.hello["auth"]["deviceToken"]
        await perform_device_command(home, clock, "rotate", me.id)
        assert await asyncio.wait_for(link.wait_closed(), 60) == 4001
    with pytest.raises(MethodError):
        async with connect_to_gateway(gateway.port, clock, device_token=own, identity=me):
            pass
    with pytest.raises(BadRequest, match="several"):
        await perform_device_command(home, clock, "rotate", "")


async def test_no_gateway_and_a_strange_gateway(gateway: GatewayServer, home: Settings, tmp_path: Path) -> None:
    token.announce_location(home.home, token.GatewayLocation("127.0.0.1", 9, 1))
    with pytest.raises(GatewayUnreachable):
        await perform_device_command(home, clock, "list", "")
    place = token.GatewayLocation("127.0.0.1", gateway.port, 1, proof=gateway.proof_key)
    token.announce_location(home.home, place)
    with pytest.raises(Unauthorized):
        await perform_device_command(settings(home.home, token=Secret("another")), clock, "list", "")


def test_a_deed_needs_an_id() -> None:
    with pytest.raises(BadRequest, match="needs an id"):
        run_devices(["revoke"])
