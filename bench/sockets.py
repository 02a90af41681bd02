"""WebSocket clients for measuring: logged in over the gateway's protocol, then as little work as possible."""

from __future__ import annotations

import asyncio
import time
import uuid

import aiohttp

from palinurus.clock import SystemClock
from palinurus.gateway.client import (
    GatewayLink,
    LoginOptions,
    connect_gateway,
    make_connect_params,
    make_identity,
    open_link,
)
from palinurus.gateway.rpc import ADMIN, READ

REST = 0.02  # seconds after a turn: its end is being written while its last event is on its way
HEALTH = '{"type":"req","id":"%d","method":"health"}'


async def round_trips(port: int, token: str, total: int, window: int = 32) -> float:
    """Seconds for `total` calls of `health` on one connection, `window` of them under way at a time."""
    options = LoginOptions(token=token, identity=make_identity(), scopes=(READ,))
    link = await open_link(f"ws://127.0.0.1:{port}/", SystemClock())
    try:
        challenge = await link.ws.receive_json()
        await _login(link, options, challenge["payload"]["nonce"])
        start = time.monotonic()
        for n in range(window):
            await link.ws.send_str(HEALTH % n)
        sent, done = window, 0
        while done < total:
            message = await link.ws.receive()
            if message.type is not aiohttp.WSMsgType.TEXT:
                raise SystemExit(f"the gateway hung up: {link.ws.close_code}")
            if message.data.startswith('{"type":"res"'):
                assert '"ok":true' in message.data[:60], message.data[:200]
                done += 1
                if sent < total:
                    await link.ws.send_str(HEALTH % sent)
                    sent += 1
        return time.monotonic() - start
    finally:
        await link.close()


async def acknowledged(port: int, token: str, messages: list[str]) -> list[float]:
    """Milliseconds until `chat.send` was acknowledged (its message is on disk then), one turn after the other."""
    options, took = LoginOptions(token=token, identity=make_identity(), scopes=(ADMIN,)), []
    link = await connect_gateway(f"ws://127.0.0.1:{port}/", SystemClock(), options)
    try:
        for n, text in enumerate(messages):
            run = uuid.uuid4().hex
            start = time.monotonic()
            params = {"sessionKey": f"bench-{n % 10}", "message": text, "idempotencyKey": run}
            await link.call("chat.send", params)
            took.append((time.monotonic() - start) * 1000)
            while True:
                payload = (await link.event("chat"))["payload"]
                if payload["runId"] == run and payload["state"] != "delta":
                    break
            await asyncio.sleep(REST)
        return took
    finally:
        await link.close()


async def crowd(port: int, token: str, count: int) -> list[GatewayLink]:
    """Clients that are connected and do nothing."""
    clock, out = SystemClock(), []
    for first in range(0, count, 50):
        options = [
            LoginOptions(token=token, identity=make_identity(), scopes=(READ,)) for _ in range(min(50, count - first))
        ]
        out += await asyncio.gather(*(connect_gateway(f"ws://127.0.0.1:{port}/", clock, each) for each in options))
    return out


async def _login(link: GatewayLink, options: LoginOptions, nonce: str) -> None:
    params = make_connect_params(options, nonce, SystemClock().now())
    await link.send({"type": "req", "id": "c", "method": "connect", "params": params})
    answer = await link.ws.receive_json()
    if not answer["ok"]:
        raise SystemExit(f"no login: {answer['error']['message']}")
