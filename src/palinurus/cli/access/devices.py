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
from palinurus.cli.reach.client import find_gateway_address
from palinurus.clock import Clock, SystemClock
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, GatewayUnreachable, NotFound, Unauthorized
from palinurus.gateway.client import GatewayLink, LoginOptions, connect_gateway, load_identity
from palinurus.gateway.rpc import MethodError

DeviceAction = Callable[[GatewayLink, str], Awaitable[str]]


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
        asyncio.run(perform_device_command(settings, SystemClock(), options.what, options.id, options.json)) + "\n"
    )
    return 0


async def perform_device_command(settings: Settings, clock: Clock, what: str, ident: str, json: bool = False) -> str:
    """Do it through the running gateway; what to print."""
    link = await connect_to_gateway(settings, clock)
    try:
        if what != "list":
            return await ACTIONS[what](link, ident)
        found = await link.call("device.pair.list", {})
        return to_json(found, pretty=True) if json else format_devices(found)
    except MethodError as error:
        raise BadRequest(error.message) from None
    finally:
        await link.close()


async def connect_to_gateway(settings: Settings, clock: Clock) -> GatewayLink:
    """A connection to the running gateway. Raises Unauthorized, GatewayUnreachable."""
    address = find_gateway_address(settings)
    secret = "password" if settings.gateway.auth_mode == "password" else "token"
    options = LoginOptions(identity=load_identity(settings.home), **{secret: address.token})  # type: ignore[arg-type]
    try:
        return await connect_gateway(address.url.replace("http", "ws", 1), clock, options)
    except MethodError as error:
        raise Unauthorized(
            f"the gateway refused us: {error.message}", fix="is it a gateway of another PALINURUS_HOME?"
        ) from None
    except GatewayUnreachable as exc:
        raise GatewayUnreachable(exc.message, fix="`pal gateway` starts it") from None


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


async def _approve(link: GatewayLink, ident: str) -> str:
    request = _one(await link.call("device.pair.list", {}), "pending", "requestId", ident)
    device = (await link.call("device.pair.approve", {"requestId": request}))["device"]
    return f"approved: {device['deviceId'][:12]} may now do {', '.join(device['scopes']) or 'nothing'}"


async def _reject(link: GatewayLink, ident: str) -> str:
    request = _one(await link.call("device.pair.list", {}), "pending", "requestId", ident)
    await link.call("device.pair.reject", {"requestId": request})
    return f"rejected: {request[:8]}"


async def _revoke(link: GatewayLink, ident: str) -> str:
    device = _one(await link.call("device.pair.list", {}), "paired", "deviceId", ident)
    await link.call("device.pair.remove", {"deviceId": device})
    return f"revoked: {device[:12]} is disconnected and stays out until it is approved again"


async def _rotate(link: GatewayLink, ident: str) -> str:
    device = _one(await link.call("device.pair.list", {}), "paired", "deviceId", ident)
    await link.call("device.token.rotate", {"deviceId": device, "role": "operator"})
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
