"""The gateway as a service: what is written, what the service manager is asked, and the way without one."""

from __future__ import annotations

import os
import plistlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.place import SRC
from palinurus.cli.gateway import daemon
from palinurus.cli.gateway.daemon import ServiceSite
from palinurus.cli.gateway.running import find_running_gateway, is_thrown_away
from palinurus.clock import SystemClock
from palinurus.errors import PalinurusError
from palinurus.store.sqlite.lock import take_lock
from ports import reserve_port


class Manager:
    """A service manager that answers by the first word that fits, and remembers what it was asked."""

    def __init__(self, **codes: int) -> None:
        self.codes = codes
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str]) -> tuple[int, str]:
        line = " ".join(command)
        self.asked.append(line)
        code = next((code for word, code in self.codes.items() if word.replace("_", "-") in line), 0)
        return code, "" if code == 0 else "Failed to connect to bus: No medium found"


def site(tmp_path: Path, manager: Manager, platform: str = "linux") -> ServiceSite:
    home = tmp_path / 'a "b" 50% $x'
    home.mkdir(exist_ok=True)
    environ = {**os.environ, "HOME": str(tmp_path), "PALINURUS_HOME": str(home), "PYTHONPATH": SRC}
    environ.pop("XDG_CONFIG_HOME", None)
    return ServiceSite(environ, platform, manager, SystemClock())


def test_systemd_gets_a_unit_that_is_switched_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manager = Manager()
    here = site(tmp_path, manager)
    assert daemon.install_service(here) == 0
    text = (tmp_path / ".config" / "systemd" / "user" / "palinurus.service").read_text()
    assert 'a \\"b\\" 50%% $$x' in text and "RestartPreventExitStatus=64 78" in text
    assert manager.asked[-2:] == ["systemctl --user daemon-reload", "systemctl --user enable --now palinurus.service"]
    assert "wrote" in capsys.readouterr().out
    assert daemon.uninstall_service(here) == 0 and not os.path.exists(here.unit)


def test_a_node_is_a_service_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manager = Manager()
    here = replace(site(tmp_path, manager), kind=daemon.NODE)
    assert daemon.install_service(here) == 0
    text = (tmp_path / ".config" / "systemd" / "user" / "palinurus-node.service").read_text()
    assert '"node" "run"' in text and "RestartPreventExitStatus=64 77 78" in text  # it was refused: a person decides
    assert "Description=Palinurus node" in text and manager.asked[-1].endswith("enable --now palinurus-node.service")
    assert daemon.uninstall_service(here) == 0 and not os.path.exists(here.unit)
    assert daemon.install_service(replace(site(tmp_path, Manager(show_environment=1)), kind=daemon.NODE)) == 0
    assert "`pal node run` runs it" in capsys.readouterr().out


def test_where_systemd_does_not_run_it_is_said_with_the_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manager = Manager(show_environment=1)
    assert daemon.install_service(site(tmp_path, manager)) == 0
    said = capsys.readouterr().out
    assert "No medium found" in said and "enable-linger" in said and "pal gateway start" in said
    assert not any("enable --now" in line for line in manager.asked)
    daemon.show_service_status(site(tmp_path, manager))  # it sent people back to `pal gateway install`
    assert "palinurus.service, not switched on" in capsys.readouterr().out


def test_a_gateway_in_the_foreground_has_a_log_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = site(tmp_path, Manager(systemctl=127))
    monkeypatch.setenv("PALINURUS_HOME", here.home)
    os.chmod(here.home, 0o700)
    own = Path(here.home) / "logs" / "gateway.log"
    own.parent.mkdir()
    own.write_text('{"level": "info", "subsystem": "gateway.server", "message": "it listens"}\n')
    assert daemon.describe_service(here)["logs"] == str(own)
    Path(here.log).write_text("of yesterday\n")
    os.utime(here.log, (1, 1))
    assert daemon.run_service(["logs"]) == 0 and "it listens" in capfd.readouterr().out
    os.utime(here.log)
    assert daemon.run_service(["logs"]) == 0 and "of yesterday" in capfd.readouterr().out


def test_a_manager_that_refuses_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PalinurusError, match="systemctl enable failed"):
        daemon.install_service(site(tmp_path, Manager(**{"enable --now": 1})))


def test_launchd_gets_an_agent_it_can_read(tmp_path: Path) -> None:
    here = site(tmp_path, Manager(), "darwin")
    assert daemon.install_service(here) == 0
    with open(here.plist, "rb") as handle:
        read = plistlib.load(handle)
    assert read["ProgramArguments"] == here.command and read["KeepAlive"] == {"SuccessfulExit": False}


def test_a_life_in_the_background(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = site(tmp_path, Manager(systemctl=127))
    (Path(here.home) / "palinurus.json").write_text(f'{{"gateway": {{"port": {reserve_port()}}}}}')
    assert daemon.show_service_status(here) == 3
    assert daemon.describe_service(here)["running"] is False
    assert daemon.start_service(here) == 0
    try:
        place = find_running_gateway(here.home)
        assert place is not None
        told = daemon.describe_service(here)
        assert told["running"] and told["pid"] == place.pid and told["address"].startswith("http")
        assert told["logs"] == here.log and told["home"] == here.home
        assert daemon.show_service_status(here) == 0 and daemon.start_service(here) == 0
        assert "already running" in capsys.readouterr().out
        assert "is running" in Path(here.log).read_text() and os.stat(here.log).st_mode & 0o077 == 0
        assert daemon.restart_service(here) == 0
        again = find_running_gateway(here.home)
        assert again is not None and again.pid != place.pid
    finally:
        assert daemon.stop_service(here) == 0
    assert find_running_gateway(here.home) is None and daemon.stop_service(here) == 0


def test_one_that_cannot_start_says_why_at_once(tmp_path: Path) -> None:
    """It was waited for, for twenty seconds, and then "did not come up"."""
    here = site(tmp_path, Manager(systemctl=127))
    os.chmod(here.home, 0o700)
    (Path(here.home) / "palinurus.json").write_text(f'{{"gateway": {{"port": {reserve_port()}}}}}')
    lock = take_lock(here.home)
    try:
        with pytest.raises(PalinurusError, match="in use") as caught:
            daemon.start_service(here)
    finally:
        lock.release()
    assert caught.value.exit_code == 75 and caught.value.fix


@pytest.mark.parametrize(
    "prefix",
    [
        "/home/ada/.cache/uv/archive-v0/z0Y1O_-j8tLSAyU_",
        "/home/ada/.cache/pipx/4af0f92eddf4df7",
        "/home/ada/.local/pipx/.cache/4af0f92eddf4df7",
        "/Users/ada/Library/Caches/pipx/4af0f92eddf4df7",
    ],
)
def test_an_environment_that_is_thrown_away_keeps_no_service(tmp_path: Path, prefix: str) -> None:
    """`uvx --from WHEEL pal gateway install` wrote one that ended with uv's cache."""
    here = replace(site(tmp_path, Manager()), prefix=prefix)
    with pytest.raises(PalinurusError, match="cache"):
        daemon.install_service(here)
    assert not os.path.exists(here.unit)
    kept = (
        "/home/ada/.local/share/uv/tools/palinurus",
        "/home/ada/.local/share/pipx/venvs/palinurus",
        "/home/ada/p/.venv",
    )
    assert not any(map(is_thrown_away, kept))
