"""Where the drive happens: a folder outside the repo with the real OpenClaw, a mock model and our gateway.

Knows how to install and start them and how to call OpenClaw's program; knows nothing of what is checked.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from palinurus.testing.home import TOKEN, make_home

VERSION = "2026.6.6"
NODE = "24"
MODELS = (("model", "Model"), ("second", "Second"))


class Place(NamedTuple):
    """Everything started; `stop` ends it."""

    root: str
    package: str  # folder with node_modules
    home: str  # our state directory
    port: int
    shots: str  # screenshots and screens
    running: list[subprocess.Popen[bytes]]

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def node(self) -> str:
        return os.path.join(self.package, "node_modules", "node", "bin", "node")

    @property
    def program(self) -> list[str]:
        """OpenClaw's command line."""
        return [self.node, os.path.join(self.package, "node_modules", "openclaw", "openclaw.mjs")]

    def environ(self, client: str) -> dict[str, str]:
        """A client with a home, and so a device identity, of its own."""
        home = os.path.join(self.root, "clients", client)
        os.makedirs(os.path.join(home, ".openclaw"), exist_ok=True)
        remote = {"mode": "remote", "remote": {"url": self.url, "token": TOKEN}}
        with open(os.path.join(home, ".openclaw", "openclaw.json"), "w", encoding="utf-8") as handle:
            json.dump({"gateway": remote}, handle)
        keep = {name: value for name, value in os.environ.items() if not name.startswith(("OPENCLAW_", "PALINURUS_"))}
        return {
            **keep,
            "HOME": home,
            "PATH": os.path.dirname(self.node) + os.pathsep + os.environ.get("PATH", ""),
            "NO_COLOR": "1",
            "OPENCLAW_GATEWAY_URL": self.url,
            "OPENCLAW_GATEWAY_TOKEN": TOKEN,
        }

    def openclaw(self, *args: str, client: str = "cli", timeout: float = 90) -> tuple[int, str, str]:
        """Run a command to its end: (exit code, output, errors)."""
        try:
            done = subprocess.run(
                [*self.program, *args],
                env=self.environ(client),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as exc:
            return 124, (exc.stdout or b"").decode(errors="replace"), (exc.stderr or b"").decode(errors="replace")
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def stop(self) -> None:
        for process in reversed(self.running):
            process.terminate()
        for process in reversed(self.running):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def install(package: str) -> None:
    """The real program and a Node that runs it, from the package registry npm is set up for. Raises SystemExit."""
    if os.path.exists(os.path.join(package, "node_modules", "openclaw", "openclaw.mjs")):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("compat: npm is needed to install OpenClaw; install Node.js (any version that has npm)")
    os.makedirs(package, exist_ok=True)
    with open(os.path.join(package, "package.json"), "w", encoding="utf-8") as handle:
        handle.write('{"name": "compat", "private": true}\n')
    print(f"compat: installing openclaw@{VERSION} (once, a minute or two) …", flush=True)
    names = [f"openclaw@{VERSION}", f"node@{NODE}"]
    # `node` fetches its binary in an install script of its own package only; nothing else needs one.
    done = subprocess.run([npm, "install", "--no-audit", "--no-fund", *names], cwd=package, capture_output=True)
    if done.returncode:
        raise SystemExit(f"compat: npm failed\n{done.stderr.decode(errors='replace')[-2000:]}")


def start(package: str, origins: tuple[str, ...] = ()) -> Place:
    """Mock model and gateway, listening. Raises SystemExit when one does not come up."""
    root = tempfile.mkdtemp(prefix="compat-")
    shots = os.path.join(root, "shots")
    os.makedirs(shots)
    running: list[subprocess.Popen[bytes]] = []
    mock, port = free_port(), free_port()
    running.append(spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock"))
    home = make_home(
        root, _config(port, origins), {"notes.txt": "remember the milk\n"}, url=f"http://127.0.0.1:{mock}/v1"
    )
    pal = [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", str(port)]
    running.append(spawn(pal, root, "gateway"))
    place = Place(root, package, home, port, shots, running)
    for one in (mock, port):
        if not listens(one):
            place.stop()
            raise SystemExit(f"compat: nothing listens on port {one}; see the logs in {root}")
    return place


def _config(port: int, origins: tuple[str, ...]) -> dict[str, object]:
    models = [
        {"id": ident, "name": name, "input": ["text"], "contextWindow": 200_000, "maxTokens": 8192, "reasoning": True}
        for ident, name in MODELS
    ]
    return {
        "gateway": {"port": port, "controlUi": {"allowedOrigins": list(origins)}},
        "models": {"providers": {"fake": {"models": models}}},
        "tools": {"exec": {"ask": "on-miss", "security": "allowlist"}},
    }


def spawn(argv: list[str], root: str, name: str) -> subprocess.Popen[bytes]:
    """A process whose words go to NAME.log."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PALINURUS_", "OPENCLAW_"))}
    with open(os.path.join(root, f"{name}.log"), "ab") as log:
        return subprocess.Popen(argv, cwd=root, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def free_port() -> int:
    """A port nobody listens on right now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def listens(port: int, seconds: float = 30) -> bool:
    """Whether somebody does, within so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.1)
    return False
