"""Our gateway with a mock model and one chat app, for rows whose other side is the server of a chat app."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import place
from tally import until

from palinurus.testing.home import make_home

CHART = "a chart\n"  # what the agent's file says


class ChannelGateway:
    """Started and killed as often as a row likes. `log` is what it said."""

    def __init__(self, root: str, name: str, own: dict[str, Any], owner: str) -> None:
        self.root, self.name = root, name
        mock, self._port = place.free_port(), place.free_port()
        self._mock = place.spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock")
        place.need_listening(root, mock)
        config = {"channels": {name: own}, "commands": {"ownerAllowFrom": [f"{name}:{owner}"]}}
        self.home = make_home(root, config, {"chart.txt": CHART}, url=f"http://127.0.0.1:{mock}/v1")
        self.chart = os.path.join(root, "work", "chart.txt")
        self._pal = [sys.executable, "-m", "palinurus", "--home", self.home]
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> str:
        """Until the chat app is there: what `pal channels status` says then."""
        self._process = place.spawn([*self._pal, "gateway", "--port", str(self._port)], self.root, "gateway")
        place.need_listening(self.root, self._port)
        return until(self.see_status, rf"{self.name}/\S+ +ready", seconds=90)

    def see_status(self) -> str:
        done = subprocess.run([*self._pal, "channels", "status"], capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()
        self._mock.kill()
        self._mock.wait()


@contextmanager
def run_channel(root: str, name: str, own: dict[str, Any], owner: str) -> Iterator[ChannelGateway]:
    """One that is there, and ended at the end."""
    gateway = ChannelGateway(root, name, own, owner)
    try:
        gateway.begin()
        yield gateway
    finally:
        gateway.close()


@contextmanager
def keep_running(*started: subprocess.Popen[bytes]) -> Iterator[None]:
    """Servers, killed at the end, last first."""
    try:
        yield
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(15)
