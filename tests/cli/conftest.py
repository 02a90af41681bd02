from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nursery import run_program
from palinurus.testing.server import ModelServer
from ports import reserve_port


@pytest.fixture(autouse=True)
def kept_umask() -> Iterator[None]:
    """Commands set the umask of their process; here that is the tests'."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh state directory; no key of the developer's in sight, and no width of their terminal."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("PALINURUS") or name in ("COLUMNS", "LINES"):
            monkeypatch.delenv(name)
    path = tmp_path / "home"
    monkeypatch.setenv("PALINURUS_HOME", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


@pytest.fixture
def pal(home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `pal` as a program."""
    return run_program


@pytest.fixture
def demo(home: Path) -> Path:
    """A home whose agent is the built-in demo, whatever else this machine has, with a port that is nobody else's."""
    home.mkdir(mode=0o700)
    (home / "palinurus.json").write_text(
        f'{{agents: {{defaults: {{model: "builtin/demo"}}}}, gateway: {{port: {reserve_port()}}}}}'
    )
    (home / "palinurus.json").chmod(0o600)
    return home


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A provider in a thread of its own: the commands run their own loops."""
    made, loop = ModelServer(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(60)
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()
