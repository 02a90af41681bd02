"""`pal gateway` as a process: what it says, who it keeps out, how it stops."""

from __future__ import annotations

import logging
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nursery import Program
from palinurus.cli.gateway.serve import run_gateway
from palinurus.errors import ConfigError, GatewayUnreachable

Pal = Callable[..., "subprocess.CompletedProcess[str]"]


class Process:
    """A gateway on a port of the system's choice."""

    def __init__(self, port: int = 0) -> None:
        pipe = subprocess.PIPE
        self.process = Program("gateway", "--port", str(port), stdout=pipe, stderr=pipe, umask=0)
        assert self.process.stdout is not None
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "stop " in line:
                break
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", self.said)
        assert found, self.said + (self.process.stderr.read() if self.process.stderr else "")
        self.port = int(found[1])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        err = self.process.communicate(timeout=90)[1]
        return self.process.returncode, err


@pytest.fixture
def quiet() -> Iterator[None]:
    """The command configures logging for its process; here that is the tests'."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def gateway(demo: Path) -> Iterator[Process]:
    running = Process()
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.communicate()


def test_one_life_of_a_gateway(gateway: Process, demo: Path, pal: Pal) -> None:
    token = (demo / "gateway.token").read_text().strip()
    assert str(demo / "gateway.token") in gateway.said and token not in gateway.said
    assert "builtin/demo" in gateway.said and "pal chat" in gateway.said
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/readyz") as answer:
        assert b'"ready":true' in answer.read()

    through = pal("agent", "-m", "list files")  # finds it although its port is not in the config
    assert "AGENTS.md" in through.stdout and through.returncode == 0

    inside = pal("agent", "--local", "-m", "hi")
    assert inside.returncode == 75 and "fix: leave out --local" in inside.stderr
    second = pal("gateway", "--port", "0")
    assert second.returncode == 75 and "in use" in second.stderr and "Traceback" not in second.stderr

    running = pal("status")
    assert running.returncode == 0 and f"running at http://127.0.0.1:{gateway.port}" in running.stdout

    code, log = gateway.stop()
    assert code == 0
    assert "SIGTERM received" in log and "stopped" in log and token not in log and "Traceback" not in log
    assert not (demo / "gateway.json").exists()
    # the workspace's own files included: all were made under umask 000
    assert [p for p in demo.rglob("*") if stat.S_IMODE(p.stat().st_mode) & 0o077 and p.name != "palinurus.json"] == []


def test_port_taken(demo: Path, quiet: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(GatewayUnreachable, match=f"port {port}") as caught:
            run_gateway(["--port", str(port)])
    assert caught.value.exit_code == 75 and "--port" in caught.value.fix
    assert not (demo / "gateway.json").exists()


def test_a_broken_config_runs_on_the_last_good_copy_and_says_so(gateway: Process, demo: Path, pal: Pal) -> None:
    gateway.stop()
    (demo / "palinurus.json").write_text("{ broken")
    again = Process()
    code, log = again.stop(signal.SIGINT)
    assert code == 0 and "last good copy" in log and "builtin/demo" in again.said


def test_no_auth_on_an_open_address_does_not_start(demo: Path, quiet: None) -> None:
    (demo / "palinurus.json").write_text('{gateway: {auth: {mode: "none"}}}')
    with pytest.raises(ConfigError, match="let everyone in"):
        run_gateway(["--bind", "0.0.0.0", "--port", "0"])


def test_a_second_signal_does_not_wait_and_the_message_goes_on_after_the_restart(gateway: Process, demo: Path) -> None:
    asking = Program("agent", "-m", "run sleep 60", stdout=subprocess.PIPE)
    transcripts = demo / "agents" / "main" / "sessions"
    while not any("toolCall" in p.read_text() for p in transcripts.glob("*.jsonl")):
        time.sleep(0.05)
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.stderr is not None
    while "stopping" not in gateway.process.stderr.readline():
        pass
    assert gateway.stop()[0] == 0
    again = Process(gateway.port)
    assert "stopped before it finished" in asking.communicate(timeout=90)[0]
    assert again.stop()[0] == 0


def test_where_the_gateway_is_elsewhere_none_starts(demo: Path, quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (demo / "palinurus.json").write_text('{gateway: {mode: "remote"}}')
    with pytest.raises(ConfigError, match=r"gateway.mode: 'remote' says .* elsewhere; set gateway.mode to 'local'"):
        run_gateway(["--port", "0"])
    assert not (demo / "gateway.json").exists()
    assert sys.dont_write_bytecode  # a module's compiled form that a full disk cut off would break every start
