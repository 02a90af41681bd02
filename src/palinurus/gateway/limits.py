"""Limits that are checked before work is done: failed logins, connections that have not said anything, body sizes."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

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
        self._by: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque()

    def wait(self, address: str) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        now = self._now()
        mine = self._by.get(canonicalize_address(address))
        return max(_left(self._all, TRIES_ALL, now), _left(mine, TRIES, now) if mine else 0.0)

    def count_failure(self, address: str) -> None:
        """Count one."""
        now = self._now()
        key = canonicalize_address(address)
        mine = self._by.setdefault(key, deque())
        self._by.move_to_end(key)
        mine.append(now)
        self._all.append(now)
        while len(self._by) > ADDRESSES:
            self._by.popitem(last=False)


class GatewayRateLimit:
    """How often somebody did something in the last minute. Bounded like `Tries`, but counts what was allowed."""

    def __init__(self, monotonic: Callable[[], float], allowed: int = WRITES) -> None:
        self._now = monotonic
        self._allowed = allowed
        self._by: OrderedDict[str, deque[float]] = OrderedDict()

    def step(self, who: str) -> float:
        """0 and counted when it may go ahead; else the seconds it has to wait."""
        now = self._now()
        mine = self._by.setdefault(who, deque())
        self._by.move_to_end(who)
        while len(self._by) > ADDRESSES:
            self._by.popitem(last=False)
        wait = _left(mine, self._allowed, now)
        if wait <= 0:
            mine.append(now)
        return max(wait, 0.0)


def _left(times: deque[float], allowed: int, now: float) -> float:
    while times and times[0] <= now - WINDOW:
        times.popleft()
    return times[-allowed] + WINDOW - now if len(times) >= allowed else 0.0


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
