"""What is granted of the system, and what is cut out of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from palinurus.tools.sandbox import system
from palinurus.tools.sandbox.layout import cover_around


def tree(root: Path) -> Path:
    for path in ("a/x", "a/y", "b/c/d", "b/c/e", "f"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    return root


def test_a_clean_folder_is_one_path(tmp_path: Path) -> None:
    tree(tmp_path)
    assert system.cover_without_secrets(str(tmp_path), lambda entry: False) == [str(tmp_path)]
    assert cover_around(str(tmp_path), ("/elsewhere",)) == [str(tmp_path)]


def test_a_secret_is_cut_out_with_as_few_paths_as_possible(tmp_path: Path) -> None:
    tree(tmp_path)
    got = system.cover_without_secrets(str(tmp_path), lambda entry: entry.name == "d")
    assert got == [str(tmp_path / path) for path in ("a", "b/c/e", "f")]
    assert cover_around(str(tmp_path), (str(tmp_path / "b/c/d"),)) == got


@pytest.mark.parametrize(
    "name", ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssl/private", "/etc/environment"]
)
def test_secrets_of_etc_are_not_granted(name: str) -> None:
    granted = system.list_readable()
    assert not any(name == path or name.startswith(path + "/") for path in granted)


def test_what_programs_need_is_granted() -> None:
    granted = system.list_readable()
    for path in ("/usr", "/proc", os.path.realpath("/etc/passwd"), os.path.realpath(sys.prefix)):
        assert any(path == one or path.startswith(one + "/") for one in granted), path
    assert "/" not in granted and "/etc" not in granted and "/root" not in granted and "/home" not in granted
    assert not any(path.startswith("/proc/") for path in granted)
    assert "/dev/null" in system.list_devices()


def test_files_that_others_may_not_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "open").write_text("")
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "closed").write_text("")
    (tmp_path / "closed").chmod(0o600)
    assert system.cover_without_secrets(str(tmp_path), system._secret) == [str(tmp_path / "open")]


def test_a_private_file_that_comes_later_is_as_private(tmp_path: Path) -> None:
    """Landlock and bubblewrap hold root by this list alone."""
    deep = tmp_path / "app" / "conf.d"
    deep.mkdir(parents=True)
    (deep / "open").write_text("")
    for path in (tmp_path, deep.parent, deep, deep / "open"):
        path.chmod(0o755)
    paths = system.OpenPaths(str(tmp_path))
    first = paths.list()
    assert first == (str(tmp_path),) and paths.list() is first
    (deep / "key").touch(0o600)
    os.utime(deep, ns=(1, 1))  # as on a file system with coarse times, a change that is only just another
    assert paths.list() == (str(deep / "open"),)
