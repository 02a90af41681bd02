"""Limits that are checked before work is done: failed logins, connections that have not said anything, body sizes."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from palinurus.core.window import SlidingWindow

BODY = 20 * 1024 * 1024  # bytes of one request
BODY_SECONDS = 30.0  # for the whole of it
FRESH = 512  # connections that have not sent a whole request head; a burst of real clients must fit
FRESH_SECONDS = 5.0
IDLE_SECONDS = 75.0
BUFFER = 4 * 1024 * 1024  # bytes waiting for a client that does not read
KEEPALIVE = 15.0  # seconds of silence after which a stream gets a comment line
TRIES = 10  # wrong credentials a minute, per address
TRIES_ALL = 100  # … and over all addresses
WINDOW = 60.0
ADDRESSES = 4096  # addresses remembered
STRANGERS = 256  # WebSocket connections that have not logged in; the oldest goes first
REQUESTS = 256  # requests of one client under way at once
WRITES = 3  # changes of the control plane a minute, per client
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
    """Wrong credentials of the last minute. Asked before anything is compared."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._by = SlidingWindow(TRIES, WINDOW, ADDRESSES)
        self._all = SlidingWindow(TRIES_ALL, WINDOW)

    def wait(self, address: str) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        now = self._now()
        return max(self._all.wait("", now), self._by.wait(canonicalize_address(address), now))

    def count_failure(self, address: str) -> None:
        """Count one."""
        now = self._now()
        self._by.count(canonicalize_address(address), now)
        self._all.count("", now)


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
