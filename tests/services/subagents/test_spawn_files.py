"""Attachments: what is taken, and that nothing of the agents' own leads the program astray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.services.subagents import spawn
from palinurus.tools.program.subagents import SubagentAttachment


@given(st.text(max_size=30))
def test_a_name_is_taken_only_if_it_stays_in_its_folder(name: str) -> None:
    found = spawn.read_attachments([SubagentAttachment(name, "x")])
    if isinstance(found, dict):
        (kept,) = found
        assert kept == os.path.basename(kept) and kept not in ("", ".", "..") and "\\" not in kept


@pytest.mark.parametrize(
    ("given_", "word"),
    [
        ([SubagentAttachment("a", "x"), SubagentAttachment("a", "y")], "twice"),
        ([SubagentAttachment("a", "%%%", "base64")], "cannot be read"),
        ([SubagentAttachment("a", "\ud800")], "cannot be read"),
        ([SubagentAttachment("a", "x" * (spawn.USUAL.total + 1))], "more than"),
    ],
)
def test_what_is_refused(given_: list[SubagentAttachment], word: str) -> None:
    found = spawn.read_attachments(given_)
    assert isinstance(found, str) and word in found


def test_they_come_and_go(tmp_path: Path) -> None:
    folder = spawn.write_attachments(str(tmp_path), "id", {"a.txt": b"hello"})
    assert Path(folder, "a.txt").read_bytes() == b"hello" and Path(folder).stat().st_mode & 0o77 == 0
    with pytest.raises(FileExistsError):
        spawn.write_attachments(str(tmp_path), "id", {"a.txt": b"again"})
    spawn.remove_attachments(folder)
    assert not Path(folder).exists()
    spawn.remove_attachments("")


def test_no_link_is_followed(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (work / spawn.FOLDER).symlink_to(other)
    with pytest.raises(OSError):
        spawn.write_attachments(str(work), "id", {"a": b"x"})
    assert list(other.iterdir()) == []
    (other / "id").mkdir()
    spawn.remove_attachments(str(work / spawn.FOLDER / "id"))
    assert (other / "id").exists()
