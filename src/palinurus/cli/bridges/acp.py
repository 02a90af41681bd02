"""`pal acp`: the agent for editors that speak the Agent Client Protocol, on standard input and output.

Finds the gateway of this home and hands over to `bridge`, which needs the extra `acp`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from palinurus import __version__
from palinurus.cli.args import CommandParser, load_settings, resolve_session_key
from palinurus.cli.gateway import logs
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.client import find_gateway_address
from palinurus.clock import SystemClock
from palinurus.errors import PalinurusError, Unauthorized
from palinurus.gateway.client import LoginOptions, load_identity
from palinurus.gateway.rpc import ADMIN, APPROVALS, READ, WRITE, ClientDescription, MethodError


def run_acp(argv: list[str]) -> int:
    """Serve one editor until it closes the pipe."""
    parser = CommandParser("acp", "Serve an editor over the Agent Client Protocol (stdin and stdout).")
    parser.add_argument("--agent", default="", help="which agent (default: the default one)")
    parser.add_argument("--session", default="", help="one session for all, instead of a new one each time")
    parser.add_argument("--url", default="", help="another gateway (ws://…); its token in PALINURUS_TOKEN")
    parser.add_argument("--verbose", "-v", action="store_true", help="log more, to stderr")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    logs.start_logging(logging.DEBUG if args.verbose else logging.WARNING, logs.collect_secrets(settings))
    try:
        serve = load_part(PARTS["bridge"])
    except ModuleNotFoundError as exc:
        if exc.name != "acp":
            raise
        fix = f"`{sys.executable} -m pip install 'palinurus[acp]'`"
        raise PalinurusError("the Agent Client Protocol needs an extra that is not installed", fix=fix) from None
    address = find_gateway_address(settings)
    secret = environ.get("PALINURUS_TOKEN", "") if args.url else address.token
    options = LoginOptions(
        token=secret if settings.gateway.auth_mode != "password" else "",
        password=secret if settings.gateway.auth_mode == "password" else "",
        identity=load_identity(settings.home),
        client=ClientDescription("cli", __version__, sys.platform, "cli", display_name="ACP"),
        scopes=(ADMIN, READ, WRITE, APPROVALS),
    )
    target = resolve_session_key(settings, args.session, args.agent)
    url = args.url or address.url.replace("http", "ws", 1)
    try:
        asyncio.run(serve(url, SystemClock(), options, target, bool(args.session)))  # type: ignore[operator]
    except MethodError as error:
        raise Unauthorized(f"the gateway refused us: {error.message}", fix="is it a gateway of another home?") from None
    return 0
