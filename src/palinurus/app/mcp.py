"""MCP servers put in their place: cells for programs, the network door for addresses, the extra loaded when needed.

At kill -9 programs of servers lose their input and mostly end by themselves; `sweep` ends the others at the next
start, before new ones are made.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
from collections.abc import Mapping

import msgspec

from palinurus import late
from palinurus.agent.plan.sandbox import ToolSandboxes
from palinurus.app.mcpsignin import McpSignIns, open_server_hosts
from palinurus.clock import Clock
from palinurus.config.sections.mcp import McpServerSettings
from palinurus.config.settings import Settings
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.errors import PalinurusError
from palinurus.providers.signin.vault import SignInVault
from palinurus.tools.commands import descendants
from palinurus.tools.commands.environ import build_child_env
from palinurus.tools.mcp.pins import PINS_FILE, McpPins
from palinurus.tools.mcp.port import McpConnect, McpMeans
from palinurus.tools.mcp.servers import McpServers
from palinurus.tools.sandbox.launch import ChildLaunch, prepare_launch
from palinurus.tools.web.egress import EgressGuard

VARIABLE = "PALINURUS_MCP"
BINARIES = ("bin", "sbin")
PACKAGES = ("package.json", "pyproject.toml", "setup.py")
ABOVE = 4  # folders that are looked at above a script


def make_mcp_servers(
    settings: Settings, environ: Mapping[str, str], clock: Clock, door: EgressGuard, life: str = ""
) -> McpServers:
    """The configured servers, not connected yet. `life` names who starts their programs: "" is the gateway."""
    launcher = McpLauncher(settings, environ, life)
    tokens = make_mcp_signins(settings, environ, clock, door)
    rules = open_server_hosts(settings)  # those that the owner wrote into the config
    means = McpMeans(launcher, lambda url: door.resolve_open(url, rules), launcher.mark, tokens, clock=clock)
    made = McpServers(settings.mcp, load_mcp_connect, means, clock, pins=make_mcp_pins(settings))
    tokens.signed_in = made.retry
    return made


def make_mcp_signins(settings: Settings, environ: Mapping[str, str], clock: Clock, door: EgressGuard) -> McpSignIns:
    """Who is signed in to servers elsewhere."""
    vault = SignInVault(settings.home, environ, keyring=settings.auth.keyring)
    return McpSignIns(settings, vault, door, clock)


def make_mcp_pins(settings: Settings) -> McpPins:
    """What servers first said of their tools; kept in the state directory."""
    return McpPins(os.path.join(settings.home, PINS_FILE))


def load_mcp_connect() -> McpConnect:
    """What opens connections; loads the extra. Raises PalinurusError where it is not installed."""
    try:
        found: McpConnect = late.load_part("mcp")
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it prints what came; what is wrong we tell ourselves
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] not in ("mcp", "mcp_types", "httpx2", "anyio", "pydantic"):
            raise
        fix = "`pal extras add mcp`"
        raise PalinurusError(f"MCP servers need an extra that is not installed: {fix}", fix=fix) from None
    return found


def kill_stray_servers(settings: Settings) -> None:
    """End what programs of the gateway's last life left. Only whoever holds the state directory may call this."""
    if any(server.command for server in settings.mcp.servers.values()):
        descendants.signal_each(descendants.find_strays((f"{VARIABLE}={_ident(settings)}:",)), signal.SIGKILL)


def _ident(settings: Settings, life: str = "") -> str:
    return hashlib.sha256(f"{settings.home}\0{life}".encode()).hexdigest()[:16]


class McpLauncher:
    """How a server's program is started."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], life: str) -> None:
        self._settings = settings
        self._env = build_child_env(environ, {})
        self._cells = ToolSandboxes(settings, self._env)
        self._ident = _ident(settings, life)

    def mark(self, name: str) -> str:
        """Tells its processes from all others."""
        return f"{VARIABLE}={self._ident}:{name}"

    def __call__(self, server: McpServerSettings) -> ChildLaunch:
        """Raises OSError where the command is not there or the cell cannot be made."""
        program = shutil.which(server.command, path=self._env["PATH"])
        if program is None:
            raise FileNotFoundError(2, "not found", server.command)
        declared = {name: value.reveal() for name, value in server.env.items()}
        mark, _, value = self.mark(server.name).partition("=")
        line, cwd = (program, *server.args), server.cwd or self._room(server)
        free = SandboxSpec(accepted=True), dict[str, str]()
        cell, own = self._cell(server, program, cwd) if server.contained else free
        env = build_child_env({**self._env, **own}, declared)
        return prepare_launch(line, cwd, {**env, mark: value}, cell)

    def _room(self, server: McpServerSettings) -> str:
        name = hashlib.sha256(server.name.encode()).hexdigest()[:10]
        room = os.path.join(self._settings.home, "cells", f"mcp-{name}", "home")
        os.makedirs(room, mode=0o700, exist_ok=True)
        return room

    def _cell(self, server: McpServerSettings, program: str, cwd: str) -> tuple[SandboxSpec, dict[str, str]]:
        """As an agent's commands have it, with a home of its own instead of the workspace, and with what the owner
        named: the program, and the files and folders among its arguments (to read)."""
        agent = self._settings.agents[self._settings.default_agent]
        named = (*_around(program), *(_folder(one) for one in server.args if os.path.isabs(one)))
        box = msgspec.structs.replace(
            agent.sandbox,
            mode="off",
            read=(*agent.sandbox.read, *server.read, *(one for one in named if one)),
            write=server.write,
        )
        own = os.path.basename(os.path.dirname(self._room(server)))
        key = parse_session_key("main", agent.id)
        assert key is not None
        held = self._cells.of(msgspec.structs.replace(agent, id=own, workspace=cwd, sandbox=box), key)
        return held.cell, held.env


def _around(program: str) -> tuple[str, ...]:
    """Where a program keeps what it needs, if it is none of the system's: of …/bin the folder above."""
    folders = (os.path.dirname(path) for path in (program, os.path.realpath(program)))
    own = (one for one in folders if not one.startswith(("/usr/", "/bin", "/opt/")))
    return tuple(os.path.dirname(one) if os.path.basename(one) in BINARIES else one for one in own)


def _folder(path: str) -> str:
    """The folder, or that of the file, or that of the package the file is a part of; "" if nothing is there."""
    if os.path.isdir(path):
        return "" if path == "/" else path
    if not os.path.isfile(path):
        return ""
    folder = at = os.path.dirname(path)
    for _ in range(ABOVE):
        if any(os.path.exists(os.path.join(at, name)) for name in PACKAGES):
            return at
        at = os.path.dirname(at)
    return "" if folder == "/" else folder
