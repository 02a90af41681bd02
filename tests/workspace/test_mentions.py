"""Files by what is typed after an @."""

from __future__ import annotations

from pathlib import Path

from palinurus.workspace.mentions import find_files, list_files


def test_the_nearest_come_first_and_letters_may_be_left_out() -> None:
    files = ["docs/app.md", "src/app.py", "src/deep/map.py", "notes.txt"]
    assert find_files(files, "APP", 9) == ["src/app.py", "docs/app.md", "src/deep/map.py"]
    assert find_files(files, "", 1) == ["notes.txt"] and find_files(files, "zebra", 9) == []


def test_files_of_a_folder_without_hidden_ones_and_links(tmp_path: Path) -> None:
    for name in ("a.txt", "src/b.py", ".git/config", "node_modules/x/y.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "out").symlink_to("/etc")
    assert sorted(list_files(str(tmp_path))) == ["a.txt", "src/b.py"]
    assert list_files(str(tmp_path / "missing")) == []
