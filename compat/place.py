"""Where the drive happens: a folder outside the repo with the real OpenClaw, a mock model and our gateway.

Knows how to install and start them and how to call OpenClaw's program; knows nothing of what is checked.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tally import Tally

from palinurus.testing.home import TOKEN, make_home

VERSIONS = ("2026.6.6", "2026.9.6")
NODE = "24"
SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))  # servers of Debian are there
MODELS = (("model", "Model"), ("second", "Second"))


class NotInstalled(Exception):
    """The other side could not be had; its words say why. The row then says so and fails nothing."""


class Place(NamedTuple):
    """Everything started; `stop` ends it."""

    root: str
    version: str  # of OpenClaw
    package: str  # folder with node_modules
    home: str  # our state directory
    port: int
    page: int  # a port whose pages our gateway trusts
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

    def openclaw(self, *args: str, client: str = "cli", timeout: float = 180) -> tuple[int, str, str]:
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


def play(version: str, drive: Callable[[Place, Tally], None], cache: str, tally: Tally) -> None:
    """Install, start, drive, end."""
    here = start(version, install_openclaw(cache, version))
    print(f"compat: openclaw {version} against {here.url}; logs in {here.root}", flush=True)
    try:
        drive(here, tally)
    finally:
        here.stop()


def install_openclaw(cache: str, version: str) -> str:
    """The real program and a Node that runs it: the folder with node_modules. Raises NotInstalled."""
    folder = os.path.join(cache, version)
    entry = os.path.join("node_modules", "openclaw", "openclaw.mjs")
    if not os.path.exists(os.path.join(folder, entry)):
        # The newest refuses to be installed by an older Node than it runs on.
        own = os.path.join(folder, "node_modules", "node", "bin")
        install_npm(folder, f"node@{NODE}", entry=os.path.join("node_modules", "node", "bin", "node"))
        install_npm(folder, f"openclaw@{version}", f"node@{NODE}", entry=entry, path=own)
    return folder


def install_npm(folder: str, *names: str, entry: str, path: str = "") -> str:
    """Packages into a folder, once: where `entry` then is. Raises NotInstalled."""
    found = os.path.join(folder, entry)
    with only_one(folder):
        if not os.path.exists(found):
            print(f"compat: installing {' '.join(names)} (once) …", flush=True)
            package = os.path.join(folder, "package.json")
            if not os.path.exists(package):
                with open(package, "w", encoding="utf-8") as file:
                    file.write('{"name": "compat", "private": true}\n')
            _run_installer(["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *names], folder, path)
            if not os.path.exists(found):
                raise NotInstalled(f"npm brought no {entry}")
    return found


def install_pip(folder: str, *options: str) -> str:
    """Wheels into an environment of their own, once: the folder of its commands. Raises NotInstalled."""
    with only_one(folder):
        done = os.path.join(folder, ".done")
        if not os.path.exists(done):
            print(f"compat: installing {' '.join(options)} (once) …", flush=True)
            _run_installer([sys.executable, "-m", "venv", "--clear", folder], folder)
            pip = os.path.join(folder, "bin", "pip")
            _run_installer([pip, "install", "-q", "--disable-pip-version-check", *options], folder)
            open(done, "w").close()
    return os.path.join(folder, "bin")


@contextmanager
def only_one(folder: str) -> Iterator[None]:
    """Rows side by side may want the same package: the second waits until the first has it."""
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run_installer(command: list[str], folder: str, path: str = "") -> None:
    environ = {**os.environ, "PATH": path + os.pathsep + os.environ.get("PATH", "")} if path else None
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        print(words[-2000:], flush=True)
        first = next((line for line in words.splitlines() if "rror" in line or "ERR" in line), words[-200:])
        raise NotInstalled(f"{os.path.basename(command[0])}: {first[:160]}")


def start(version: str, package: str) -> Place:
    """Mock model and gateway, listening. Raises SystemExit when one does not come up."""
    root = tempfile.mkdtemp(prefix="compat-")
    shots = os.path.join(root, "shots")
    os.makedirs(shots)
    running: list[subprocess.Popen[bytes]] = []
    mock, port, page = free_port(), free_port(), free_port()
    running.append(spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock"))
    files = {"notes.txt": "remember the milk\n"}
    home = make_home(root, _config(port, page), files, url=f"http://127.0.0.1:{mock}/v1")
    pal = [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", str(port)]
    running.append(spawn(pal, root, "gateway"))
    place = Place(root, version, package, home, port, page, shots, running)
    try:
        need_listening(root, mock, port)
    except SystemExit:
        place.stop()
        raise
    return place


def _config(port: int, page: int) -> dict[str, object]:
    models = [
        {"id": ident, "name": name, "input": ["text"], "contextWindow": 200_000, "maxTokens": 8192, "reasoning": True}
        for ident, name in MODELS
    ]
    return {
        "gateway": {"port": port, "controlUi": {"allowedOrigins": [f"http://127.0.0.1:{page}"]}},
        "models": {"providers": {"fake": {"models": models}}},
        "tools": {"exec": {"ask": "on-miss", "security": "allowlist"}},
    }


def spawn(argv: list[str], root: str, name: str) -> subprocess.Popen[bytes]:
    """A process whose words go to NAME.log."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PALINURUS_", "OPENCLAW_"))}
    with open(os.path.join(root, f"{name}.log"), "ab") as log:
        return subprocess.Popen(argv, cwd=root, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def make_certificate(root: str, host: str) -> None:
    """`cert.pem` and `key.pem` of a server of this name."""
    line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}"]
    line += ["-addext", f"subjectAltName=DNS:{host}", "-keyout", f"{root}/key.pem", "-out", f"{root}/cert.pem"]
    subprocess.run(line, check=True, capture_output=True)


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


def need_listening(root: str, *ports: int) -> None:
    """Wait for servers. Raises SystemExit when one does not come up: a row without its server proves nothing."""
    for port in ports:
        if not listens(port, 120):
            raise SystemExit(f"compat: nothing listens on port {port}; see the logs in {root}")
