"""Which gateway of a home runs, and where; starting one. Looks at files and processes; connects to nothing."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from palinurus.cli.reach.http import GatewayEndpoint
from palinurus.errors import DiskFull, PalinurusError
from palinurus.files import read_plain_file
from palinurus.gateway import token

LOG_BYTES = 20 * 1024 * 1024


class BackgroundProcess:
    """A gateway without a service manager. Made by `start_in_background`."""

    def __init__(self, process: subprocess.Popen[bytes], log: str, begins: int) -> None:
        self._process, self._log, self._begins = process, log, begins

    def find_end(self) -> PalinurusError | None:
        """What it said when it ended, with its exit code; None while it lives."""
        if (code := self._process.poll()) is None:
            return None
        said = read_plain_file(self._log, LOG_BYTES * 2)[self._begins :].decode("utf-8", "replace")
        message, _, fix = said.rpartition("pal: ")[2].strip().partition("\n  fix: ")
        if not said and not os.statvfs(os.path.dirname(self._log)).f_bavail:
            return DiskFull("the disk is full, also for what the gateway says", fix="free some space")
        ended = PalinurusError(message or f"the gateway ended with {code}", fix=fix or "`pal gateway` to see why")
        ended.exit_code = code if code > 0 else 1
        return ended


def start_in_background(command: Sequence[str], log: str, environ: Mapping[str, str]) -> BackgroundProcess:
    """Start it, with what it prints in `log`; a log that is too long is put aside."""
    os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
    if os.path.exists(log) and os.path.getsize(log) > LOG_BYTES:
        os.replace(log, log + ".1")
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        begins = os.fstat(handle).st_size
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            env={**environ},
            start_new_session=True,
        )
    finally:
        os.close(handle)
    return BackgroundProcess(process, log, begins)


def find_running_gateway(home: str) -> token.GatewayLocation | None:
    """Where the gateway of this home is, if its process lives."""
    place = token.find_location(home)
    return place if place is not None and not place.chat and is_process_alive(place.pid) else None


def find_serving_chat(home: str) -> int:
    """The process of the chat that serves this home in a gateway's place; 0 where none does."""
    place = token.find_location(home)
    return place.pid if place is not None and place.chat and is_process_alive(place.pid) else 0


def format_address(place: token.GatewayLocation) -> str:
    """Where it listens."""
    return f"{GatewayEndpoint(place.host, place.port, '', place.fingerprint).url}/"


def is_thrown_away(prefix: str) -> bool:
    """Is it an environment of `uvx` or `pipx run`, which goes with their cache?"""
    return bool(re.search(r"/archive-v\d+/|/\.?caches?/pipx/|/pipx/\.cache/", prefix, re.IGNORECASE))


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
