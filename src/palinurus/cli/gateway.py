"""`pal gateway`: the program with its HTTP face, in the foreground, until a signal ends it.

Order: config, lock and store, app, then the port. On SIGTERM or SIGINT backwards; a second signal does not wait.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Mapping

from msgspec.structs import replace

from palinurus import __version__
from palinurus.app import App, build
from palinurus.cli import logs
from palinurus.cli.args import Parser
from palinurus.cli.args import settings as load_settings
from palinurus.clock import SystemClock
from palinurus.config import paths
from palinurus.config.load import Loaded
from palinurus.config.settings import Settings
from palinurus.gateway import token
from palinurus.gateway.server import Gateway
from palinurus.tools.conceal import conceal
from palinurus.workspace import files

log = logging.getLogger(__name__)


def run(argv: list[str]) -> int:
    """Parse, load, serve. 0 after an orderly stop."""
    parser = Parser("gateway", "Run the gateway in the foreground.")
    parser.add_argument("--port", type=int, help="TCP port (default: gateway.port, 18789)")
    parser.add_argument("--bind", help="address to listen on (default: gateway.bind, 127.0.0.1)")
    parser.add_argument("--verbose", "-v", action="store_true", help="log more")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    loaded = load_settings(environ)
    loaded = _with(loaded, args.bind, args.port)
    settings = loaded.settings
    conceal()
    secret = settings.gateway.token.reveal() or token.ensure(settings.home)
    logs.start(logging.DEBUG if args.verbose else logging.INFO, [secret, *logs.secrets(settings)])
    _report(loaded)
    for agent in settings.agents.values():
        if files.fresh(agent.workspace):
            files.ensure(agent.workspace, agent.skip_bootstrap)
    return asyncio.run(serve(loaded, environ, secret))


async def serve(loaded: Loaded, environ: Mapping[str, str], secret: str) -> int:
    """Start everything, wait for a signal, stop everything."""
    settings = loaded.settings
    clock = SystemClock()
    app = build(loaded, environ, clock)
    gateway = Gateway(app, clock, secret)
    stop = _signals()
    try:
        await app.start()
        port = await gateway.start(settings.gateway.bind, settings.gateway.port)
        token.announce(settings.home, token.Place(token.reach(settings.gateway.bind), port, os.getpid(), clock.now()))
        _welcome(app, settings, port)
        # What start-up made lives as long as the process: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        log.info("%s received", signal.Signals(await stop.get()).name)
        log.info("stopping: running turns get %g s; a second signal ends them at once", settings.gateway.drain)
    finally:
        await _down(app, gateway, settings, stop)
    log.info("stopped")
    return 0


def _signals() -> asyncio.Queue[int]:
    heard: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard.put_nowait, int(number))
    return heard


async def _down(app: App, gateway: Gateway, settings: Settings, stop: asyncio.Queue[int]) -> None:
    await gateway.close()
    token.withdraw(settings.home, os.getpid())
    draining = asyncio.ensure_future(app.stop("signal", settings.gateway.drain))
    again = asyncio.ensure_future(stop.get())
    await asyncio.wait({draining, again}, return_when=asyncio.FIRST_COMPLETED)
    if not draining.done():
        log.warning("second signal: running turns are handed back now")
        draining.cancel()
        await asyncio.wait({draining})
        await app.stop("signal", 0)
    again.cancel()
    await gateway.stop()
    if draining.done() and not draining.cancelled() and (error := draining.exception()) is not None:
        raise error


def _with(loaded: Loaded, bind: str | None, port: int | None) -> Loaded:
    """What was loaded, with what the command line says instead."""
    gateway = loaded.settings.gateway
    gateway = replace(gateway, bind=bind or gateway.bind, port=gateway.port if port is None else port)
    return replace(loaded, settings=replace(loaded.settings, gateway=gateway))


def _report(loaded: Loaded) -> None:
    if loaded.fallback:
        log.warning("%s", loaded.fallback)
    for problem in loaded.problems:
        log.warning("config: %s", problem)


def _welcome(app: App, settings: Settings, port: int) -> None:
    """What a person needs to know now. The token itself is never printed."""
    host = token.reach(settings.gateway.bind)
    shown = f"[{host}]" if ":" in host else host
    model = app.catalog.default(settings.agents[settings.default_agent]).ref
    key = "gateway.auth in the config" if settings.gateway.token else paths.token_file(settings.home)
    how = {"token": f"token in {key}", "password": "password in the config", "none": "NO AUTHENTICATION"}
    print(
        f"Palinurus {__version__} is running\n"
        f"  open      http://{shown}:{port}/\n"
        f"  chat      pal chat          (in another terminal)\n"
        f"  OpenAI    http://{shown}:{port}/v1, model openclaw, {how.get(settings.gateway.auth_mode, '?')}\n"
        f"  model     {model}\n"
        f"  workspace {settings.agents[settings.default_agent].workspace}\n"
        f"  stop      Ctrl-C",
        flush=True,
    )
