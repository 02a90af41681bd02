"""Which gateway of a home runs, and where. Looks at a file and at processes; connects to nothing."""

from __future__ import annotations

import os

from palinurus.cli.reach.http import GatewayEndpoint
from palinurus.gateway import token


def find_running_gateway(home: str) -> token.GatewayLocation | None:
    """Where the gateway of this home is, if its process lives."""
    place = token.find_location(home)
    return place if place is not None and not place.chat and is_process_alive(place.pid) else None


def format_address(place: token.GatewayLocation) -> str:
    """Where it listens."""
    return f"{GatewayEndpoint(place.host, place.port, '', place.fingerprint).url}/"


def is_process_alive(pid: int) -> bool:
    """Also where /proc is not; one that ended and that nobody has asked about is not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            return handle.read().rpartition(b")")[2].split()[0] != b"Z"  # ended, but nobody has asked how
    except OSError:
        pass
    if os.path.isdir("/proc/self"):
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
