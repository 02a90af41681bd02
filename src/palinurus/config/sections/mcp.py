"""`mcp.servers` with every default applied: programs and addresses that bring tools. Pure.

Entries are written as OpenClaw and desktop clients write them; what cannot be used is a finding and left out.
Knows nothing of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from palinurus.config import paths
from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.secrets import Secret

McpTransport: TypeAlias = Literal["stdio", "http", "sse"]

WORDS: dict[str, tuple[McpTransport, ...]] = {
    "stdio": ("stdio",),
    "http": ("http",),
    "streamable-http": ("http",),
    "streamablehttp": ("http",),
    "streamable_http": ("http",),
    "sse": ("sse",),
}
AUTO: tuple[McpTransport, ...] = ("http", "sse")  # an address without a word: the newer one first
KNOWN = (
    "command", "args", "env", "cwd", "workingDirectory", "url", "headers", "transport", "type", "enabled", "disabled",
    "connectionTimeoutMs", "requestTimeoutMs", "sandbox", "trustHints",
)  # fmt: skip


class McpServerSettings(msgspec.Struct, frozen=True):
    """One server. Either `command` is started, or `url` is spoken to."""

    name: str
    wires: tuple[McpTransport, ...] = ("stdio",)  # tried in this order
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, Secret] = {}
    cwd: str = ""
    url: Secret = Secret()  # may carry a token
    headers: dict[str, Secret] = {}
    enabled: bool = True
    start: float = 30.0  # seconds until it must have said which tools it has
    timeout: float = 60.0  # seconds a call may take without a sign of life
    contained: bool = True  # a started program runs in a cell of its own, where this machine can make one
    read: tuple[str, ...] = ()  # sandbox.read: paths the cell shows besides the usual ones
    write: tuple[str, ...] = ()
    hints: bool = True  # what it calls read-only counts as such

    @property
    def place(self) -> str:
        """Where it is, without what may be secret."""
        if self.command:
            return self.command
        parts = urlsplit(self.url.reveal())
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


class McpSettings(msgspec.Struct, frozen=True):
    """All servers, by name."""

    servers: dict[str, McpServerSettings] = {}
    wait: float = 5.0  # seconds the first runs wait for servers that are still starting


def resolve_mcp(config: Config, home: str, environ: Mapping[str, str], findings: list[ConfigFinding]) -> McpSettings:
    """The `mcp` section; an entry that cannot be used is a finding."""
    section = (config.mcp or {}).get("servers")
    made: dict[str, McpServerSettings] = {}
    for name, body in (section if isinstance(section, dict) else {}).items():
        path: Path = ("mcp", "servers", name)
        if not isinstance(body, dict):
            findings.append(ConfigFinding(path, "expected an object with command or url", "", False))
            continue
        server = _server(str(name), body, path, _Look(home, environ, findings))
        if server is not None:
            made[server.name] = server
    return McpSettings(made)


class _Look:
    """What reading an entry needs besides the entry."""

    def __init__(self, home: str, environ: Mapping[str, str], findings: list[ConfigFinding]) -> None:
        self.home = home
        self.environ = environ
        self.findings = findings

    def odd(self, path: Path, message: str, hint: str = "") -> None:
        self.findings.append(ConfigFinding(path, message, hint, False))

    def folder(self, path: str) -> str:
        return paths.expand_path(path, self.environ, self.home)

    def secrets(self, section: Any, path: Path) -> dict[str, Secret]:
        """Texts, numbers and references to variables."""
        made = {}
        for name, value in (section if isinstance(section, dict) else {}).items():
            if isinstance(value, dict) and value.get("source") == "env" and isinstance(value.get("id"), str):
                found = self.environ.get(value["id"], "")
                if not found:
                    hint = suggest_nearest(value["id"], self.environ)
                    self.odd((*path, name), f"the environment variable {value['id']} is not set", hint)
                made[str(name)] = Secret(found)
            elif isinstance(value, bool):
                made[str(name)] = Secret("true" if value else "false")
            elif isinstance(value, str | int | float):
                made[str(name)] = Secret(str(value))
            elif value is not None:
                self.odd((*path, name), "expected a text", "or {source: 'env', id: 'NAME'}")
        return made


def _server(name: str, body: Mapping[str, Any], path: Path, look: _Look) -> McpServerSettings | None:
    for key in body:
        if key not in KNOWN:
            look.odd((*path, key), "is not a setting of MCP servers", suggest_nearest(key, KNOWN))
    command, url = (str(body.get(key) or "").strip() for key in ("command", "url"))
    wires = _wires(body, command, path, look)
    if not wires:
        return None
    if wires == ("stdio",) and not command:
        look.odd(path, "names no command to start", "add command, or url for a server elsewhere")
        return None
    if wires != ("stdio",) and urlsplit(url).scheme not in ("http", "https"):
        look.odd((*path, "url"), "is not an http or https address")
        return None
    cwd = str(body.get("cwd") or body.get("workingDirectory") or "").strip()
    box = body.get("sandbox")
    rules = box if isinstance(box, dict) else {}
    base = McpServerSettings(name)
    return McpServerSettings(
        name,
        wires,
        look.folder(command) if command.startswith("~") and wires == ("stdio",) else command,
        tuple(str(one) for one in _listed(body.get("args"))),
        look.secrets(body.get("env"), (*path, "env")),
        look.folder(cwd) if cwd else "",
        Secret("" if command else url),
        look.secrets(body.get("headers"), (*path, "headers")),
        body.get("enabled") is not False and body.get("disabled") is not True,
        _seconds(body.get("connectionTimeoutMs"), base.start),
        _seconds(body.get("requestTimeoutMs"), base.timeout),
        box is not False and rules.get("enabled") is not False,
        tuple(look.folder(str(one)) for one in _listed(rules.get("read"))),
        tuple(look.folder(str(one)) for one in _listed(rules.get("write"))),
        body.get("trustHints") is not False,
    )


def _wires(body: Mapping[str, Any], command: str, path: Path, look: _Look) -> tuple[McpTransport, ...]:
    """How it is spoken to; () if that cannot be known."""
    key = "transport" if body.get("transport") else "type"
    word = str(body.get(key) or "").strip().lower()
    if not word:
        return ("stdio",) if command else AUTO
    if word not in WORDS:
        look.odd((*path, key), f"{word[:40]!r} is no transport", "stdio, http or sse")
        return ()
    wires = WORDS[word]
    if (wires == ("stdio",)) != bool(command) and (command or body.get("url")):
        look.odd((*path, key), f"{word!r} does not go with {'command' if command else 'url'}", "leave it out")
        return ("stdio",) if command else AUTO
    return wires


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _seconds(value: Any, otherwise: float) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return value / 1000 if good else otherwise
