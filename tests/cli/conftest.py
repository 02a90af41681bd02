from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.place import SRC


@pytest.fixture(autouse=True)
def kept_umask() -> Iterator[None]:
    """Commands set the umask of their process; here that is the tests'."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh state directory, and no key of the developer's in sight."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("PALINURUS"):
            monkeypatch.delenv(name)
    path = tmp_path / "home"
    monkeypatch.setenv("PALINURUS_HOME", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


@pytest.fixture
def pal(home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `pal` as a program."""

    def call(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "palinurus", *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": SRC},
        )

    return call


@pytest.fixture
def demo(home: Path) -> Path:
    """A home whose agent is the built-in demo, whatever else this machine has."""
    home.mkdir(mode=0o700)
    (home / "palinurus.json").write_text('{agents: {defaults: {model: "builtin/demo"}}}')
    (home / "palinurus.json").chmod(0o600)
    return home
