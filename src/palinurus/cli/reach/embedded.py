"""The program in this process, when no gateway runs: for a chat, with a door on a free port of this machine that other
commands of this home find and open like a gateway's; for one command with nothing running. Heavy: loaded through the
table in `cli/main.py`.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from palinurus import __version__
from palinurus.app import App
from palinurus.cli.gateway import logs
from palinurus.cli.reach.gateway import GatewayConnection
from palinurus.cli.reach.local import LOOPBACK, keep_to_loopback, start_app
from palinurus.clock import Clock
from palinurus.config import paths
from palinurus.config.load import LoadedConfig
from palinurus.config.secrets import collect_secrets
from palinurus.core.types.caller import SCOPES, Caller
from palinurus.core.types.inbound import Inbound
from palinurus.errors import BadRequest, PalinurusError
from palinurus.gateway import token
from palinurus.gateway.attachments import keep_attachments
from palinurus.gateway.auth import GatewayAuth
from palinurus.gateway.client import LoginOptions, connect_gateway, load_identity
from palinurus.gateway.clients import GatewayClients
from palinurus.gateway.rpc import ClientDescription, ConnectedClient, MethodCall, MethodError, serve_call
from palinurus.gateway.server import GatewayServer
from palinurus.inbox.commands.command import CommandContext

_US = ConnectedClient(
    "local", Caller("owner", SCOPES, "local"), ClientDescription("cli", __version__, sys.platform, "cli")
)


class OpenedProgram:
    """The gateway's methods on the state as it is on disk; nothing runs. Make one with `open_program`."""

    def __init__(self, app: App, clients: GatewayClients) -> None:
        self._app = app
        self._clients = clients

    async def refuse_waiting(self, session: str) -> None:
        """Bring the transcript files up to date with the journal. Raises BadRequest if messages of the session wait."""
        waiting = [row for row in await self._app.store.recover() if row.session == session]
        if waiting:
            raise BadRequest(
                f"{len(waiting)} message{'s' if len(waiting) > 1 else ''} of {session} still wait for an answer",
                fix="start the gateway and let it answer them first",
            )

    async def call(self, method: str, params: Any = None, *, final: bool = False) -> Any:
        """As a client's call; what the method returns last. Raises PalinurusError kinds, as the method did."""
        row = self._clients.methods[method]
        if refused := _US.caller.explain_refusal(row.scope):
            raise BadRequest(refused)
        call = MethodCall(self._clients, _US, "local", method, reply=lambda payload: None)
        given = msgspec.Raw(msgspec.json.encode(params or {}))
        try:
            return msgspec.to_builtins(await serve_call(row, call, given))
        except MethodError as error:
            if isinstance(error.__cause__, PalinurusError):
                raise error.__cause__ from None
            raise BadRequest(error.message) from None

    async def close(self) -> None:
        await self._clients.stop()
        await self._app.stop("exit", 0)


async def open_program(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> OpenedProgram:
    """The program with nothing running. Raises StateError kinds, ConfigError."""
    logs.start_logging(logging.WARNING, collect_secrets(loaded.settings))
    app = await start_app(loaded, environ, clock, run=False)
    clients = GatewayClients(app, clock, GatewayAuth(app.settings.gateway, secrets.token_urlsafe(32), clock.monotonic))
    try:
        await clients.start()
    except BaseException:
        await app.stop("failed", 0)
        raise
    return OpenedProgram(app, clients)


class EmbeddedGateway:
    """The program in this process. Make one with `start_embedded_gateway`."""

    where = "in this process"

    def __init__(self, app: App, gateway: GatewayServer, secret: str) -> None:
        self._app = app
        self._gateway = gateway
        self._secret = secret

    async def open(self) -> GatewayConnection:
        """Raises GatewayUnreachable."""
        identity = load_identity(self._app.settings.home)
        if self._app.settings.gateway.auth_mode == "password":
            options = LoginOptions(password=self._secret, identity=identity)
        else:
            options = LoginOptions(token=self._secret, identity=identity)
        return GatewayConnection(
            await connect_gateway(f"ws://{LOOPBACK}:{self._gateway.port}/", self._app.clock, options)
        )

    async def close(self) -> None:
        """Turns that run are handed back: the next start goes on with them, or another chat that takes over."""
        await self._gateway.close()
        token.withdraw_location(self._app.settings.home, os.getpid())
        await self._app.stop("exit", 0)
        await self._gateway.stop()


async def start_embedded_gateway(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> EmbeddedGateway:
    """Start the program, and serve it. Raises StateError kinds, ConfigError."""
    settings = loaded.settings
    file = settings.logging.file or paths.locate_log_file(settings.home)
    logs.start_logging(logging.WARNING, collect_secrets(settings), file=file, rules=settings.logging)
    app = await start_app(keep_to_loopback(loaded), environ, clock)
    try:
        return await serve_app(app, clock)
    except BaseException:
        await app.stop("failed", 0)
        raise


async def serve_app(app: App, clock: Clock) -> EmbeddedGateway:
    """Let the other commands of this home in; one whose settings are kept to loopback. Raises GatewayUnreachable."""
    settings = app.settings
    ours = settings.gateway
    password = ours.auth_mode == "password"
    secret = ours.password.reveal() if password else token.choose_secret(ours, settings.home)
    gateway = GatewayServer(app, clock, secret)
    try:
        port = await gateway.start(LOOPBACK, 0)
        # the state is locked for us: nobody else has said where they are, or is there any more
        place = token.GatewayLocation(LOOPBACK, port, os.getpid(), clock.now(), proof=gateway.proof_key, chat=True)
        token.announce_location(settings.home, place)
    except BaseException:
        await gateway.close()
        await gateway.stop()
        raise
    return EmbeddedGateway(app, gateway, secret)


async def attach_files(inbound: Inbound, given: tuple[dict[str, str], ...], program: CommandContext) -> Inbound:
    """The message with its files, which are on disk then. Raises BadRequest."""
    try:
        images, files = await keep_attachments(list(given), program.keep)
    except MethodError as exc:
        raise BadRequest(exc.message) from None
    return replace(inbound, images=images, files=files)
