"""The program in this process, for the terminal screen when no gateway runs: with a door on a free port of this machine
that only we have the key to, and that nobody is told of. Heavy to import: loaded through the table in `cli/main.py`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping

from msgspec.structs import replace

from palinurus.app import App
from palinurus.cli.gateway import logs
from palinurus.cli.reach.gateway import GatewayConnection
from palinurus.cli.reach.local import start_app
from palinurus.clock import Clock
from palinurus.config import paths
from palinurus.config.load import LoadedConfig
from palinurus.gateway.client import LoginOptions, connect_gateway, load_identity
from palinurus.gateway.server import GatewayServer

LOOPBACK = "127.0.0.1"


class EmbeddedGateway:
    """The program in this process. Make one with `own`."""

    where = "in this process"

    def __init__(self, app: App, gateway: GatewayServer, secret: str) -> None:
        self._app = app
        self._gateway = gateway
        self._secret = secret

    async def open(self) -> GatewayConnection:
        """Raises GatewayUnreachable."""
        options = LoginOptions(token=self._secret, identity=load_identity(self._app.settings.home))
        return GatewayConnection(
            await connect_gateway(f"ws://{LOOPBACK}:{self._gateway.port}/", self._app.clock, options)
        )

    async def close(self) -> None:
        """Turns that run are handed back: the next start goes on with them."""
        await self._gateway.close()
        await self._app.stop("exit", 0)
        await self._gateway.stop()


async def start_embedded_gateway(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> EmbeddedGateway:
    """Start it. Raises StateError kinds, ConfigError."""
    settings = loaded.settings
    file = str(settings.logging.get("file") or paths.locate_log_file(settings.home))
    logs.start_logging(logging.WARNING, logs.collect_secrets(settings), file=file)
    door = replace(settings.gateway, bind=LOOPBACK, auth_mode="token")
    app = await start_app(replace(loaded, settings=replace(settings, gateway=door)), environ, clock)
    secret = secrets.token_urlsafe(32)
    gateway = GatewayServer(app, clock, secret)
    try:
        await gateway.start(LOOPBACK, 0)
    except BaseException:
        await app.stop("failed", 0)
        raise
    return EmbeddedGateway(app, gateway, secret)
