"""What a base URL says about where a server is. Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

_NAMES = ("localhost", "host.docker.internal")


def parse_host(url: str) -> str:
    """The host name of a URL in lower case, "" if there is none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


@lru_cache(64)  # of the few servers there are, with every request
def is_local_url(url: str) -> bool:
    """True for servers on this machine or network: they need no key and may think as long as they like."""
    host = parse_host(url)
    if host in _NAMES or host.endswith((".localhost", ".local")):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_private


def show_host(url: str) -> str:
    """Host and port for messages: never the path or the query, they may hold keys."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or "the server"
    except ValueError:
        return "the server"
