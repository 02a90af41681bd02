"""Where a chat on this line works, and which session it means."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from palinurus.cli.access.folders import run_folders
from palinurus.cli.agent import run_agent
from palinurus.cli.args import CommandParser, load_settings
from palinurus.cli.here import add_place_args, find_place, make_folder_key
from palinurus.errors import BadRequest, NotFound
from palinurus.workspace.folders import find_leave, keep_leave


@pytest.fixture
def project(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "code" / "Pro ject"
    (folder / ".git").mkdir(parents=True)
    (folder / "deep").mkdir()
    (folder / "app.py").write_text("print(1)")
    monkeypatch.chdir(folder / "deep")
    return folder


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert run_agent(["--local", "-m", "list files", *argv]) == 0
    return capsys.readouterr().out


def test_without_leave_and_nobody_to_ask_it_is_the_home_workspace(
    demo: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "app.py" not in run(capsys)
    assert find_leave(str(demo), str(project)) is None


def test_here_is_the_repository_and_is_remembered(
    demo: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "app.py" in run(capsys, "--here")
    assert "app.py" in run(capsys)  # from now on unasked
    assert "app.py" not in run(capsys, "--home-workspace")
    assert not (project / "SOUL.md").exists()
    assert run_folders([]) == 0
    assert str(project) in capsys.readouterr().out
    assert run_folders(["revoke", ".."]) == 0
    capsys.readouterr()
    assert "app.py" not in run(capsys)
    with pytest.raises(NotFound):
        run_folders(["revoke", ".."])


def test_a_folder_by_name_and_its_own_session(demo: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = project.parent / "other"
    other.mkdir()
    (other / "only.txt").write_text("x")
    assert "only.txt" in run(capsys, "-C", str(other))
    assert "app.py" in run(capsys, "-C", str(project))
    assert "only.txt" in run(capsys, "--resume", "here:other-" + _hash(other))
    with pytest.raises(BadRequest, match="which session"):
        run_agent(["--local", "-m", "x", "--resume"])
    with pytest.raises(NotFound):
        run_agent(["--local", "-m", "x", "--resume", "nosuchthing"])
    assert "app.py" in run(capsys, "--continue")
    assert run_agent(["--local", "-m", "hi", "-C", str(project), "--session", "here:other-" + _hash(other)]) == 1
    assert "works in" in capsys.readouterr().err


def test_a_session_is_found_by_what_was_said_in_it(
    demo: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_agent(["--local", "-m", "run echo zebrafish", "--here"]) == 0
    assert run_agent(["--local", "-m", "hello", "--home-workspace"]) == 0
    capsys.readouterr()
    assert "app.py" in run(capsys, "--resume", "zebrafish")


@pytest.mark.parametrize("path", ["/", "~", "/etc", "/nowhere/at/all"])
def test_no_folder_to_work_in(demo: Path, project: Path, path: str) -> None:
    with pytest.raises(BadRequest):
        run_agent(["--local", "-m", "x", "-C", path])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("said", "there"), [("y\n", True), ("\n", False)])
def test_the_person_is_asked_once(
    said: str,
    there: bool,
    demo: Path,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parser = CommandParser("x")
    parser.add_argument("--agent", default="")
    add_place_args(parser)
    loaded = load_settings(os.environ)
    monkeypatch.setattr(sys, "stdin", Terminal(said))
    found = find_place(parser.parse_args([]), loaded, os.environ, person=True)
    assert "Work in" in capsys.readouterr().out and bool(found.folder) is there
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert find_place(parser.parse_args([]), loaded, os.environ, person=True) == found
    assert "Work in" not in capsys.readouterr().out


def _hash(folder: Path) -> str:
    return make_folder_key("main", str(folder)).rest.rpartition("-")[2]


def test_a_leave_for_another_folder_of_that_name_is_none(
    demo: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_leave(str(demo), str(project), 1)
    moved = project.with_name("moved")
    project.rename(moved)
    (project / ".git").mkdir(parents=True)
    os.chdir(project)
    assert "app.py" not in run(capsys)
    assert run_folders(["list"]) == 0
    assert "another folder" in capsys.readouterr().out
