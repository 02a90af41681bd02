"""Attachments: what is taken, and that nothing of the agents' own leads the program astray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.inbox.children import files
from palinurus.tools.spawn import SubagentAttachment


@given(st.text(max_size=30))
def test_a_name_is_taken_only_if_it_stays_in_its_folder(name: str) -> None:
    found = files.read_attachments([SubagentAttachment(name, "x")])
    if isinstance(found, dict):
        (kept,) = found
        assert kept == os.path.basename(kept) and kept not in ("", ".", "..") and "\\" not in kept


@pytest.mark.parametrize(
    ("given_", "word"),
    [
        ([SubagentAttachment("a", "x"), SubagentAttachment("a", "y")], "twice"),
        ([SubagentAttachment("a", "%%%", "base64")], "cannot be read"),
        ([SubagentAttachment("a", "\ud800")], "cannot be read"),
        ([SubagentAttachment("a", "x" * (files.MOST + 1))], "more than"),
    ],
)
def test_what_is_refused(given_: list[SubagentAttachment], word: str) -> None:
    found = files.read_attachments(given_)
    assert isinstance(found, str) and word in found


def test_they_come_and_go(tmp_path: Path) -> None:
    folder = files.write_attachments(str(tmp_path), "id", {"a.txt": b"hello"})
    assert Path(folder, "a.txt").read_bytes() == b"hello" and Path(folder).stat().st_mode & 0o77 == 0
    with pytest.raises(FileExistsError):
        files.write_attachments(str(tmp_path), "id", {"a.txt": b"again"})
    files.remove_attachments(folder)
    assert not Path(folder).exists()
    files.remove_attachments("")


def test_no_link_is_followed(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (work / files.FOLDER).symlink_to(other)
    with pytest.raises(OSError):
        files.write_attachments(str(work), "id", {"a": b"x"})
    assert list(other.iterdir()) == []
    (other / "id").mkdir()
    files.remove_attachments(str(work / files.FOLDER / "id"))
    assert (other / "id").exists()
