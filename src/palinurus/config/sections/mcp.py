"""`mcp.servers`: programs and addresses that bring tools.

Entries are written as OpenClaw and desktop clients write them; what cannot be used is a finding and left out.
Knows nothing of the protocol.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias
from urllib.parse import urlsplit

import msgspec

from palinurus.config.declare import Section, fill_section, option
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Amount, Free, LooseMillis, OptionalSecret, Size, reveal_references
from palinurus.config.kinds import Written
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

Line: TypeAlias = Annotated[str, Written(Any, lambda value: str(value or "").strip())]
Words: TypeAlias = Annotated[tuple[str, ...], Written(list[Any], lambda items: tuple(str(one) for one in items))]


class McpOAuthSettings(Section, frozen=True):
    """`mcp.servers.*.oauth`: only for servers that do not say everything themselves."""

    ABOUT: ClassVar = """
        clientId The client that was registered there by hand, where the server registers none by itself.
        clientSecret What was given with it, if anything was.
        scope What is asked for instead of what the server names, words apart by blanks.
        port The port of the address that the browser comes back to (0: any that is free).
    """
    client_id: str = ""
    client_secret: OptionalSecret = Secret()
    scope: str = ""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    grant: Literal["", "client_credentials", "jwt-bearer", "enterprise"] = option(
        "", "How a token is had without a person.", "grant"
    )
    key: OptionalSecret = option(Secret(), "A private key (PEM) instead of clientSecret.", "privateKey")
    assertion: OptionalSecret = option(
        Secret(), "For jwt-bearer and enterprise: the token that says who we are.", "assertionToken"
    )
    assertion_file: str = option("", "A file with that token, read again for each new one.", "assertionFile")
    idp_url: str = option("", "For enterprise: the token address of the company's identity provider.", "idpTokenUrl")
    idp_client: str = option("", "The client that we are there.", "idpClientId")
    idp_secret: OptionalSecret = option(Secret(), "What was given with it, if anything was.", "idpClientSecret")


class McpServerSettings(Section, frozen=True):
    """One server. Either `command` is started, or `url` is spoken to."""

    ABOUT: ClassVar = """
        command The program that is the server.
        args What it is called with.
        cwd The folder that it runs in.
        url The address of a server elsewhere.
        enabled false: it is not used.
        connectionTimeoutMs How long its start may take.
        requestTimeoutMs How long one call may take.
        sandbox.enabled false: its program runs with all your files.
        sandbox.read Folders that it may read.
        sandbox.write Folders that it may write.
        trustHints false: what it calls read-only does not count as such.
        env Variables that its program gets.
        headers Headers that are sent to it.
        workingDirectory The older spelling of cwd.
        transport How it is spoken to: stdio, http or sse.
        type The older spelling of transport.
        disabled The older spelling of enabled: true is off.
    """
    name: str = option(at=".")
    wires: tuple[McpTransport, ...] = option(("stdio",), at=None)  # tried in this order
    command: Line = ""
    args: Words = ()
    env: dict[str, Secret] = option({}, at=None)
    cwd: Line = ""
    url: Annotated[Secret, Written(Any, lambda value: Secret(str(value or "").strip()))] = Secret()  # may carry a token
    headers: dict[str, Secret] = option({}, at=None)
    enabled: bool = option(True, closed=False)
    start: LooseMillis = option(30.0, at="connectionTimeoutMs")  # seconds until it must have said which tools it has
    timeout: LooseMillis = option(60.0, at="requestTimeoutMs")  # seconds a call may take without a sign of life
    contained: bool = option(True, at="sandbox.enabled")  # it runs in a sandbox of its own, where this machine has one
    read: Words = option((), at="sandbox.read")  # paths the sandbox shows besides the usual ones
    write: Words = option((), at="sandbox.write")
    hints: bool = option(True, at="trustHints", closed=False)  # what it calls read-only counts as such
    verify: bool = option(True, "false: its certificate is not checked.", "sslVerify")
    cert: Line = option("", "A certificate that the server knows us by (PEM).", "clientCert")
    cert_key: Line = option("", "The key of clientCert.", "clientKey")
    parallel: bool = option(True, "false: its tools are called one after the other.", "supportsParallelToolCalls")
    oauth: McpOAuthSettings = option(McpOAuthSettings(), "How one signs in there: `pal mcp login NAME`.", "oauth")
    include: Words = option((), "Only these of its tools (names, * fits anything).", "toolFilter.include", closed=[""])
    exclude: Words = option((), "None of these tools.", "toolFilter.exclude", closed=["*"])

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {
        "env": Free,
        "headers": Free,
        "workingDirectory": str,
        "transport": str,
        "type": str,
        "disabled": Annotated[bool, option(closed=True)],
        "connectTimeout": Annotated[Amount, "Seconds until it must have said which tools it has."],
        "timeout": Annotated[Amount, "Seconds a call may take without a sign of life."],
    }

    @property
    def place(self) -> str:
        """Where it is, without what may be secret."""
        if self.command:
            return self.command
        parts = urlsplit(self.url.reveal())
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def offers(self, tool: str) -> bool:
        """Is this one of its tools that models get? Named as the server does, or SERVER__TOOL."""
        names = (tool, f"{self.name}__{tool}")
        listed, barred = (any(fnmatchcase(n, p) for n in names for p in some) for some in (self.include, self.exclude))
        return not barred and (listed or not self.include)

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        wires = _wires(raw, self.command, here)
        if wires == ("stdio",) and not self.command:
            here.odd("", "names no command to start", "add command, or url for a server elsewhere")
            wires = ()
        elif wires and wires != ("stdio",) and urlsplit(self.url.reveal()).scheme not in ("http", "https"):
            here.odd("url", "is not an http or https address")
            wires = ()
        if not wires:
            return msgspec.structs.replace(self, wires=())
        if bool(self.cert) != bool(self.cert_key):
            here.odd("clientCert", "needs clientKey beside it, and the other way round; neither is used")
        both, said = bool(self.cert and self.cert_key), self.oauth.assertion_file
        home = self.command.startswith("~") and wires == ("stdio",)
        cwd = self.cwd or str(raw.get("workingDirectory") or "").strip()
        return msgspec.structs.replace(
            self,
            wires=wires,
            command=here.folder(self.command) if home else self.command,
            env=_secrets(raw.get("env"), here.below("env")),
            headers=_secrets(raw.get("headers"), here.below("headers")),
            cwd=here.folder(cwd) if cwd else "",
            url=Secret() if self.command else self.url,
            enabled=self.enabled and raw.get("disabled") is not True,
            contained=self.contained and raw.get("sandbox") is not False,
            read=tuple(here.folder(path) for path in self.read),
            write=tuple(here.folder(path) for path in self.write),
            start=_seconds(raw, "connectTimeout", "connectionTimeoutMs", self.start),
            timeout=_seconds(raw, "timeout", "requestTimeoutMs", self.timeout),
            cert=here.folder(self.cert) if both else "",
            cert_key=here.folder(self.cert_key) if both else "",
            oauth=msgspec.structs.replace(self.oauth, assertion_file=here.folder(said) if said else ""),
        )


def _seconds(raw: Mapping[str, Any], name: str, millis: str, usual: float) -> float:
    """A time that may be written in seconds, unless it is in milliseconds."""
    told = raw.get(name)
    fits = isinstance(told, int | float) and not isinstance(told, bool) and told > 0
    return float(told) if fits and raw.get(millis) is None else usual  # type: ignore[arg-type]


def _secrets(section: Any, here: ConfigPlace) -> dict[str, Secret]:
    """Texts, numbers and references to variables, by name."""
    made: dict[str, Secret] = {}
    for name, one in (section if isinstance(section, dict) else {}).items():
        one = reveal_references(one, here.below(name))
        if isinstance(one, bool):
            made[name] = Secret("true" if one else "false")
        elif isinstance(one, str | int | float):
            made[name] = Secret(str(one))
        elif one is not None:
            here.below(name).odd("", "expected a text", "or {source: 'env', id: 'NAME'}")
    return made


def _wires(body: Mapping[str, Any], command: str, here: ConfigPlace) -> tuple[McpTransport, ...]:
    """How it is spoken to; () if that cannot be known."""
    name = "transport" if body.get("transport") else "type"
    word = str(body.get(name) or "").strip().lower()
    if not word:
        return ("stdio",) if command else AUTO
    if word not in WORDS:
        here.odd(name, f"{word[:40]!r} is no transport", "stdio, http or sse")
        return ()
    wires = WORDS[word]
    if (wires == ("stdio",)) != bool(command) and (command or body.get("url")):
        here.odd(name, f"{word!r} does not go with {'command' if command else 'url'}", "leave it out")
        return ("stdio",) if command else AUTO
    return wires


class McpSettings(Section, frozen=True):
    """All servers, by name."""

    ABOUT: ClassVar = """
        servers MCP servers, by name (docs/tools.md).
    """
    servers: dict[str, McpServerSettings] = option({}, at=None)
    named: tuple[str, ...] = option((), at=None)  # also those that cannot be used
    wait: float = option(5.0, at=None)  # seconds the first runs wait for servers that are still starting
    idle: Annotated[float, Written(Size, lambda ms: ms / 1000)] = option(
        0.0, "A server that nobody has used for so long is ended until the next run; 0: never.", "sessionIdleTtlMs"
    )

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"servers": dict[str, McpServerSettings]}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        section = raw.get("servers")
        made: dict[str, McpServerSettings] = {}
        for name, body in (section if isinstance(section, dict) else {}).items():
            place = here.below("servers", name)
            if not isinstance(body, dict):
                place.odd("", "expected an object with command or url")
                continue
            server = fill_section(McpServerSettings, body, place)
            if server.wires:
                made[name] = server
        return type(self)(made, named=tuple(section) if isinstance(section, dict) else (), idle=self.idle)
