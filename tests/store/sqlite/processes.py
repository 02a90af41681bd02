"""How the tests here start `child.py`, plainly or on a disk of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

CHILD = str(Path(__file__).with_name("child.py"))


def command(what: str, home: Path, spec: str = "") -> list[str]:
    return [sys.executable, CHILD, what, str(home), spec]


def child(what: str, home: Path, spec: str = "") -> subprocess.CompletedProcess[str]:
    """Run to its end, however that comes."""
    return subprocess.run(command(what, home, spec), capture_output=True, text=True, timeout=60)


@cache
def _mounts() -> bool:
    if not shutil.which("unshare"):
        return False
    probe = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /tmp"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def on_tmpfs(what: str, disk: Path, options: str) -> subprocess.CompletedProcess[str]:
    """Run with `disk` as a tmpfs of its own; home is a directory on it, or the disk itself if that is read-only."""
    if not _mounts():
        pytest.skip("no user namespaces with mounts here")
    home = disk if "ro" in options.split(",") else disk / "home"
    run = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"'
    args = ["unshare", "-rm", "sh", "-c", run, "sh", options, str(disk), *command(what, home)]
    return subprocess.run(args, capture_output=True, text=True, timeout=60)
