"""Transcript files on disk: whole or not at all, modes, archives and their times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palinurus.errors import StateUnwritable
from palinurus.sessions.files import (
    SessionFile,
    append_lines,
    archive_file,
    list_session_files,
    parse_archive_time,
    place_file,
    remove_file,
)
from palinurus.sessions.transcript import read_transcript
from palinurus.store.port import TranscriptLine

PATH = "agents/main/sessions/s.jsonl"
NOW = 1_781_082_001_000


def test_place_makes_private_folders_and_files(tmp_path: Path) -> None:
    place_file(str(tmp_path), PATH, b"a\n")
    place_file(str(tmp_path), PATH, b"b\n")
    file = tmp_path / PATH
    assert file.read_bytes() == b"b\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in file.parent.iterdir()] == ["s.jsonl"]


def test_place_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file")
    with pytest.raises(StateUnwritable, match="cannot be written"):
        place_file(str(tmp_path), PATH, b"a\n")


def test_append_ends_a_torn_line_first(tmp_path: Path) -> None:
    place_file(str(tmp_path), PATH, b'{"type":"ses')
    line = b'{"type":"message","id":"aaaaaaaa","parentId":null,"message":{"role":"user","content":"hi"}}'
    append_lines(str(tmp_path), [TranscriptLine(PATH, "aaaaaaaa", line)])
    assert (tmp_path / PATH).read_bytes() == b'{"type":"ses\n' + line + b"\n"
    assert [m.text for m in read_transcript(str(tmp_path / PATH)).messages()] == ["hi"]


def test_append_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "agents/main/sessions").mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("x")
    os.symlink(tmp_path / "elsewhere", tmp_path / PATH)
    with pytest.raises(StateUnwritable):
        append_lines(str(tmp_path), [TranscriptLine(PATH, "a", b"{}")])
    assert (tmp_path / "elsewhere").read_text() == "x"
    assert list_session_files(str(tmp_path)) == []


def test_archive_never_overwrites(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        place_file(str(tmp_path), PATH, b"a\n")
        names.append(archive_file(str(tmp_path), PATH, "reset", NOW))
    assert names[0] == f"{PATH}.reset.2026-06-10T09-00-01.000Z"
    assert len(set(names)) == 3
    assert [parse_archive_time(name) for name in names] == [NOW] * 3
    assert archive_file(str(tmp_path), PATH, "reset", NOW) == ""
    assert remove_file(str(tmp_path), names[0])
    assert not remove_file(str(tmp_path), names[0])
    assert len(list_session_files(str(tmp_path))) == 2


@pytest.mark.parametrize(
    "name",
    ["s.jsonl", "s.jsonl.reset", "s.jsonl.reset.yesterday", "s.jsonl.deleted.2026-99-10T09-00-01.000Z", "x.bak"],
)
def test_names_that_are_no_archives(name: str) -> None:
    assert parse_archive_time(name) is None


def test_listing(tmp_path: Path) -> None:
    assert list_session_files(str(tmp_path)) == []
    place_file(str(tmp_path), PATH, b"abc\n")
    place_file(str(tmp_path), "agents/work/sessions/t.jsonl", b"")
    (tmp_path / "agents/main/sessions/folder").mkdir()
    (tmp_path / "agents/stray").write_text("")
    os.utime(tmp_path / PATH, ns=(0, NOW * 1_000_000))
    first, second = list_session_files(str(tmp_path))
    assert first == SessionFile(PATH, 4, NOW)
    assert (second.agent, second.name) == ("work", "t.jsonl")
