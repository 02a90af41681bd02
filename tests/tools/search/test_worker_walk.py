"""The walk: order, links, and what is left out."""

from __future__ import annotations

import os
from pathlib import Path

from palinurus.tools.search.worker import open_regular, walk_folder


def names(folder: Path, barred: frozenset[tuple[int, int]] = frozenset()) -> list[str]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        return ["/".join(f.path) + ("/" if f.folder else "") for f in walk_folder(handle, barred, ())]
    finally:
        os.close(handle)


def test_depth_first_in_order_without_git_and_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_text("")
    (tmp_path / "a").write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("")
    (tmp_path / "c").symlink_to("b")
    assert names(tmp_path) == ["a", "b/", "b/x", "c"]


def test_gitignore_prunes_and_nests(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("out/\n*.tmp\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_text("!keep.tmp\n")
    (tmp_path / "sub" / "keep.tmp").write_text("")
    (tmp_path / "sub" / "x.tmp").write_text("")
    assert names(tmp_path) == [".gitignore", "sub/", "sub/.gitignore", "sub/keep.tmp"]


def test_barred_folders_by_identity(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "key").write_text("")
    status = (tmp_path / "state").stat()
    assert names(tmp_path, frozenset({(status.st_dev, status.st_ino)})) == []


def test_bottomless_trees_end_and_handles_are_closed(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(80):
        deep = deep / "d"
        deep.mkdir()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert len(names(tmp_path)) == 64
    assert before in (0, len(os.listdir("/proc/self/fd")))


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        assert [open_regular(handle, name) for name in ("link", "pipe", "none", ".")] == [None] * 4
    finally:
        os.close(handle)
