"""Who is calling. The one place where a `Caller` is made: no address, header or flag in a request grants anything,
only the credential does. Order: request target, Host, Origin, limiter, credential. No I/O.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from palinurus.config.settings import GatewaySettings
from palinurus.errors import ConfigError, Problem
from palinurus.gateway.fault import Fault, bad
from palinurus.gateway.limits import Tries, canonical

Scope: TypeAlias = Literal["chat", "read", "control"]
OWNER: frozenset[Scope] = frozenset({"chat", "read", "control"})
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Caller(msgspec.Struct, frozen=True):
    """A verified caller. Scopes come from the credential's record, never from the request."""

    principal: str
    scopes: frozenset[Scope]
    address: str
    how: str  # token, password, none


class Knock(NamedTuple):
    """What a request says about itself, as received. Lists, because a header may come twice."""

    target: str  # raw request target
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    credentials: tuple[str, ...]  # Authorization headers
    address: str  # the socket's peer
    local: str = ""  # the socket's own address
    known: bool = False  # this connection has shown the right credential before


class Gate:
    """Judges requests. `secret` is the token or password in force; it is kept only as a digest."""

    def __init__(self, settings: GatewaySettings, token: str, monotonic: Callable[[], float]) -> None:
        """Raises ConfigError for a mode that cannot protect anything."""
        secret = {"token": token, "password": settings.password.reveal(), "none": ""}.get(settings.auth_mode)
        _usable(settings, secret)
        self.mode = settings.auth_mode
        self._digest = _digest(secret or "")
        self._names = LOOPBACK | {settings.bind.lower()} | {_name(h) for h in settings.allowed_hosts}
        self._origins = frozenset(o.rstrip("/").lower() for o in settings.allowed_origins)
        self._tries = Tries(monotonic)

    def door(self, knock: Knock) -> Fault | None:
        """The checks every request must pass, also those that need no credential."""
        if not knock.target.startswith("/") or knock.target.startswith("//"):
            return Fault(421, "only origin-form request targets are served", code="bad_target", close=True)
        if len(knock.hosts) != 1:
            return bad("exactly one Host header is required", code="bad_host")
        name = _name(knock.hosts[0])
        if name not in self._names and not (name and name == _name(knock.local)):
            return Fault(
                421,
                "this Host is not served; add it to gateway.allowedHosts if it is yours",
                code="bad_host",
                close=True,
            )
        if knock.origins and not self._own(knock):
            return Fault(403, "requests from this origin are not allowed", "forbidden", code="bad_origin", close=True)
        return None

    def caller(self, knock: Knock) -> Caller | Fault:
        """The caller of a request that passed `door`, or why there is none."""
        if self.mode == "none":
            return Caller("owner", OWNER, knock.address, "none")
        if len(knock.credentials) != 1:
            return _refused()
        if not knock.known:
            wait = self._tries.wait(knock.address)
            if wait > 0:
                return Fault(
                    429,
                    "too many wrong credentials; try again later",
                    "rate_limit_error",
                    code="auth_locked",
                    headers={"Retry-After": str(int(wait) + 1)},
                    close=True,
                )
        scheme, _, secret = knock.credentials[0].partition(" ")
        right = hmac.compare_digest(_digest(secret), self._digest)  # always done: no early way out to be timed
        if not (right and secret and scheme.lower() == "bearer"):
            self._tries.failed(knock.address)
            return _refused()
        return Caller("owner", OWNER, knock.address, self.mode)

    def _own(self, knock: Knock) -> bool:
        if len(knock.origins) != 1:
            return False
        origin = knock.origins[0].lower()
        return origin in self._origins or origin == f"http://{knock.hosts[0].lower()}"


def _usable(settings: GatewaySettings, secret: str | None) -> None:
    key = "gateway.auth.mode"
    if secret is None:
        problem = Problem(key, f"mode {settings.auth_mode!r} is not supported", hint="use token or password")
    elif settings.auth_mode == "none" and canonical(settings.bind) != "loopback":
        problem = Problem(key, f"mode 'none' on {settings.bind} would let everyone in", hint="use token")
    elif settings.auth_mode != "none" and not secret:
        problem = Problem(f"gateway.auth.{settings.auth_mode}", "is empty", hint="set it, or use mode token")
    else:
        return
    raise ConfigError((problem,))


def _refused() -> Fault:
    return Fault(
        401, "Unauthorized", "unauthorized", code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"}, close=True
    )


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
