"""`pal dashboard`: the link to the page."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from gateway.host import FakeHost
from palinurus.cli.gateway import daemon, dashboard
from palinurus.clock import SystemClock
from palinurus.errors import GatewayUnreachable
from palinurus.gateway import token
from palinurus.gateway.server import GatewayServer


def test_the_link_carries_the_token_in_its_fragment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    secret = token.ensure_token(str(tmp_path))
    with serving(secret) as server:
        place = token.GatewayLocation("127.0.0.1", server.port, os.getpid(), proof=server.proof_key)
        token.announce_location(str(tmp_path), place)
        assert dashboard.run_dashboard(["--no-open"]) == 0
        assert capsys.readouterr().out == f"http://127.0.0.1:{server.port}/#token={secret}\n"
        assert dashboard.run_dashboard(["--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"url": f"http://127.0.0.1:{server.port}/#token={secret}"}
        token.announce_location(str(tmp_path), msgspec.structs.replace(place, proof="0" * 64))
        with pytest.raises(GatewayUnreachable, match="cannot prove"):  # another program at our port gets no link
            dashboard.run_dashboard(["--no-open"])


@contextmanager
def serving(secret: str) -> Iterator[GatewayServer]:
    """A gateway in a loop of its own: the command has one, too."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = GatewayServer(FakeHost(), SystemClock(), secret)
    try:
        asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(60)
        yield server
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


def test_a_gateway_that_was_killed_has_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    token.announce_location(str(tmp_path), token.GatewayLocation("127.0.0.1", 18789, gone.pid))
    with pytest.raises(GatewayUnreachable, match="no gateway"):
        dashboard.run_dashboard(["--no-open"])


def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token.announce_location(str(tmp_path), token.GatewayLocation("::1", 18789, os.getpid()))
    site = daemon.ServiceSite({"PALINURUS_HOME": str(tmp_path)}, "linux", lambda _: (127, ""), SystemClock())
    assert daemon.show_service_status(site) == 0 and "http://[::1]:18789/ (process" in capsys.readouterr().out


def test_without_a_gateway_it_says_how_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    with pytest.raises(GatewayUnreachable, match="no gateway"):
        dashboard.run_dashboard([])
