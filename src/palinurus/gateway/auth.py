"""Who is calling. The one place where the `Caller` of a request is made: no address, header or flag in it grants
anything, only the credential does. Order: request target, Host, Origin, limiter, credential. No I/O.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

import msgspec

from palinurus.config.sections.gateway import GatewaySettings, TrustedProxySettings
from palinurus.core.types.caller import SCOPES, Caller, has_scope
from palinurus.errors import ConfigError, Problem
from palinurus.gateway.http import HttpFault, make_bad_request
from palinurus.gateway.limits import LoginFailures, canonicalize_address

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
NARROW = "x-openclaw-scopes"  # a proxy may lower what its user can do
LEAKY = frozenset({"token", "access_token", "devicetoken", "device_token", "password", "auth"})  # never in a URL

SURE = 32  # characters of a token that nobody guesses; the one we make has 43
_BEARER = {"WWW-Authenticate": "Bearer"}
_REFUSED = HttpFault(401, "Unauthorized", "unauthorized", code="invalid_api_key", headers=_BEARER, close=True)
# Pages of no origin ask from there: canvases, and the scripts of the stage, which anybody may read.
CANVAS = ("/__openclaw__/cap/", "/stage-", "/mermaid-")


class TokenHolder(msgspec.Struct, frozen=True):
    """Whose a device token is, and what it opens."""

    device: str
    scopes: frozenset[str]


class GatewayPeer(msgspec.Struct, frozen=True):
    """What a request says about itself, as received. Lists, because a header may come twice."""

    target: str  # raw request target
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    credentials: tuple[str, ...]  # Authorization headers
    address: str  # the socket's peer
    local: str = ""  # the socket's own address
    known: bool = False  # this connection has shown the right credential before
    headers: Mapping[str, str] = {}  # read only when the peer is a configured proxy
    proof: str = ""  # that we are who it looks for, if it asked


class GatewayAuth:
    """Judges requests. `secret` is the token or password in force; it is kept only as a digest."""

    def __init__(self, settings: GatewaySettings, token: str, monotonic: Callable[[], float]) -> None:
        """Raises ConfigError for a mode that cannot protect anything."""
        secrets = {"token": token, "password": settings.password.reveal(), "none": "", "trusted-proxy": ""}
        secret = secrets.get(settings.auth_mode)
        _usable(settings, secret)
        self.mode = settings.auth_mode
        self.holder: Callable[[str], TokenHolder | None] = lambda token: None  # the paired devices, once they are read
        self._digest = _digest(secret or "")
        self._long = self.mode == "token" and len(secret or "") >= SURE
        self._names = LOOPBACK | {settings.bind.lower()} | {_name(h) for h in settings.allowed_hosts}
        self._origins = frozenset(o.rstrip("/").lower() for o in settings.allowed_origins)
        self._proxy = settings.proxy
        self._base = settings.page_base
        self._scheme = "https" if settings.tls.enabled else "http"
        self._tries = LoginFailures(monotonic, settings.login_limits)

    def check_request(self, peer: GatewayPeer) -> HttpFault | None:
        """The checks every request must pass, also those that need no credential."""
        if not peer.target.startswith("/") or peer.target.startswith("//"):
            return HttpFault(421, "only origin-form request targets are served", code="bad_target", close=True)
        if len(peer.hosts) != 1:
            return make_bad_request("exactly one Host header is required", code="bad_host")
        name = _name(peer.hosts[0])
        if name not in self._names and not (name and name == _name(peer.local)):
            text = "this Host is not served; add it to gateway.allowedHosts if it is yours"
            return HttpFault(421, text, code="bad_host", close=True)
        if peer.origins and not self._own(peer) and not self._is_canvas(peer):
            text = "requests from this origin are not allowed"
            return HttpFault(403, text, "forbidden", code="bad_origin", close=True)
        query = peer.target.partition("?")[2]
        if query and any(key.lower() in LEAKY for key, _ in parse_qsl(query[:8192], keep_blank_values=True)):
            text = "credentials do not belong in a URL; use a header"
            return HttpFault(400, text, code="credential_in_url", close=True)
        return None

    def identify_caller(self, peer: GatewayPeer) -> Caller | HttpFault:
        """The caller of a request that passed `check_request`, or why there is none."""
        if self.mode == "none":
            return Caller("owner", SCOPES, "none", address=peer.address)
        if self.mode == "trusted-proxy":
            user = self.find_proxy_user(peer)
            if user is None:
                return _REFUSED
            return Caller(user, narrow_scopes(peer.headers, SCOPES), "proxy", address=peer.address)
        if len(peer.credentials) != 1:
            return _REFUSED
        scheme, _, secret = peer.credentials[0].partition(" ")
        if not peer.known and not (scheme.lower() == "bearer" and self.is_sure(secret)):
            wait = self.wait(peer)
            if wait > 0:
                text, after = "too many wrong credentials; try again later", {"Retry-After": str(int(wait) + 1)}
                return HttpFault(429, text, "rate_limit_error", code="auth_locked", headers=after, close=True)
        if scheme.lower() == "bearer" and self.is_secret(secret):
            return Caller("owner", SCOPES, self.mode, address=peer.address)
        holder = self.holder(secret) if scheme.lower() == "bearer" and secret else None
        if holder is not None:
            who = f"device:{holder.device}"
            return Caller(who, holder.scopes, "device", device=holder.device, address=peer.address)
        self.count_failure(peer)
        return _REFUSED

    def is_secret(self, secret: str) -> bool:
        """Whether it is the secret in force. Never true where there is none."""
        same = hmac.compare_digest(_digest(secret), self._digest)  # always done: no early way out to be timed
        return same and bool(secret) and self.mode in ("token", "password")

    @property
    def proof_key(self) -> str:
        """What we share with whoever holds the token; "" where guessing it from a proof would be worth trying."""
        return self._digest.hex() if self._long else ""

    def is_sure(self, secret: str) -> bool:
        """Is it right, and too long to be guessed? Such a credential passes whatever others tried from its address:
        wrong tries of another program of this machine must not lock the owner out."""
        return (self._long and self.is_secret(secret)) or (len(secret) >= SURE and self.holder(secret) is not None)

    def find_proxy_user(self, peer: GatewayPeer) -> str | None:
        """Who a configured proxy says is calling. None from anybody else."""
        rules = self._proxy
        if self.mode != "trusted-proxy" or rules is None or not _trusted(rules, peer.address):
            return None
        if any(not peer.headers.get(name, "").strip() for name in rules.required_headers):
            return None
        user = peer.headers.get(rules.user_header, "").strip()
        return user if user and (rules.users is None or user in rules.users) else None

    def wait(self, peer: GatewayPeer) -> float:
        """Seconds until its address may try a credential; 0 when it may now. Asked before anything is compared."""
        return self._tries.wait(peer.address, bool(peer.origins))

    def count_failure(self, peer: GatewayPeer) -> None:
        """Count a wrong credential."""
        self._tries.count_failure(peer.address, bool(peer.origins))

    def _is_canvas(self, peer: GatewayPeer) -> bool:
        """A canvas is a page of no origin and asks as such for the files beside it. Their address is what lets it in,
        and nothing else is there; never a WebSocket, which may be opened at any path."""
        path = peer.target.removeprefix(self._base)
        return peer.origins == ("null",) and path.startswith(CANVAS) and "Upgrade" not in peer.headers

    def _own(self, peer: GatewayPeer) -> bool:
        if len(peer.origins) != 1:
            return False
        origin = peer.origins[0].lower()
        return origin in self._origins or "*" in self._origins or origin == f"{self._scheme}://{peer.hosts[0].lower()}"


def narrow_scopes(headers: Mapping[str, str], scopes: frozenset[str]) -> frozenset[str]:
    """`scopes`, lowered to what the proxy's header names. Without the header they stay."""
    header = headers.get(NARROW)
    if header is None:
        return scopes
    named = frozenset(part.strip() for part in header.split(","))
    return frozenset(scope for scope in scopes if has_scope(named, scope))


def _trusted(rules: TrustedProxySettings, address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback and not rules.loopback:
        return False
    return any(ip in ipaddress.ip_network(network) for network in rules.peers)


def _usable(settings: GatewaySettings, secret: str | None) -> None:
    key = "gateway.auth.mode"
    local = canonicalize_address(settings.bind) == "loopback"
    if secret is None:
        problem = Problem(key, f"mode {settings.auth_mode!r} is not supported", hint="use token or password")
    elif settings.auth_mode == "none" and not local:
        problem = Problem(key, f"mode 'none' on {settings.bind} would let everyone in", hint="use token")
    elif settings.auth_mode == "none" and "*" in settings.allowed_origins:
        problem = Problem(key, "mode 'none' with allowedOrigins '*' would let every web page in", hint="use token")
    elif settings.auth_mode == "trusted-proxy":
        if settings.proxy is not None and settings.proxy.peers and settings.proxy.user_header:
            return
        problem = Problem("gateway.auth.trustedProxy", "needs userHeader, and gateway.trustedProxies an address")
    elif settings.auth_mode != "none" and not secret:
        problem = Problem(f"gateway.auth.{settings.auth_mode}", "is empty", hint="set it, or use mode token")
    else:
        return
    raise ConfigError((problem,))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _name(host: str) -> str:
    """The host without port, brackets and trailing dot, lower-cased. "" when it is not one."""
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name if bracket and (not rest or _port(rest)) else ""
    if host.count(":") > 1:
        return host  # a bare IPv6 address, as sockets report it
    name, colon, port = host.partition(":")
    if colon and not _port(":" + port):
        return ""
    return name.removesuffix(".")


def _port(text: str) -> bool:
    return text[0] == ":" and text[1:].isascii() and text[1:].isdigit() and len(text) <= 6
