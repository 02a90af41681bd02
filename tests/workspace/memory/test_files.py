"""Which files are memory; nothing else is read or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palinurus.workspace.memory.files import MemoryRoots


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "memory" / "deep").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("long")
    (folder / "memory" / "2026-01-31.md").write_text("day")
    (folder / "memory" / "deep" / "x.md").write_text("deep")
    (folder / "memory" / "x.txt").write_text("no markdown")
    (folder / "AGENTS.md").write_text("no memory")
    (tmp_path / "secret.md").write_text("secret")
    return folder


def test_the_files(workspace: Path) -> None:
    found = [entry.path for entry in MemoryRoots(str(workspace)).scan()]
    assert found == ["MEMORY.md", "memory/2026-01-31.md", "memory/deep/x.md"]


def test_extra_paths(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "n.md").write_text("n")
    roots = MemoryRoots(str(workspace), (str(tmp_path / "notes"), "AGENTS.md", "memory"))
    assert [entry.path for entry in roots.scan()][3:] == [str(tmp_path / "notes" / "n.md"), "AGENTS.md"]
    assert roots.read(roots.real("AGENTS.md") or "") == b"no memory"


@pytest.mark.parametrize(
    "path",
    ["", " ", "AGENTS.md", "../secret.md", "memory/../AGENTS.md", "memory/x.txt", "/etc/passwd", "memory", "a\0.md",
     "memory/../../secret.md", "x" * 5000 + ".md", "\ud800.md"],
)  # fmt: skip
def test_what_is_no_memory(workspace: Path, path: str) -> None:
    assert MemoryRoots(str(workspace)).real(path) is None


def test_links_lead_nowhere_else(workspace: Path, tmp_path: Path) -> None:
    (workspace / "memory" / "out.md").symlink_to(tmp_path / "secret.md")
    (workspace / "memory" / "folder").symlink_to(tmp_path)
    (workspace / "memory" / "inside.md").symlink_to(workspace / "MEMORY.md")
    roots = MemoryRoots(str(workspace))
    assert roots.real("memory/out.md") is None and roots.real("memory/folder/secret.md") is None
    assert roots.real("memory/inside.md") == os.path.realpath(workspace / "MEMORY.md")
    assert len(list(roots.scan())) == 3


def test_a_link_planted_after_the_judgement_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    roots = MemoryRoots(str(workspace))
    real = roots.real("memory/deep/x.md")
    assert real is not None
    (workspace / "memory" / "deep" / "x.md").unlink()
    (workspace / "memory" / "deep").rmdir()
    (tmp_path / "x.md").write_text("secret")
    (workspace / "memory" / "deep").symlink_to(tmp_path)
    with pytest.raises(OSError):
        roots.read(real)
    with pytest.raises(OSError):
        roots.replace(real, b"planted")
    assert (tmp_path / "x.md").read_text() == "secret"


def test_a_pipe_does_not_hang(workspace: Path) -> None:
    os.mkfifo(workspace / "memory" / "pipe.md")
    roots = MemoryRoots(str(workspace))
    assert len(list(roots.scan())) == 3
    with pytest.raises(OSError):
        roots.read(roots.real("memory/pipe.md") or "")


def test_replacing_keeps_the_mode_and_makes_folders(workspace: Path) -> None:
    roots = MemoryRoots(str(workspace))
    (workspace / "MEMORY.md").chmod(0o640)
    roots.replace(roots.real("MEMORY.md") or "", b"new")
    assert (workspace / "MEMORY.md").read_text() == "new"
    assert (workspace / "MEMORY.md").stat().st_mode & 0o777 == 0o640
    roots.replace(roots.real("memory/a/b.md") or "", b"made")
    assert (workspace / "memory" / "a" / "b.md").read_text() == "made"
    assert not [name for name in os.listdir(workspace) if name.endswith(".tmp")]
