"""What is asked of the kernel, by the version of its interface; and one thread under the rules."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.sandbox import confine, landlock
from palinurus.tools.sandbox.plan import KeeperPlan

needed = pytest.mark.skipif(landlock.landlock_version() == 0, reason="this kernel has no Landlock")


def inside(cell: SandboxSpec, act: Any) -> Any:
    """What `act` returns or raises in a thread under the cell's rules."""
    found: list[Any] = []

    def run() -> None:
        handle = landlock.make_file_rules(cell)
        assert handle is not None
        confine.forbid_new_privileges()
        landlock.restrict_thread(handle)
        os.close(handle)
        try:
            found.append(act())
        except OSError as exc:
            found.append(type(exc))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@needed
def test_files(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "r" / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "w" / "link").symlink_to(tmp_path / "b")
    cell = SandboxSpec("landlock", (str(tmp_path / "r"),), (str(tmp_path / "w"),))
    assert inside(cell, (tmp_path / "r" / "a").read_text) == "a"
    assert inside(cell, lambda: (tmp_path / "r" / "a").write_text("x")) is PermissionError
    assert inside(cell, lambda: (tmp_path / "r" / "a").unlink()) is PermissionError
    assert inside(cell, (tmp_path / "b").read_text) is PermissionError
    assert inside(cell, (tmp_path / "w" / "link").read_text) is PermissionError
    assert inside(cell, lambda: os.listdir(tmp_path)) is PermissionError
    assert inside(cell, lambda: (tmp_path / "w" / "new").write_text("xy")) == 2
    assert inside(cell, lambda: os.mkfifo(tmp_path / "w" / "pipe")) is None
    assert (tmp_path / "r" / "a").read_text() == "a"  # this thread is free


@needed
def test_a_single_file_can_be_granted(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    cell = SandboxSpec("landlock", (str(tmp_path / "one"), str(tmp_path / "missing")))
    assert inside(cell, (tmp_path / "one").read_text) == "1"
    assert inside(cell, (tmp_path / "two").read_text) is PermissionError


@needed
def test_no_devices_are_made_where_one_may_write(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root could")
    cell = SandboxSpec("landlock", (), (str(tmp_path),))
    assert inside(cell, lambda: os.mknod(tmp_path / "disk", 0o60600, os.makedev(1, 1))) is PermissionError


@pytest.mark.parametrize(("version", "fields"), [(1, 1), (3, 1), (4, 1), (5, 1), (6, 3), (7, 3), (12, 3)])
def test_older_kernels_are_asked_for_less(version: int, fields: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def call(*args: Any) -> int:
        asked.append(args)
        return os.open("/", os.O_PATH)

    monkeypatch.setattr(landlock, "landlock_version", lambda: version)
    monkeypatch.setattr(landlock.syscalls, "call_kernel", call)
    monkeypatch.setattr(landlock.syscalls, "prepare_call", lambda number: lambda *args: None)
    made = landlock.make_file_rules(SandboxSpec("landlock", ("/usr",), ("/tmp",)))
    assert made is not None
    os.close(made)
    rights = int.from_bytes(asked[0][1][:8], "little")
    assert len(asked[0][1]) == 8 * fields == asked[0][2]
    assert bool(rights & landlock.REFER) == (version >= 2)
    assert bool(rights & landlock.TRUNCATE) == (version >= 3)
    assert bool(rights & landlock.IOCTL_DEV) == (version >= 5)
    assert rights & landlock.READ_FILE and rights & landlock.WRITE_FILE


def test_kernels_without_rules_are_not_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not held then is told as a gap (`test_probe`)."""
    monkeypatch.setattr(landlock, "landlock_version", lambda: 3)
    assert landlock.make_port_rules(KeeperPlan("bubblewrap", connect=())) is None
    assert landlock.make_file_rules(KeeperPlan("bubblewrap"), files=False) is None
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)
    assert landlock.make_file_rules(KeeperPlan("namespaces", ("/usr",))) is None


@pytest.mark.skipif(landlock.landlock_version() < landlock.NET_SINCE, reason="needs Landlock of kernel 6.7")
def test_a_port_that_may_not_be_connected_to_may_not_be_listened_on(room: Any) -> None:
    """Else a command that outlived the gateway could wait for its port, and be taken for it."""
    listen = "import socket; s = socket.socket(); s.bind(('127.0.0.1', {})); s.listen(); print('listens')"
    closed = room.run(f'{sys.executable} -c "{listen.format(20123)}"')
    assert "denied" in closed.out and "listens" not in closed.out
    for port in (0, 8000):
        said = room.run(f'{sys.executable} -c "{listen.format(port)}"').out
        assert "listens" in said or "in use" in said
