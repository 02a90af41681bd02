"""`pal devices`: who is paired with the gateway, who asks to be, and taking that away again. Talks to the running
gateway: only it can close a live connection at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.cli.reach.gateway import GatewayConnection, reach_gateway
from palinurus.clock import Clock, SystemClock
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, NotFound

DeviceAction = Callable[[GatewayConnection, str], Awaitable[str]]


def run_devices(argv: list[str]) -> int:
    """Exit code 0. Raises GatewayUnreachable, Unauthorized, NotFound, BadRequest."""
    parser = CommandParser("devices", "Devices that may connect to the gateway.")
    parser.add_argument(
        "what",
        nargs="?",
        choices=("list", *ACTIONS),
        default="list",
        help="list (default); approve or reject REQUEST; revoke DEVICE: it is out at once and stays out; "
        "rotate DEVICE: its token is worth nothing any more",
    )
    parser.add_argument("id", nargs="?", default="", help="a request or a device, or how its id begins")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    if options.what != "list" and not options.id:
        parser.error(f"`{options.what}` needs an id; `pal devices` shows them")
    settings = load_settings(dict(os.environ)).settings
    sys.stdout.write(
        asyncio.run(perform_device_command(settings, SystemClock(), options.what, options.id, json=options.json)) + "\n"
    )
    return 0


async def perform_device_command(settings: Settings, clock: Clock, what: str, ident: str, json: bool = False) -> str:
    """Do it through the running gateway; what to print."""
    async with reach_gateway(settings, clock) as gateway:
        if what != "list":
            return await ACTIONS[what](gateway, ident)
        found = await gateway.call("device.pair.list")
        return to_json(found, pretty=True) if json else format_devices(found)


def format_devices(found: dict[str, Any]) -> str:
    """Requests first: they wait for somebody."""
    out: list[str] = []
    for row in found["pending"]:
        scopes = ", ".join(row["scopes"]) or "nothing"
        out += [f"{row['requestId'][:8]}  waits  {row['clientId']} on {row['platform']} asks for {scopes}"]
        out += [f"          pal devices approve {row['requestId'][:8]}"]
    for row in found["paired"]:
        name = row.get("displayName") or row["clientId"]
        out += [f"{row['deviceId'][:12]}  {name} on {row['platform']}: {', '.join(row['scopes']) or 'nothing'}"]
    return "\n".join(out) or "no devices yet"


async def _approve(gateway: GatewayConnection, ident: str) -> str:
    request = _one(await gateway.call("device.pair.list", {}), "pending", "requestId", ident)
    device = (await gateway.call("device.pair.approve", {"requestId": request}))["device"]
    return f"approved: {device['deviceId'][:12]} may now do {', '.join(device['scopes']) or 'nothing'}"


async def _reject(gateway: GatewayConnection, ident: str) -> str:
    request = _one(await gateway.call("device.pair.list", {}), "pending", "requestId", ident)
    await gateway.call("device.pair.reject", {"requestId": request})
    return f"rejected: {request[:8]}"


async def _revoke(gateway: GatewayConnection, ident: str) -> str:
    device = _one(await gateway.call("device.pair.list", {}), "paired", "deviceId", ident)
    await gateway.call("device.pair.remove", {"deviceId": device})
    return f"revoked: {device[:12]} is disconnected and stays out until it is approved again"


async def _rotate(gateway: GatewayConnection, ident: str) -> str:
    device = _one(await gateway.call("device.pair.list", {}), "paired", "deviceId", ident)
    await gateway.call("device.token.rotate", {"deviceId": device, "role": "operator"})
    return f"rotated: the token of {device[:12]} is dead; it gets a new one when it next logs in"


ACTIONS: dict[str, DeviceAction] = {"approve": _approve, "reject": _reject, "revoke": _revoke, "rotate": _rotate}


def _one(found: dict[str, Any], group: str, field: str, start: str) -> str:
    hits: Iterable[str] = [str(row[field]) for row in found[group] if str(row[field]).startswith(start)]
    match list(hits):
        case [hit]:
            return hit
        case []:
            raise NotFound(f"nothing here begins with {start!r}", fix="`pal devices` shows what there is")
        case _:
            raise BadRequest(f"{start!r} is the beginning of several", fix="write more of it")
