"""The command line of bubblewrap: what is shown, in which order, and what is covered."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.sandbox import bubblewrap, layout


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: "/usr/bin/bwrap")


def line(cell: SandboxSpec) -> str:
    return " ".join(bubblewrap.wrap_bubblewrap(("/bin/sh", "-c", "x"), "/work", cell))


def test_namespaces() -> None:
    made = line(SandboxSpec("bubblewrap", ("/usr",)))
    for option in ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop ALL", "--proc /proc", "--dev /dev"):
        assert option in made
    assert "--unshare-net" not in made
    assert made.endswith("--chdir /work -- /bin/sh -c x")
    assert "--unshare-net" in line(SandboxSpec("bubblewrap", ("/usr",), connect=()))


def test_it_dies_with_its_keeper() -> None:
    assert "--die-with-parent" in line(SandboxSpec("bubblewrap", ("/usr",)))


def test_outer_folders_are_mounted_before_inner_ones(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    made = line(SandboxSpec("bubblewrap", (str(inner), "/usr"), (str(tmp_path),)))
    assert made.index(f"--bind {tmp_path} {tmp_path}") < made.index(f"--ro-bind {inner} {inner}")


def test_kernel_folders_are_never_those_of_the_host() -> None:
    made = line(SandboxSpec("bubblewrap", ("/proc", "/usr"), ("/dev/null", "/dev/shm")))
    assert "--ro-bind /proc" not in made and "--bind /dev" not in made


def test_etc_is_shown_as_a_whole_with_the_rest_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("passwd", "shadow", "ssl/certs/a", "ssl/private/key", "secret/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    monkeypatch.setattr(layout, "_WHOLE", str(tmp_path))
    made = line(SandboxSpec("bubblewrap", (f"{tmp_path}/passwd", f"{tmp_path}/ssl/certs")))
    assert f"--ro-bind {tmp_path} {tmp_path}" in made
    assert f"--ro-bind /dev/null {tmp_path}/shadow" in made
    assert f"--tmpfs {tmp_path}/ssl/private" in made and f"--tmpfs {tmp_path}/secret" in made
    assert f"{tmp_path}/ssl/certs" not in made.replace(f"--ro-bind {tmp_path} ", "")


def test_without_bubblewrap_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: "")
    with pytest.raises(FileNotFoundError, match="bwrap"):
        line(SandboxSpec("bubblewrap"))
