"""`pal dashboard`: the address of the web page with the token in its fragment, which browsers never send anywhere.
Prints it, and opens a browser when there is a screen. Starts nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser

from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.cli.gateway.running import find_running_gateway
from palinurus.cli.reach.http import GatewayEndpoint, find_gateway_address, is_gateway_alive, is_gateway_running
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, GatewayUnreachable
from palinurus.gateway import token


def run_dashboard(argv: list[str]) -> int:
    """Print the link. Raises GatewayUnreachable when no gateway of this home runs, BadRequest without a page."""
    parser = CommandParser("dashboard", "Print the link to the web page, and open it in a browser.")
    parser.add_argument("--no-open", action="store_true", help="only print it")
    parser.add_argument("--json", action="store_true", help="print JSON, and open nothing")
    args = parser.parse_args(argv)
    settings = load_settings(dict(os.environ)).settings
    found = build_dashboard_link(settings)
    print(to_json({"url": found}) if args.json else found)
    screen = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if screen and sys.stdout.isatty() and not (args.no_open or args.json):
        webbrowser.open(found)
    return 0


def build_dashboard_link(settings: Settings) -> str:
    """Where the page of the running gateway is; the page takes the token out of its address at once. Not given before
    the gateway has proved itself. Raises GatewayUnreachable, BadRequest."""
    if not settings.gateway.page:
        raise BadRequest("the web page is switched off", fix="set gateway.controlUi.enabled to true")
    if settings.gateway.mode == "remote":
        there = find_gateway_address(settings)
        asyncio.run(is_gateway_running(settings))  # raises if it does not answer, or with another certificate
        secret = settings.gateway.remote.token.reveal()
        return f"{there.url}{settings.gateway.page_base}/{f'#token={secret}' if secret else ''}"
    place = find_running_gateway(settings.home)
    if place is None:
        raise GatewayUnreachable("no gateway of this home is running", fix="start it: `pal gateway`")
    secret = settings.gateway.token.reveal() or token.read_token(settings.home)
    fragment = f"#token={secret}" if settings.gateway.auth_mode == "token" and secret else ""
    address = GatewayEndpoint(place.host, place.port, "", place.fingerprint, proof=place.proof)
    if not asyncio.run(is_gateway_alive(address)):
        raise GatewayUnreachable(
            f"what answers at {address.url} cannot prove to be the gateway of this home",
            fix="`pal gateway restart`; if another program has the port, end that first",
        )
    return f"{address.url}{settings.gateway.page_base}/{fragment}"
