"""Profiles: a home, a port and a service of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from palinurus.cli.gateway.daemon import NODE, ServiceSite, install_service, uninstall_service
from palinurus.cli.main import main
from palinurus.clock import SystemClock
from palinurus.config import paths
from palinurus.config.load import load_config
from palinurus.errors import PalinurusError


def test_a_profile_is_a_home(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--profile", "work", "setup", "--non-interactive"]) == 0
    assert (tmp_path / ".palinurus-work" / "palinurus.json").is_file() and not home.exists()
    assert main(["--profile=work", "status", "--json"]) == 3
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["profile"] == "work" and shown["home"] == str(tmp_path / ".palinurus-work")
    assert main(["--profile", "work", "profiles", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["profile"], row["current"], row["running"]) == ("work", True, False)
    assert row["port"] == load_config(row["home"], os.environ).settings.gateway.port != 18789
    assert main(["--profile", "work", "status"]) == 3
    assert "profile   work" in capsys.readouterr().out


def test_names(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bad in ("../x", "a b", "", "ü"):
        assert main(["--profile", bad, "status"]) == 64
    assert paths.find_profile("/home/x/.palinurus-work") == "work" and paths.find_profile("/home/x/.palinurus") == ""
    assert paths.choose_port("/home/x/.palinurus") == 18789


def test_a_port_in_the_config_counts(tmp_path: Path) -> None:
    home = tmp_path / ".palinurus-work"
    home.mkdir()
    (home / "palinurus.json").write_text("{gateway: {port: 7777}}")
    assert load_config(str(home), {}).settings.gateway.port == 7777


def test_a_service_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def make(name: str) -> ServiceSite:
        environ = {"HOME": str(tmp_path), "PALINURUS_HOME": str(tmp_path / name)}
        return ServiceSite(environ, "linux", lambda command: (0, ""), SystemClock())

    install_service(make(".palinurus"))
    install_service(make(".palinurus-work"))
    assert make(".palinurus-work").unit.endswith("/palinurus-profile-work.service")
    other = make("elsewhere")  # no profile: it would be the usual home's
    for do in (install_service, uninstall_service):
        with pytest.raises(PalinurusError, match="runs another home"):
            do(other)
    assert os.path.isfile(make(".palinurus").unit) and other.kind is not NODE
