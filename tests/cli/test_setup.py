from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from palinurus.cli.setup import run_setup
from palinurus.config.load import load_config


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.mark.seed(261)
def test_makes_everything_once_and_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_setup(["--non-interactive"]) == 0
    said = capsys.readouterr().out
    first = tree(home)
    assert {"palinurus.json", "gateway.token", "workspace/AGENTS.md", "workspace/BOOTSTRAP.md"} <= set(first)
    assert all(
        f"made  {home / name}" in said for name in first if not name.endswith(".last-good") and ".git/" not in name
    )
    assert (home / "gateway.token").read_text().strip() not in said
    assert load_config(str(home), dict(os.environ)).problems == ()
    assert run_setup(["--non-interactive"]) == 0
    assert "made" not in capsys.readouterr().out
    assert tree(home) == first


def test_a_disk_without_room_leaves_no_half_config(home: Path) -> None:
    command = [sys.executable, "-m", "palinurus", "setup", "--non-interactive"]
    no_room = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0))
    done = subprocess.run(command, env={**os.environ, "PALINURUS_HOME": str(home)}, preexec_fn=no_room, check=False)
    assert done.returncode and not list(home.glob("*palinurus.json*"))


def test_changes_nothing_that_is_there(home: Path) -> None:
    (home / "workspace").mkdir(parents=True)
    (home / "palinurus.json").write_text("{ /* mine */ gateway: { port: 4242 } }")
    (home / "workspace" / "SOUL.md").write_text("mine")
    run_setup(["--non-interactive"])
    assert (home / "palinurus.json").read_text() == "{ /* mine */ gateway: { port: 4242 } }"
    assert (home / "workspace" / "SOUL.md").read_text() == "mine"


def test_workspace_goes_to_the_config_and_keeps_its_comments(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    run_setup(["--non-interactive", "--workspace", str(place)])
    assert load_config(str(home), dict(os.environ)).settings.agents["main"].workspace == str(place)
    assert (place / "AGENTS.md").exists()
    assert "//" in (home / "palinurus.json").read_text()
    before = tree(home)
    run_setup(["--non-interactive", "--workspace", str(place)])
    assert tree(home) == before


def test_nothing_is_readable_by_others_even_with_umask_000(home: Path) -> None:
    os.umask(0)
    run_setup(["--non-interactive"])
    loose = [p for p in [home, *home.rglob("*")] if stat.S_IMODE(p.stat().st_mode) & 0o077]
    assert loose == []
