"""`pal status`: what is running, with which model, and what went wrong lately. Reads; changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus import __version__
from palinurus.cli.args import CommandParser, load_settings, load_vendors, to_json
from palinurus.cli.gateway.running import find_serving_chat
from palinurus.cli.reach import http
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.config.load import LoadedConfig
from palinurus.config.paths import find_profile
from palinurus.config.settings import Settings
from palinurus.core.schedule.heartbeat import HeartbeatState
from palinurus.core.text import format_bytes, format_span
from palinurus.errors import GatewayUnreachable, NotFound, StateError
from palinurus.gateway.tls import format_fingerprint
from palinurus.providers.catalog import Catalog
from palinurus.providers.probe import probe_ollama
from palinurus.services.containment import describe_containment
from palinurus.store.factory import open_reader
from palinurus.triggers.heartbeat import KIND as HEARTBEAT
from palinurus.triggers.jobs import JOB
from palinurus.triggers.scheduler import SWITCH

ERRORS = 5
LOOKED_AT = 500  # newest messages searched for failures
AGENTS_FOLDERS = ("workspace", "cells", "sandboxes")  # of the state directory: what is in them is the agents' business


class ProgramStatus(msgspec.Struct, frozen=True, rename="camel"):
    """All there is to say."""

    version: str
    home: str
    profile: str
    gateway: bool
    chat: int  # the process of the chat that serves in its place, 0 if none does
    ready: bool
    failing: list[str]
    address: str
    elsewhere: bool  # gateway.mode is remote
    fingerprint: str  # of its certificate; "": plain HTTP
    uptime_ms: int
    model: str
    key: str  # where the model's key comes from
    missing: str  # why there is none, where one is needed
    workspace: str
    commands: str  # what holds them
    sessions: int
    jobs: int
    heartbeat: str  # how often, how many there were, what they cost
    queued: int
    running: int
    errors: list[dict[str, Any]]
    config: list[str]  # problems
    state: str  # what is wrong with the state, "" if nothing
    disk_free: int
    disk_used: int


def run_status(argv: list[str]) -> int:
    """Print the status. 0 when a gateway runs and is ready, else 3 (as service managers have it)."""
    parser = CommandParser("status", "What is running, with which model, and what went wrong lately.")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    status = asyncio.run(collect_status(load_settings(environ, told=True), environ))
    if args.json:
        print(to_json(status))
    else:
        _print(status, TerminalView(sys.stdout, environ))
    return 0 if status.gateway and status.ready else 3


async def collect_status(loaded: LoadedConfig, environ: Mapping[str, str]) -> ProgramStatus:
    """Ask the gateway, read the store, look at the disk."""
    settings = loaded.settings
    address = http.find_gateway_address(settings)
    ready = await _ready(address)
    stored, chat = _stored(settings.home), 0 if address.remote else find_serving_chat(settings.home)
    model, key, missing = await find_model_in_use(settings, environ)
    problems = [told for told in map(str, loaded.problems) if told not in loaded.fallback]
    return ProgramStatus(
        version=__version__,
        home=settings.home,
        profile=find_profile(settings.home),
        gateway=ready is not None and not chat,
        chat=chat,
        ready=bool(ready and ready.get("ready")),
        failing=list(ready.get("failing", [])) if ready else [],
        address=address.url,
        elsewhere=address.remote,
        fingerprint=format_fingerprint(address.fingerprint) if ready is not None else "",
        uptime_ms=int(ready.get("uptimeMs", 0)) if ready else 0,
        model=model,
        key=key,
        missing=missing,
        workspace=settings.agents[settings.default_agent].workspace,
        commands=describe_containment(settings.agents[settings.default_agent]).what,
        config=[loaded.fallback, *problems] if loaded.fallback else problems,
        disk_free=measure_free_space(settings.home),
        disk_used=_size(settings.home),
        heartbeat=_beats(settings),
        **stored,
    )


async def find_model_in_use(settings: Settings, environ: Mapping[str, str]) -> tuple[str, str, str]:
    """The default agent's model, where its key comes from ("" when it needs none or has none), and what is missing."""
    agent = settings.agents[settings.default_agent]
    catalog = Catalog(settings, environ)
    catalog.vendors = load_vendors(settings)
    if catalog.wants_probe(agent):
        catalog.ollama = await probe_ollama()
    info = catalog.default(agent)
    name, provider = str(info.ref).removeprefix("/"), info.ref.provider
    return name, catalog.key_source(provider), catalog.explain_missing_key(info)


async def _ready(address: http.GatewayEndpoint) -> dict[str, Any] | None:
    if not await http.is_gateway_alive(address):
        return None
    try:
        answer = await http.send_request(msgspec.structs.replace(address, token=""), "GET", "/readyz")
        try:
            found = msgspec.json.decode(await answer.read_body())
            return found if isinstance(found, dict) else {}
        finally:
            answer.close()
    except (GatewayUnreachable, OSError, msgspec.DecodeError):
        return {}


def _stored(home: str) -> dict[str, Any]:
    found: dict[str, Any] = {"sessions": 0, "jobs": 0, "queued": 0, "running": 0, "errors": [], "state": ""}
    try:
        with open_reader(home) as reader:
            found["sessions"] = len(reader.sessions())
            found["jobs"] = len(reader.list_records(JOB))
            found["queued"] = len(reader.items(10_000, state="queued"))
            found["running"] = len(reader.items(10_000, state="running"))
            bad = [r for r in reader.items(LOOKED_AT) if r.outcome in ("failed", "refused", "dead")]
            found["errors"] = [
                {"id": r.id, "session": r.session, "outcome": r.outcome, "why": r.note[:300]} for r in bad[:ERRORS]
            ]
    except NotFound:
        pass  # a new home
    except StateError as exc:
        found["state"] = exc.message
    return found


def _beats(settings: Settings) -> str:
    """Of the default agent."""
    own = settings.heartbeats.get(settings.default_agent)
    if own is None:
        return "off"
    try:
        with open_reader(settings.home) as reader:
            kept = {one.key: one.data for one in reader.list_records(HEARTBEAT)}
            off = "switched off; " if reader.list_records(SWITCH[0]) else ""
        beat = msgspec.json.decode(kept.get(settings.default_agent, b"{}"), type=HeartbeatState)
    except (NotFound, StateError, msgspec.DecodeError):
        beat, off = HeartbeatState(), ""
    spent = f", {beat.count} so far for ${beat.cost:.4f} (${beat.cost / beat.count:.4f} each)" if beat.count else ""
    stopped = f"; stopped: {beat.stopped}" if beat.stopped else ""
    return f"{off}every {own.every / 60:g} min{spent}{stopped}"


def measure_free_space(home: str) -> int:
    """Bytes free where the state directory is, or will be."""
    while not os.path.exists(home):
        home = os.path.dirname(home)
    return shutil.disk_usage(home).free


def _size(home: str) -> int:
    """Bytes of our own files; the workspace is the owner's."""
    total = 0
    for folder, folders, names in os.walk(home):
        if folder == home:
            folders[:] = [name for name in folders if name not in AGENTS_FOLDERS]
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue  # gone meanwhile
    return total


def _print(status: ProgramStatus, view: TerminalView) -> None:
    if status.chat:
        gateway = f"not running; a chat or command in another terminal (process {status.chat}) serves until it ends"
    elif not status.gateway:
        start = "it is elsewhere: gateway.remote" if status.elsewhere else "`pal gateway` starts it"
        gateway = f"{view.style('not running', 'red')} (would be at {status.address}; {start})"
    elif not status.ready:
        gateway = f"{view.style('not ready', 'red')} at {status.address}: {', '.join(status.failing)}"
    else:
        gateway = f"{view.style('running', 'green')} at {status.address}, up {format_span(status.uptime_ms // 1000)}"
    rows = [
        ("gateway", gateway),
        *([("here", "what follows is of this machine, not of that gateway")] if status.elsewhere else ()),
        *([("SHA-256", f"{status.fingerprint} (its certificate)")] if status.fingerprint else ()),
        ("model", status.model + (f" (key from {status.key})" if status.key else "")),
        *([("", view.style(status.missing, "red"))] if status.missing else ()),
        ("sessions", str(status.sessions)),
        ("jobs", f"{status.jobs} (`pal cron list`)" if status.jobs else "none"),
        ("heartbeat", status.heartbeat),
        ("messages", f"{status.running} running, {status.queued} waiting"),
        *([("profile", status.profile)] if status.profile else ()),
        ("home", f"{status.home} ({format_bytes(status.disk_used)}, {format_bytes(status.disk_free)} free)"),
        ("workspace", status.workspace),
        ("commands", status.commands),
    ]
    print(f"{view.style('Palinurus', 'bold')} {status.version}")
    for name, text in rows:
        print(f"  {name:<10}{strip_controls(text) if not view.color else text}")
    if status.state:
        print(f"  {'state':<10}{view.style(strip_controls(status.state), 'red')}  (`pal doctor`)")
    for problem in status.config:
        print(f"  {'config':<10}{view.style(strip_controls(problem), 'red')}")
    for error in status.errors:
        why = strip_controls(str(error["why"])).replace("\n", " ")[:90]
        print(f"  {'error':<10}{why}  (pal trace {error['id']})")
