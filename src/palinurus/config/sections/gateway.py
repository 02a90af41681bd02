"""The `gateway` section: who can reach it and how they prove who they are.

Refuses what would let strangers in: no authentication on an address that others can reach.
"""

import contextlib
import fcntl
import ipaddress
import re
import socket
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from palinurus.config.declare import Section, fill_section, option
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import (
    Count,
    Lower,
    Millis,
    MillisOrNone,
    MinutesNumber,
    Names,
    NeededSecret,
    Port,
    Size,
    Text,
)
from palinurus.config.keypath import get_at
from palinurus.config.kinds import Written
from palinurus.config.paths import choose_port
from palinurus.config.secrets import Secret
from palinurus.config.sections.browser import TerminalLook
from palinurus.config.sections.tools import UNLIMITED
from palinurus.patterns import compile_late

HeaderText: TypeAlias = Annotated[
    str,
    Written(str | bool, lambda told: told.strip() if isinstance(told, str) and told.isprintable() else ""),
]
AuthMode: TypeAlias = Literal["token", "password", "none", "trusted-proxy"]
BINDS: dict[str, str] = {"loopback": "127.0.0.1", "lan": "0.0.0.0", "auto": "127.0.0.1"}
NODE_DEVICES = ("camera", "screen", "recorder", "location")  # of a node
WORDS: tuple[str, ...] = ("loopback", "lan", "tailnet", "auto", "custom")

_ADDRESS = compile_late(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*|localhost")
_BASE = compile_late(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)
_COLOR = compile_late(r"#?[0-9a-fA-F]{6}")
_FINGERPRINT = compile_late(r"[0-9a-f]{64}")
_HOST = compile_late(r"[0-9A-Za-z](?:[0-9A-Za-z.-]*[0-9A-Za-z])?|[0-9a-fA-F.]*:[0-9a-fA-F:.]*")
_ORIGIN = compile_late(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^/\s:@]+)(:\d{1,5})?/?", re.IGNORECASE)
_TAILNET = ipaddress.ip_network("100.64.0.0/10")
_GET_ADDRESS = 0x8915 if sys.platform == "linux" else 0xC0206921  # SIOCGIFADDR
_REMOTE = compile_late(r"(wss?|https?)://(\[[0-9a-fA-F:.]+\]|[^/\s:@]+)(?::(\d{1,5}))?/?")


def is_loopback(address: str) -> bool:
    """Can only this machine reach `address`?"""
    return address in ("localhost", "::1") or address.startswith("127.")


class TrustedProxySettings(Section, frozen=True):
    """gateway.auth.trustedProxy and gateway.trustedProxies: who may name the user, and in which header."""

    ABOUT: ClassVar = """
        userHeader The header in which the proxy names the user.
        requiredHeaders Headers that must be there, too.
        allowUsers The only users that are let in; not set: all that the proxy names.
        allowLoopback true: a proxy on this machine counts.
    """
    user_header: str
    peers: Names = option((), at=None)  # addresses or networks
    required_headers: Names = ()
    users: Names | None = option(None, at="allowUsers")  # None = whoever the proxy names
    loopback: bool = option(False, at="allowLoopback")  # may a proxy on this machine do it

    SEALED: ClassVar = {"userHeader": "", "allowUsers": []}


class TlsSettings(Section, frozen=True):
    """gateway.tls. Paths are absolute; "" = our own, in the state directory."""

    enabled: bool = option(False, "Serve HTTPS and WSS; plain HTTP is refused then.", closed=True)
    auto_generate: bool = option(True, "Make a self-signed certificate where there is none.")
    cert_path: Text = option("", "The certificate (PEM), with those of its issuers behind it.")
    key_path: Text = option("", "The private key of the certificate (PEM, no passphrase).")

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        if bool(self.cert_path) != bool(self.key_path):
            named, missing = ("certPath", "keyPath") if self.cert_path else ("keyPath", "certPath")
            here.bad(missing, f"is missing beside {named}", "name both, or none to have a certificate made")
        elif self.enabled and not self.cert_path and not self.auto_generate:
            here.bad("certPath", "is missing while autoGenerate is false", "name a certificate and its key")
        if not (self.cert_path and self.key_path):  # then with a certificate of our own: never without one
            return msgspec.structs.replace(self, auto_generate=True, cert_path="", key_path="")
        return msgspec.structs.replace(self, cert_path=here.folder(self.cert_path), key_path=here.folder(self.key_path))


class LoginLimits(Section, frozen=True):
    """gateway.auth.rateLimit: wrong credentials of one address. Times in seconds."""

    attempts: Count = option(10, "How many wrong credentials an address may show in the window.", "maxAttempts")
    window: Millis = option(60.0, "How long a wrong credential counts.", "windowMs")
    lockout: MillisOrNone = option(
        0.0, "How long an address is kept out; at least until the window has passed.", "lockoutMs"
    )
    exempt_loopback: bool = option(False, "Let programs of this machine (no web pages) guess without limit.")


class InvokeRules(Section, frozen=True):
    """gateway.tools: what POST /tools/invoke and tools.invoke may call besides what tool policies say."""

    deny: Names = option((), "Tools and groups that are never called without a run.", closed=["*"])
    allow: Names = option((), "Tools to take off the list of those that are never called without a run.")


class NodeSettings(Section, frozen=True):
    """gateway.nodes: which commands of paired nodes may be called."""

    allow: Names = option(
        (), "Commands to allow besides those usual for a device, such as camera.snap.", "allowCommands"
    )
    deny: Names = option((), "Commands that are never called, whatever else is allowed.", "denyCommands", closed=["*"])


class NodeHostSettings(Section, frozen=True):
    """nodeHost"""

    devices: dict[str, Names] = option(
        {}, "Program and arguments by device: camera and screen print a picture, recorder a film, location JSON."
    )
    notify: Names = option((), "Program that shows a notice, called with title and text; else notify-send, else here.")

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        for name in self.devices:
            if name not in NODE_DEVICES:
                text = f"is no device; there are {', '.join(NODE_DEVICES)}"
                here.below("devices").odd(name, text, suggest_nearest(name, NODE_DEVICES))
        known = {name: command for name, command in self.devices.items() if name in NODE_DEVICES and command}
        return msgspec.structs.replace(self, devices=known)


class PageLook(Section, frozen=True):
    """ui: how the web page and the terminal look."""

    name: Text = option("", "What the page calls the assistant.", "assistant.name")
    avatar: Text = option(
        "", "Its picture: an emoji, a letter or two, or a data: address of an image.", "assistant.avatar"
    )
    color: Text = option("", "The colour of buttons and links, such as #0f766e.", "seamColor")
    terminal: TerminalLook = option(TerminalLook(), "The full screen of `pal`.")

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        made = self
        if self.color and not _COLOR.fullmatch(self.color):
            here.odd("seamColor", "is no colour", "write it as #0f766e")
            made = msgspec.structs.replace(made, color="")
        if len(self.avatar) > 8 and not self.avatar.startswith("data:image/"):
            here.odd("assistant.avatar", "is neither an emoji, a letter or two nor a data: address of an image")
            made = msgspec.structs.replace(made, avatar="")
        return msgspec.structs.replace(made, color=made.color and f"#{made.color.lstrip('#')}")


class RemoteGateway(Section, frozen=True):
    """gateway.remote: the gateway elsewhere that commands talk to where gateway.mode is remote."""

    url: Text = option("", "Its address: wss://host:port, or ws://127.0.0.1:port where a tunnel ends.")
    token: NeededSecret = option(Secret(), "Its token.")
    password: NeededSecret = option(Secret(), "Its password, where it asks for one.")
    fingerprint: Lower = option(
        "", "SHA-256 of its certificate, as it says at its start; not needed where a known issuer signed it.",
        "tlsFingerprint",
    )  # fmt: skip

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        proof, hint = self.fingerprint.replace(":", ""), "wss://host:port, or ws://127.0.0.1:port"
        found, why = _REMOTE.fullmatch(self.url), ""
        if self.url and not found:
            why = "is not the address of a gateway"
        elif found and found[1] in ("ws", "http") and not is_loopback(found[2].strip("[]")):
            why = "would send the token where others can read it"
        elif proof and not _FINGERPRINT.fullmatch(proof):
            here.bad("tlsFingerprint", "is no SHA-256", "64 hexadecimal digits; until then nothing is sent there")
            proof = "0" * 64
        if why:
            here.bad("url", why, hint)
        return msgspec.structs.replace(self, url="" if why else self.url, fingerprint=proof)

    @property
    def place(self) -> tuple[str, int, bool]:
        """Host, port, and whether it is reached over TLS."""
        found = _REMOTE.fullmatch(self.url)
        scheme, host, port = found.groups() if found else ("ws", "127.0.0.1", None)
        return host.strip("[]"), int(port or 18789), scheme in ("wss", "https")


class GatewaySettings(Section, frozen=True):
    """gateway. Times in seconds."""

    ABOUT: ClassVar = """
        auth.trustedProxy Who says who somebody is, where auth.mode is trusted-proxy.
        auth.rateLimit How often somebody may try.
        reload.mode What a changed file leads to: off, restart, hot (what can be), or hybrid (a restart for the rest).
        handshakeTimeoutMs How long a client has to log in.
        trustedProxies Addresses of proxies that may say who somebody is.
    """
    mode: Literal["local", "remote"] = option("local", "remote: the gateway is elsewhere, and none starts here.")
    port: Port = option(18789, "The TCP port to listen on; a profile has another default, made of its name.")
    bind: Text = option(
        "127.0.0.1",
        "Who can reach it: loopback (this machine), lan (the network), tailnet, auto, custom, or an address.",
    )
    auth_mode: AuthMode = option("token", "token, password, trusted-proxy, or none (only on loopback).", "auth.mode")
    # "" = the one made at first start (home/gateway.token)
    token: NeededSecret = option(
        Secret(), "The token clients send; without one, the gateway makes its own at the first start.", "auth.token"
    )
    password: NeededSecret = option(Secret(), "The password for auth mode password.", "auth.password")
    allowed_origins: Names = option(
        (), "Web origins that may connect, such as https://pal.example.org.", "controlUi.allowedOrigins"
    )
    allowed_hosts: Names = option((), at=None)  # names besides loopback and the bind address
    chat_completions: bool = option(
        True,
        "Serve the OpenAI-compatible POST /v1/chat/completions.",
        "http.endpoints.chatCompletions.enabled",
        closed=False,
    )
    responses: bool = option(
        True, "Serve the OpenAI-compatible POST /v1/responses.", "http.endpoints.responses.enabled", closed=False
    )
    reload: Literal["off", "restart", "hot", "hybrid"] = option(
        "hybrid", at="reload.mode"
    )  # what a changed file leads to
    debounce: MillisOrNone = option(0.3, "How long a changed file must stay as it is.", "reload.debounceMs")
    deferral: Annotated[float, Written(Size, lambda ms: ms / 1000 or UNLIMITED)] = option(
        300.0,
        "How long a changed file that restarts the gateway waits for running turns; others begin meanwhile. 0: no end.",
        "reload.deferralTimeoutMs",
    )
    json_logs: bool = option(False, at=None)
    drain: float = option(30.0, at=None)  # seconds running turns get on SIGTERM
    handshake: Millis = option(15.0, at="handshakeTimeoutMs")  # that a WebSocket client has to log in
    login_limits: LoginLimits = option(LoginLimits(), at="auth.rateLimit")
    tools: InvokeRules = option(InvokeRules(), "Tools that are called without a run.")
    nodes: NodeSettings = option(NodeSettings(), "Other machines that do something for the agent.")
    page: bool = option(True, "Serve the web page.", "controlUi.enabled", closed=False)
    sharing: bool = option(
        False, "Let the owner make links under which others read one conversation.", "controlUi.sharing"
    )
    page_base: Text = option("", "The path that the web page stands under, such as /pal.", "controlUi.basePath")
    tls: TlsSettings = option(TlsSettings(), "HTTPS instead of HTTP.")
    remote: RemoteGateway = option(RemoteGateway(), "The gateway elsewhere, where gateway.mode is remote.")
    transport_security: HeaderText = option(
        "",
        "Sent with every answer as Strict-Transport-Security, such as max-age=31536000; false: not.",
        "http.securityHeaders.strictTransportSecurity",
    )
    check: MinutesNumber = option(
        0.0, "How often the connections of channels are looked at; 0: never.", "channelHealthCheckMinutes"
    )
    stale: MinutesNumber = option(
        1800.0,
        "After how long without a message a channel that is looked at is connected anew; 0: never.",
        "channelStaleEventThresholdMinutes",
    )
    restarts: Size = option(
        10, "How often a channel is connected anew in an hour at most.", "channelMaxRestartsPerHour"
    )
    look: PageLook = option(PageLook(), at=None)  # ui
    proxy: TrustedProxySettings | None = option(None, at=None)  # auth_mode trusted-proxy

    ALWAYS: ClassVar = True
    GROUPS: ClassVar = {"auth": "How clients prove who they are."}
    RESTART: ClassVar = ("port", "bind", "customBindHost")
    LIVE: ClassVar = (
        "http.endpoints.chatCompletions.enabled", "http.endpoints.responses.enabled", "tools", "controlUi.enabled",
        "controlUi.sharing", "reload.mode", "reload.debounceMs", "reload.deferralTimeoutMs",
    )  # fmt: skip
    KNOWN: ClassVar = {
        "customBindHost": Annotated[str, "The address to listen on when gateway.bind is custom."],
        "trustedProxies": list[str],
        "auth.trustedProxy": TrustedProxySettings,
    }

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        bind = _bind(self.bind, str(raw.get("customBindHost") or "").strip(), here)
        token = self.token or Secret(here.environ.get("PALINURUS_GATEWAY_TOKEN", ""))
        password = self.password or Secret(here.environ.get("PALINURUS_GATEWAY_PASSWORD", ""))
        told = raw.get("auth") or {}
        mode, why = self.auth_mode, ""
        if told.get("mode") is None:
            if told.get("token") and told.get("password"):
                here.bad("auth", "both a token and a password are set", "say which with gateway.auth.mode")
            mode = "password" if password and not token else "token"
        proxy = _proxy(raw, here) if mode == "trusted-proxy" else None
        if mode == "password" and not password:
            why = "'password' needs gateway.auth.password"
        elif mode == "trusted-proxy" and proxy is None:
            why = "'trusted-proxy' needs gateway.auth.trustedProxy.userHeader and gateway.trustedProxies"
        elif mode == "none" and not is_loopback(bind):
            why = f"'none' would let everyone who can reach {bind} in"
        if why:
            here.bad("auth.mode", why, "until that is put right a token is asked for, as with 'token'")
            mode = "token"
        origins, hosts = _origins(self.allowed_origins, here.below("controlUi", "allowedOrigins"))
        base = self.page_base.strip("/")
        if base and not _BASE.fullmatch(base):
            here.bad("controlUi.basePath", "is not a path", "letters, digits, -, _, . and /, such as /pal")
            base = ""
        return msgspec.structs.replace(
            self,
            page_base=f"/{base}" if base else "",
            bind=bind,
            port=self.port if raw.get("port") is not None else choose_port(here.home),
            auth_mode=mode,
            token=token,
            password=password,
            allowed_origins=origins,
            allowed_hosts=hosts,
            proxy=proxy,
        )


def _bind(word: str, custom: str, here: ConfigPlace) -> str:
    if word in BINDS or not word:
        return BINDS[word or "loopback"]
    if word == "custom":
        if not custom:
            here.bad("bind", "'custom' needs gateway.customBindHost", "name the address to listen on")
        elif not _HOST.fullmatch(custom):
            here.bad("customBindHost", "is not a host name or address")
            return "127.0.0.1"
        return custom or "127.0.0.1"
    if word == "tailnet":
        if found := choose_tailnet_address(list_own_addresses()):
            return found
        here.bad("bind", "'tailnet': this machine has no address in a tailnet", "is Tailscale up? then start it again")
    elif _ADDRESS.fullmatch(word):
        return word
    else:
        text = f"{word[:40]!r} is neither an address nor one of {', '.join(WORDS)}"
        here.bad("bind", text, suggest_nearest(word, WORDS))
    return "127.0.0.1"


def choose_tailnet_address(addresses: Iterable[str]) -> str:
    """The first that Tailscale gave; "" if it gave none."""
    return next((one for one in addresses if ipaddress.ip_address(one) in _TAILNET), "")


def list_own_addresses() -> list[str]:
    """The IPv4 addresses of this machine, one of each interface."""
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                told = fcntl.ioctl(asked.fileno(), _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(told[20:24]))
    return found


def _proxy(raw: Mapping[str, Any], here: ConfigPlace) -> TrustedProxySettings | None:
    """Who may name the user. No proxy listed = nobody may."""
    told = get_at(raw, ("auth", "trustedProxy"))
    if told is None or not told.get("userHeader"):
        return None
    peers: list[str] = []
    for index, written in enumerate(raw.get("trustedProxies") or ()):
        try:
            peers.append(str(ipaddress.ip_network(written.strip(), strict=False)))
        except ValueError:
            here.below("trustedProxies", index).bad("", "is neither an address nor a network")
    if not peers:
        here.bad("trustedProxies", "auth mode 'trusted-proxy' needs the proxy's address here")
        return None
    return fill_section(TrustedProxySettings, told, here, peers=tuple(peers))


def _origins(told: Names, here: ConfigPlace) -> tuple[Names, Names]:
    """Allowed origins, and the host names they imply."""
    origins: list[str] = []
    hosts: list[str] = []
    for index, written in enumerate(told):
        origin = written.strip().lower()
        found = _ORIGIN.fullmatch(origin)
        if found:
            origins.append(origin.rstrip("/"))
            hosts.append(found[2].strip("[]"))
        elif origin == "*":
            origins.append(origin)
        else:
            here.below(index).bad("", "is not an origin", "write scheme and host, such as https://pal.example.org")
    return tuple(origins), tuple(dict.fromkeys(hosts))
