"""`pal gateway`: the program with its HTTP face, in the foreground, until a signal ends it.

Order: config, lock and store, app, then the port. On SIGTERM or SIGINT backwards; a second signal does not wait.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from palinurus import __version__
from palinurus.app import App, build_app
from palinurus.cli.args import CommandParser, load_settings
from palinurus.cli.gateway import crashloop, logs, reload
from palinurus.cli.gateway.watch import CacheTrace, StuckRuns, give_back_memory, read_resident_bytes, trim_heap
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.http import GatewayEndpoint
from palinurus.clock import Clock, SystemClock
from palinurus.config import paths
from palinurus.config.load import LoadedConfig, load_config
from palinurus.config.secrets import collect_secrets
from palinurus.config.settings import Settings
from palinurus.errors import ConfigError, PalinurusError, Problem
from palinurus.gateway import token
from palinurus.gateway.listener import raise_descriptor_limit
from palinurus.gateway.server import GatewayServer
from palinurus.gateway.tls import format_fingerprint
from palinurus.tools.commands.environ import hide_process
from palinurus.tools.sandbox.probe import detect_support
from palinurus.workspace import bootstrap

log = logging.getLogger(__name__)

OUT_OF_FLEET = 75  # EX_TEMPFAIL
AGAIN = (signal.SIGUSR1, signal.SIGHUP)  # begin again with the config as it is then


def run_gateway(argv: list[str]) -> int:
    """Parse, load, serve. 0 after an orderly stop."""
    # A disk that fills up while Python keeps a module's compiled form leaves half of it, which no later start can read.
    sys.dont_write_bytecode = True
    parser = CommandParser(
        "gateway",
        "Run the gateway in the foreground. As a service: pal gateway install|start|stop|restart|status|logs.",
    )
    parser.add_argument("--port", type=int, help="TCP port (default: gateway.port, else 18789 or that of the profile)")
    parser.add_argument("--bind", help="address to listen on (default: gateway.bind, 127.0.0.1)")
    parser.add_argument("--store", metavar="URL", help="a PostgreSQL that several gateways share (default: store.url)")
    parser.add_argument("--verbose", "-v", action="store_true", help="log more")
    args = parser.parse_args(argv[1:] if argv[:1] == ["run"] else argv)
    environ = dict(os.environ)
    if args.store:
        os.environ[paths.STORE_VARIABLE] = environ[paths.STORE_VARIABLE] = args.store
    loaded = load_settings(environ, told=True)
    loaded = crashloop.choose_config(loaded, crashloop.count_start(loaded.settings.home, SystemClock().now()), environ)
    loaded = _with(loaded, args.bind, args.port)
    settings = loaded.settings
    if settings.gateway.mode == "remote":  # two gateways would answer the same chats
        hint = "set gateway.mode to 'local' to run it here"
        raise ConfigError((Problem("gateway.mode", "'remote' says that the gateway runs elsewhere", hint=hint),))
    hide_process()
    # what this machine has is found out beside everything else: a process has to be started for it
    threading.Thread(target=detect_support, name="probe", daemon=True).start()
    secret = token.choose_secret(settings.gateway, settings.home)
    _log(args.verbose, secret, settings)
    _report(loaded)
    bootstrap.make_new_workspaces(settings.agents.values())
    return asyncio.run(serve_until_stopped(loaded, environ, secret, verbose=args.verbose))


def _contained(settings: Settings) -> None:
    """Say what holds the commands of agents, what does not, and which settings are weaker than they need to be."""
    describe: Any = load_part(PARTS["held"])
    find_weak: Any = load_part(PARTS["weak"])
    for agent in settings.agents.values():
        held = describe(agent)
        log.log(logging.INFO if held.contained else logging.WARNING, "commands of %s: %s", agent.id, held.what)
        for gap in held.gaps if not held.contained else ():
            log.warning("commands of %s: %s; fix: %s", agent.id, gap.what, gap.fix)
    for weak in find_weak(settings):
        log.warning("%s: %s; fix: %s", weak.key, weak.what, weak.fix)


async def serve_until_stopped(
    loaded: LoadedConfig, environ: Mapping[str, str], secret: str, *, verbose: bool = False
) -> int:
    """Serve until a signal; a config that needs it, SIGHUP or SIGUSR1 make it begin again in the same process."""
    clock, stop = SystemClock(), _signals()
    before: LoadedConfig | None = None
    while True:
        try:
            if not secret:
                secret = token.choose_secret(loaded.settings.gateway, loaded.settings.home)
                _log(verbose, secret, loaded.settings)
            after = await _life(loaded, environ, secret, clock, stop=stop, verbose=verbose)
        except PalinurusError as exc:
            if before is None:
                raise
            log.error("the new config cannot be started with, going back to the one before: %s", exc)
            after = before
        if after is None:
            log.info("stopped")
            return 0
        before, loaded, secret = (None if after is before else loaded), after, ""


async def _life(
    loaded: LoadedConfig, environ: Mapping[str, str], secret: str, clock: Clock, stop: asyncio.Queue[int], verbose: bool
) -> LoadedConfig | None:
    """Start everything, wait for a reason, stop everything. The config to begin again with, or None."""
    settings = loaded.settings
    app = build_app(loaded, environ, clock, _leave)
    app.leave = lambda: stop.put_nowait(int(signal.SIGTERM))
    app.restart = lambda seconds: _later(stop, seconds)
    raise_descriptor_limit()
    gateway = GatewayServer(app, clock, secret)
    aside: list[asyncio.Future[None]] = []
    traced: Callable[[], None] | None = None
    drain = settings.gateway.drain
    try:
        await app.start()
        if app.store.node and not settings.gateway.token:
            shared = await token.share_token(settings.home, secret, app.store)
            if shared != secret:
                _log(verbose, shared, settings)
                gateway = GatewayServer(app, clock, shared)
        traced = _traced(app, settings)
        port = await gateway.start(settings.gateway.bind, settings.gateway.port)
        loaded = _with(loaded, None, port)  # clients look for us where we were
        host = token.to_reachable_host(settings.gateway.bind)
        mark, proof = gateway.fingerprint, gateway.proof_key
        place = token.GatewayLocation(host, port, os.getpid(), clock.now(), fingerprint=mark, proof=proof)
        token.announce_location(settings.home, place)
        _welcome(app, settings, place)
        _watch_mail(app, environ, place)
        await asyncio.to_thread(_contained, settings)  # starts a program to see; nobody need wait for that
        # What start-up made lives as long as the process: the collector need not look at it again and again.
        gc.unfreeze()  # what was loaded has not been looked through yet
        gc.collect()
        gc.freeze()
        gc.set_threshold(4_000, 10, 5)
        shrinking = give_back_memory(lambda: app.dispatcher.busy, clock, read_resident_bytes, trim_heap)
        aside = [asyncio.ensure_future(_proved(loaded, clock)), asyncio.ensure_future(shrinking)]
        after = await _reason(app, loaded, environ, clock, stop=stop)
        told = app.settings.gateway
        drain = told.drain if after is None else min(told.drain, told.deferral)
        log.info("stopping: running turns get %g s; a second signal ends them at once", drain)
    finally:
        for task in aside:
            task.cancel()
        await _down(app, gateway, drain, stop)
        if traced is not None:
            await asyncio.to_thread(traced)
        gc.unfreeze()
    crashloop.forget_starts(settings.home)
    return after


def _leave(why: str) -> None:
    """The others have taken over what this node did. To end at once is the surest way to do nothing more of it."""
    log.critical("this gateway is out of its fleet (%s) and ends; its service manager starts it again", why)
    logging.shutdown()
    os._exit(OUT_OF_FLEET)


def _watch_mail(app: App, environ: Mapping[str, str], place: token.GatewayLocation) -> None:
    """Have a mailbox watched, if the config names one."""
    if app.settings.webhooks.enabled and app.settings.webhooks.gmail.account:
        url = GatewayEndpoint(place.host, place.port, "", place.fingerprint).url
        opened = app.webhooks.make_pass("gmail")
        watch: Any = load_part(PARTS["mail"])
        mail = watch(app.settings, environ, app.clock, address=url, hook_token=opened)
        mail.start()
        app.closers.append(mail.close)


def _traced(app: App, settings: Settings) -> Callable[[], None] | None:
    """Watch runs, and have them told as OpenTelemetry spans, if that is asked for. Returns the function that sends the
    last ones."""
    told, known = settings.diagnostics, tuple(collect_secrets(settings))
    stuck = StuckRuns(told, app.clock, app.abort)
    app.follow(stuck)
    app.closers.append(stuck.close)
    CacheTrace(told.cache_trace, settings.home, app.clock, known).attach(app.hooks)
    if told.spans is None:
        return None
    try:
        spans: Any = load_part(PARTS["spans"])
    except ModuleNotFoundError as exc:
        log.warning("diagnostics.otel: %s is not installed; fix: `pal extras add otel`", exc.name)
        return None
    made = spans(told.spans, secrets=known)
    app.follow(made)
    made.attach(app.hooks)
    made.attach_logs(logging.getLogger().handlers[0].formatter if logging.getLogger().handlers else None)
    close: Callable[[], None] = made.close
    return close


async def _proved(loaded: LoadedConfig, clock: Clock) -> None:
    await clock.sleep(crashloop.PROVEN_SECONDS)
    crashloop.forget_starts(loaded.settings.home)
    crashloop.keep_proven_config(loaded)


async def _reason(
    app: App, loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, stop: asyncio.Queue[int]
) -> LoadedConfig | None:
    """Wait for a signal or a new config. What to begin again with; None: this is the end."""
    told = asyncio.ensure_future(stop.get())
    try:
        while True:
            looking = asyncio.ensure_future(reload.watch_config(loaded, environ, clock))
            try:
                await asyncio.wait({told, looking}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                looking.cancel()
            if told.done():
                number = signal.Signals(told.result())
                log.info("%s received", number.name)
                return _again(loaded, environ) if number in AGAIN else None
            change = looking.result()
            kept = _with(change.loaded, loaded.settings.gateway.bind, loaded.settings.gateway.port)
            if kept.settings.gateway.reload == "off":
                loaded = kept
                continue
            app.settings = reload.apply_live_settings(app.settings, kept.settings)
            if change.live:
                log.info("config: in force now: %s", ", ".join(change.live))
            loaded = kept
            if not change.restart:
                continue
            if kept.settings.gateway.reload == "hot":
                log.warning("config: restart needed (`pal gateway restart`) for: %s", ", ".join(change.restart))
                continue
            log.info("config: restarting when no turn runs, for: %s", ", ".join(change.restart))
            await reload.wait_for_turns(lambda: app.dispatcher.busy, kept.settings.gateway.deferral, clock, told)
            return kept if not told.done() or told.result() in AGAIN else None
    finally:
        told.cancel()


def _again(loaded: LoadedConfig, environ: Mapping[str, str]) -> LoadedConfig:
    """The config as it is now, or the one that ran if that cannot be used; where this gateway listens."""
    gateway = loaded.settings.gateway
    try:
        return _with(load_config(loaded.settings.home, environ), gateway.bind, gateway.port)
    except PalinurusError as exc:
        log.error("the config is not used: %s", exc)
        return loaded


def _later(stop: asyncio.Queue[int], seconds: float) -> None:
    """As if somebody sent SIGUSR1 then."""
    asyncio.get_running_loop().call_later(seconds, stop.put_nowait, int(signal.SIGUSR1))


def _signals() -> asyncio.Queue[int]:
    heard: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, *AGAIN):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup says: not that one
            loop.add_signal_handler(number, heard.put_nowait, int(number))
    return heard


async def _down(app: App, gateway: GatewayServer, drain: float, stop: asyncio.Queue[int]) -> None:
    await gateway.close()
    token.withdraw_location(app.settings.home, os.getpid())
    draining = asyncio.ensure_future(app.stop("signal", drain))
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


def _with(loaded: LoadedConfig, bind: str | None, port: int | None) -> LoadedConfig:
    """What was loaded, with what the command line says instead."""
    gateway = loaded.settings.gateway
    gateway = replace(gateway, bind=bind or gateway.bind, port=gateway.port if port is None else port)
    return replace(loaded, settings=replace(loaded.settings, gateway=gateway))


def _log(verbose: bool, secret: str, settings: Settings) -> None:
    known, rules = [secret, *collect_secrets(settings)], settings.logging
    level = logging.DEBUG if verbose else logs.LEVELS[rules.console_level or rules.level]
    file = rules.file or paths.locate_log_file(settings.home)
    structured, flags = settings.gateway.json_logs, settings.diagnostics.flags
    logs.start_logging(level, known, structured=structured, file=file, rules=rules, flags=flags)


def _report(loaded: LoadedConfig) -> None:
    if loaded.fallback:
        log.warning("%s", loaded.fallback)
    for problem in loaded.problems:
        log.warning("config: %s", problem)


def _tell_program() -> str:
    """Where `pal` is, for who would type it in vain (`make run` puts it on nobody's PATH)."""
    program = os.path.join(os.path.dirname(sys.executable), "pal")
    found = any(os.access(os.path.join(folder, "pal"), os.X_OK) for folder in os.get_exec_path())
    if found or not os.path.exists(program):
        return ""
    return f"  pal       {program}  (not on your PATH)\n"


def _welcome(app: App, settings: Settings, place: token.GatewayLocation) -> None:
    """What a person needs to know now. The token itself is never printed."""
    shown = GatewayEndpoint(place.host, place.port, "", place.fingerprint).url
    proof = f"  SHA-256   {format_fingerprint(place.fingerprint)}  (its certificate)\n" if place.fingerprint else ""
    page = f"{shown}{settings.gateway.page_base}/  (signed in: pal dashboard)"
    if not settings.gateway.page:
        page = "no web page (gateway.controlUi.enabled is false)"
    model = app.catalog.default(settings.agents[settings.default_agent]).ref
    key = "gateway.auth in the config" if settings.gateway.token else paths.locate_token_file(settings.home)
    how = {"token": f"token in {key}", "password": "password in the config", "none": "NO AUTHENTICATION"}
    print(
        f"Palinurus {__version__} is running\n"
        f"  open      {page}\n"
        f"  chat      pal chat          (in another terminal)\n"
        f"{_tell_program()}"
        f"  OpenAI    {shown}/v1, model openclaw, {how.get(settings.gateway.auth_mode, '?')}\n"
        f"{proof}"
        f"  model     {model}\n"
        f"  workspace {settings.agents[settings.default_agent].workspace}\n"
        f"  stop      Ctrl-C",
        flush=True,
    )
