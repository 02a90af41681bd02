from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from palinurus.workspace.bootstrap import init_repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git here")


def test_a_workspace_gets_a_repository_without_commits(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x")
    assert init_repository(str(tmp_path)) == [str(tmp_path / ".git"), str(tmp_path / ".gitignore")]
    log = subprocess.run(["git", "-C", str(tmp_path), "log"], capture_output=True, text=True)
    assert log.returncode != 0
    assert not list((tmp_path / ".git").glob("hooks/*"))
    assert ".env" in (tmp_path / ".gitignore").read_text()
    assert init_repository(str(tmp_path)) == []


def test_one_inside_another_is_left_alone(tmp_path: Path) -> None:
    init_repository(str(tmp_path))
    (tmp_path / "inner").mkdir()
    assert init_repository(str(tmp_path / "inner")) == []
    assert not (tmp_path / "inner" / ".git").exists()


def test_an_own_gitignore_stays(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine")
    assert init_repository(str(tmp_path)) == [str(tmp_path / ".git")]
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_no_git_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert init_repository(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
