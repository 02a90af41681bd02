"""Files of our own: whole or not at all, and only plain ones are read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from palinurus.files import NotPlainFile, find_real_path, read_plain_file, write_whole_file


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "a"
    path.write_text("old and longer")
    write_whole_file(str(path), b"new", sync=sync)
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["a"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole_file(str(tmp_path / "folder"), b"x")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_link_is_replaced_or_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("1")
    link.symlink_to(real)
    write_whole_file(str(link), b"2", follow=True)
    assert real.read_text() == "2" and link.is_symlink()
    write_whole_file(str(link), b"3")
    assert real.read_text() == "2" and not link.is_symlink()


def test_only_plain_files_up_to_the_limit_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_plain_file(str(tmp_path / "a"), 5) == b"12345"
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    for name, most in (("a", 4), ("pipe", 5), (".", 5)):
        with pytest.raises(OSError):
            read_plain_file(str(tmp_path / name), most)
    with pytest.raises(OSError):
        read_plain_file(str(tmp_path / "link"), 5)
    assert issubclass(NotPlainFile, OSError)
    handle = os.open(tmp_path, os.O_RDONLY)
    assert read_plain_file("a", 9, folder=handle) == b"12345"
    os.close(handle)


def test_a_folder_is_not_read_and_leaves_no_handle_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(NotPlainFile, match="not a regular file"):
        read_plain_file(str(tmp_path), 9)
    assert os.listdir("/proc/self/fd") == before


def test_a_real_path_by_handle_is_the_one_by_names(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "away (deleted)").mkdir()
    os.mkfifo(real / "pipe")
    named = ("link", "link/pipe", "link/../link", "loop", "none/below", "away (deleted)", "link/\udcff")
    for path in (*(str(tmp_path / name) for name in named), "/", "/proc/self/fd", "/dev/null"):
        assert find_real_path(path) == os.path.realpath(path)
