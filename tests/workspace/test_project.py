from __future__ import annotations

from pathlib import Path

from palinurus.workspace.project import ProjectFiles


def test_what_a_project_says(tmp_path: Path) -> None:
    files = ProjectFiles()
    assert files.read(str(tmp_path), 100, 1000) == ()
    (tmp_path / "AGENTS.md").write_text("use tabs\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert [(one.name, one.text) for one in files.read(str(tmp_path), 100, 1000)] == [("AGENTS.md", "use tabs")]
    (tmp_path / "CLAUDE.md").unlink()
    (tmp_path / "CLAUDE.md").write_text("x" * 5000)
    cut = files.read(str(tmp_path), 200, 1000)[1]
    assert cut.name == "CLAUDE.md" and cut.truncated and len(cut.text) <= 200


def test_a_link_that_leaves_the_project_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "secret").write_text("the key")
    (tmp_path / "p" / "AGENTS.md").symlink_to("../secret")
    assert ProjectFiles().read(str(tmp_path / "p"), 100, 1000) == ()
