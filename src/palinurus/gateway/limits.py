"""Limits that are checked before work is done: failed logins, connections that have not said anything, body sizes."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from palinurus.config.sections.gateway import LoginLimits
from palinurus.core.window import SlidingWindow

BODY = 20 * 1024 * 1024  # bytes of one request
BODY_SECONDS = 30.0  # for the whole of it
FRESH = 1024  # connections that have not sent a whole request head; a burst of real clients must fit
FRESH_SECONDS = 5.0
IDLE_SECONDS = 75.0
BUFFER = 4 * 1024 * 1024  # bytes waiting for a client that does not read
KEEPALIVE = 15.0  # seconds of silence after which a stream gets a comment line
USUAL = LoginLimits()
TRIES = USUAL.attempts  # wrong credentials a minute, per address
TRIES_ALL = 100  # … and over all addresses
WINDOW = USUAL.window
ADDRESSES = 4096  # addresses remembered
STRANGERS = 1024  # WebSocket connections that have not logged in; the oldest goes first
REQUESTS = 256  # requests of one client under way at once
WRITES = 30  # changes of the control plane a minute, per client: each switch on the page is one (0113)
REBUFFS = 10  # node-only methods an operator may call in a row

K = TypeVar("K")


def canonicalize_address(address: str) -> str:
    """One name for one peer: all loopback forms are one, IPv4 in IPv6 clothes is IPv4, IPv6 counts by /64."""
    try:
        ip = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return "?"
    mapped = getattr(ip, "ipv4_mapped", None)
    ip = mapped or ip
    if ip.is_loopback:
        return "loopback"
    if ip.version == 6:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)


class LoginFailures:
    """Wrong credentials of the last minute (or as `rules` has it). Asked before anything is compared."""

    def __init__(self, monotonic: Callable[[], float], rules: LoginLimits = USUAL) -> None:
        self._now = monotonic
        self._rules = rules
        self._by = SlidingWindow(rules.attempts, rules.window, ADDRESSES)
        self._all = SlidingWindow(max(TRIES_ALL, rules.attempts), rules.window)
        self._locked: OrderedDict[str, float] = OrderedDict()  # until when

    def wait(self, address: str, page: bool = False) -> float:
        """Seconds until this address, or web pages on it, may try again; 0 when it may now."""
        key, now = self._key(address, page), self._now()
        if key is None:
            return 0.0
        return max(self._all.wait("", now), self._by.wait(key, now), self._locked.get(key, now) - now)

    def count_failure(self, address: str, page: bool = False) -> None:
        """Count one."""
        key, now = self._key(address, page), self._now()
        if key is None:
            return
        self._by.count(key, now)
        self._all.count("", now)
        if self._rules.lockout and self._by.wait(key, now):
            self._locked[key] = now + self._rules.lockout
            self._locked.move_to_end(key)
            if len(self._locked) > ADDRESSES:
                self._locked.popitem(last=False)

    def _key(self, address: str, page: bool) -> str | None:
        """None: not counted. A page of a stranger that runs in a browser here is no program of this machine."""
        key = canonicalize_address(address)
        if not self._rules.exempt_loopback or key != "loopback":
            return key
        return "page" if page else None


class FreshConnections(Generic[K]):
    """Connections nobody knows yet, oldest first. When there are too many the oldest goes, so that a client
    which speaks at once always gets in."""

    def __init__(self, cap: int = FRESH) -> None:
        self._cap = cap
        self._held: OrderedDict[K, None] = OrderedDict()

    def add(self, key: K) -> K | None:
        """Remember it; returns the one to be closed, if any."""
        self._held[key] = None
        return self._held.popitem(last=False)[0] if len(self._held) > self._cap else None

    def drop(self, key: K) -> bool:
        """It has spoken or gone. False if it was not fresh."""
        return self._held.pop(key, self) is None

    def __len__(self) -> int:
        return len(self._held)
