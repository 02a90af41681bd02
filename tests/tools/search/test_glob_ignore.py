""".gitignore rules, compared with git itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from palinurus.tools.search.glob import is_ignored, parse_ignore_file

TEXT = """
# a comment
*.log
!keep.log
/top
build/
docs/*.txt
**/deep/x
\\#name
\\!bang
trailing   
a/**/z
"""
PATHS = (
    "a.log", "sub/b.log", "keep.log", "sub/keep.log", "top", "sub/top", "build/", "sub/build/", "build2",
    "docs/a.txt", "docs/sub/a.txt", "deep/x", "q/deep/x", "q/deep/y", "#name", "!bang", "trailing", "a/z",
    "a/b/c/z", "b/a/z", "comment", "plain.txt",
)  # fmt: skip


def outcome(path: str) -> bool:
    return is_ignored(path.rstrip("/").split("/"), path.endswith("/"), [parse_ignore_file(TEXT, 0)])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the reference")
def test_as_git_does(tmp_path: Path) -> None:
    run = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(tmp_path)]
    subprocess.run([*run, "init", "-q"], check=True)
    (tmp_path / ".gitignore").write_text(TEXT)
    for path in PATHS:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            target.mkdir(exist_ok=True)
    for path in PATHS:
        code = subprocess.run([*run, "check-ignore", "-q", "--", path], check=False).returncode
        assert outcome(path) == (code == 0), path


def test_nearer_files_win() -> None:
    outer, inner = parse_ignore_file("*.txt", 0), parse_ignore_file("!a.txt", 1)
    assert not is_ignored(["sub", "a.txt"], False, [outer, inner])
    assert is_ignored(["sub", "b.txt"], False, [outer, inner])


def test_files_above_the_start_see_the_path_from_their_own_folder() -> None:
    above = parse_ignore_file("/sub/secret", 0, ("sub",))
    assert is_ignored(["secret"], False, [above])
    assert not is_ignored(["x", "secret"], False, [above])


def test_nonsense_is_skipped() -> None:
    assert parse_ignore_file("\n/\n!\n#\n" + "x" * 2000, 0).rules == ()
