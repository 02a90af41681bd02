"""Hostile frames over a real socket, before and after login: nothing breaks, nothing leaks."""

from __future__ import annotations

import asyncio
import gc
import json
import random
from collections import Counter
from typing import Any

import aiohttp
import msgspec
import pytest

from gateway.host import TOKEN
from palinurus.gateway.client import GatewayLink, LoginOptions, make_connect_params, make_identity, open_link
from palinurus.gateway.methods import devices, system
from palinurus.gateway.server import GatewayServer
from palinurus.testing.client import connect_to_gateway, make_gateway_url
from palinurus.testing.clock import FakeClock

# The methods that need nothing but the gateway: what they get wrong is ours.
METHODS = {method.name: method for method in (*system.METHODS[:2], *devices.METHODS)}
ATOMS: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    2**70,
    "",
    "x",
    "\x00",
    "operator",
    "\u00e9" * 40,
    [],
    {},
    [[]],
)


def value(dice: random.Random, depth: int = 0) -> Any:
    """Some JSON."""
    if depth > 3 or dice.random() < 0.7:
        return dice.choice(ATOMS)
    if dice.random() < 0.5:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(("a", "id", "deviceId", "")): value(dice, depth + 1) for _ in range(dice.randrange(4))}


def request(dice: random.Random) -> dict[str, Any]:
    """A request with the right names and, now and then, the wrong things in them."""
    name = dice.choice((*METHODS, "no.such"))
    kind = METHODS[name].params if name in METHODS else None
    fields = [field.encode_name for field in msgspec.structs.fields(kind)] if kind else []
    params: Any = {field: dice.choice(("x", value(dice))) for field in fields if dice.random() < 0.9}
    if dice.random() < 0.1:
        params = value(dice)
    elif dice.random() < 0.1:
        params["foo"] = value(dice)
    made = {"type": "req", "id": str(dice.random()), "method": name, "params": params}
    if dice.random() < 0.2:
        made[dice.choice(tuple(made))] = value(dice)
    if dice.random() < 0.1:
        del made[dice.choice(tuple(made))]
    return made


def frame(dice: random.Random) -> bytes:
    """Mostly requests that are nearly right; some with broken bytes, some that are nothing at all."""
    whole = json.dumps(request(dice)).encode()
    match dice.randrange(10):
        case 0:
            return dice.randbytes(dice.randrange(120))
        case 1:
            cut = bytearray(whole)
            cut[dice.randrange(len(cut))] = dice.randrange(256)
            return bytes(cut)
        case 2:
            return whole[: dice.randrange(len(whole) + 1)]
        case 3:
            return (dice.choice(("[", '{"a":', '{"type":"req","params":')) * dice.randrange(400)).encode()
        case _:
            return whole


async def login(server: GatewayServer, clock: FakeClock) -> GatewayLink:
    """Logged in, with nobody reading: the test sees every frame itself."""
    link = await open_link(make_gateway_url(server.port), clock)
    challenge = await link.ws.receive_json()
    params = make_connect_params(
        LoginOptions(token=TOKEN, identity=make_identity()), challenge["payload"]["nonce"], clock.now()
    )
    await link.send({"type": "req", "id": "connect", "method": "connect", "params": params})
    assert (await link.ws.receive_json())["ok"]
    return link


async def storm(server: GatewayServer, clock: FakeClock, count: int, seed: int) -> Counter[str]:
    """`count` frames in one connection that is logged in; what came back, by kind. It must answer to the end."""
    dice, seen = random.Random(seed), Counter[str]()
    link = await login(server, clock)
    try:
        for start in range(0, count, 50):
            for _ in range(min(50, count - start)):
                data = frame(dice)
                text = _utf8(data) and dice.random() < 0.7
                await link.ws.send_frame(data, aiohttp.WSMsgType.TEXT if text else aiohttp.WSMsgType.BINARY)
            await link.send({"type": "req", "id": "mark", "method": "health"})
            while True:
                answer = await asyncio.wait_for(link.ws.receive_json(), 60)
                if answer["type"] == "res" and answer["id"] == "mark":
                    assert answer["ok"]
                    break
                seen[kind_of(answer)] += 1
    finally:
        await link.close()
    return seen


def kind_of(answer: dict[str, Any]) -> str:
    if answer["type"] == "event":
        return "event"
    if answer["ok"]:
        return "ok"
    message = str(answer["error"]["message"])
    return next((word for word in KINDS if message.startswith(word)), message)


KINDS = ("invalid request frame", "invalid ", "unknown method", "unknown deviceId", "unknown requestId")


def enough(seen: Counter[str], count: int) -> None:
    """The frames reached every gate, and no gate fell over: `KINDS`, an answer or an event, nothing else."""
    assert set(seen) <= {*KINDS, "ok", "event"}, seen
    for kind, share in {"ok": 0.05, "invalid ": 0.1, "invalid request frame": 0.05, "unknown method": 0.02}.items():
        assert seen[kind] >= share * count, (kind, seen)
    assert seen["unknown deviceId"] and seen["unknown requestId"], seen


def _utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


async def test_fuzzed_frames_after_login_break_nothing(server: GatewayServer, clock: FakeClock) -> None:
    enough(await storm(server, clock, 2000, 1), 2000)
    await _quiet(server)


async def test_fuzzed_first_frames_end_in_a_close_and_nothing_else(server: GatewayServer, clock: FakeClock) -> None:
    dice = random.Random(2)
    for _ in range(100):
        link = await open_link(make_gateway_url(server.port), clock)
        data = frame(dice)
        await link.ws.send_frame(data, aiohttp.WSMsgType.TEXT if _utf8(data) else aiohttp.WSMsgType.BINARY)
        while (message := await asyncio.wait_for(link.ws.receive(), 60)).type is aiohttp.WSMsgType.TEXT:
            assert '"hello-ok"' not in message.data
        await link.close()
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        assert (await link.call("health"))["ok"]


async def test_fuzzed_bytes_below_the_frames(server: GatewayServer, clock: FakeClock) -> None:
    dice = random.Random(3)
    head = (
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    for _ in range(60):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + dice.randbytes(dice.randrange(400)))
        writer.close()
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        assert (await link.call("health"))["ok"]
    await _quiet(server)


async def test_clients_that_come_and_go_leave_nothing_behind(server: GatewayServer, clock: FakeClock) -> None:
    for _ in range(20):
        async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
            await link.call("health")
    await _quiet(server)
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o).__name__ == "Connection" and "gateway.ws" in type(o).__module__]


async def _quiet(server: GatewayServer) -> None:
    async with asyncio.timeout(60):
        while server.clients._open:
            await asyncio.sleep(0.01)
    assert not server.clients.clients() and not server.clients.tasks and not len(server.clients._strangers)


@pytest.mark.torture
async def test_a_hundred_thousand_fuzzed_frames(server: GatewayServer, clock: FakeClock) -> None:
    await storm(server, clock, 1000, 0)
    gc.collect()
    before = len(gc.get_objects())
    for seed in range(10):
        enough(await storm(server, clock, 10_000, seed + 10), 10_000)
    await _quiet(server)
    gc.collect()
    assert len(gc.get_objects()) < before + 2000
