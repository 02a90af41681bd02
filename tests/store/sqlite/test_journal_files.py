"""The journal by itself: what counts as pending, one file made complete, files that are gone, descriptors."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from palinurus.errors import StateUnwritable
from palinurus.store.port import TranscriptLine
from palinurus.store.sqlite import schema
from palinurus.store.sqlite.journal import TranscriptJournal, forget_lines, insert_lines
from palinurus.testing.conformance.inbox import FILE, make_line

OTHER = "agents/main/sessions/other.jsonl"


class Rig:
    def __init__(self, home: Path) -> None:
        self.home, self.conn = home, sqlite3.connect(":memory:", isolation_level=None)
        schema.migrate_schema(self.conn, "x")
        self.journal = TranscriptJournal(str(home))

    def write(self, *lines: TranscriptLine) -> None:
        self.journal.write(insert_lines(self.conn, lines), self.conn)

    def kept(self, path: str = FILE) -> int:
        (count,) = self.conn.execute("SELECT count(*) FROM journal WHERE path = ?", (path,)).fetchone()
        return int(count)

    def read(self, path: str = FILE) -> list[str]:
        return [line.partition(b'"id":"')[2].partition(b'"')[0].decode() for line in self.raw(path).splitlines()]

    def raw(self, path: str = FILE) -> bytes:
        return (self.home / path).read_bytes()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def block(home: Path, path: str = FILE) -> Path:
    """A folder where the file should be."""
    (home / path).mkdir(parents=True)
    return home / path


def test_what_was_written_is_pending_until_it_is_synced(rig: Rig) -> None:
    assert rig.journal.pending is False
    rig.write(make_line("e1"), make_line("e2"), make_line("x1", OTHER))
    assert rig.journal.pending is True and rig.journal.rows == 3
    forget_lines(rig.conn, rig.journal.sync(1))
    assert rig.journal.pending is True and rig.journal.rows == 3 and (rig.kept(), rig.kept(OTHER)) == (0, 1)
    forget_lines(rig.conn, rig.journal.sync(1))
    assert rig.journal.pending is False and rig.journal.rows == 0 and rig.kept(OTHER) == 0
    assert rig.journal.sync(8) == []


def test_what_cannot_be_written_is_pending_until_it_can(rig: Rig, tmp_path: Path) -> None:
    folder = block(tmp_path)
    rig.write(make_line("e1"))
    assert rig.journal.pending is True and FILE in rig.journal.stuck and rig.journal.sync(8) == []
    assert rig.journal.mend(FILE, rig.conn) is False and rig.kept() == 1
    folder.rmdir()
    assert rig.journal.mend(FILE, rig.conn) is True and rig.read() == ["e1"] and not rig.journal.stuck
    assert rig.journal.sync(8) == [(FILE, 1)]


def test_nothing_to_mend_is_no_trouble(rig: Rig) -> None:
    rig.journal.stuck[FILE] = "it was full"
    assert rig.journal.mend(FILE, rig.conn) is True and not rig.journal.stuck and not (rig.home / FILE).exists()


def test_somebodys_half_line_behind_all_of_ours_stays(rig: Rig) -> None:
    rig.write(make_line("e1"))
    with open(rig.home / FILE, "ab") as file:
        file.write(b'{"id":"tor')
    assert rig.journal.recover(rig.conn) == 1
    assert rig.raw() == make_line("e1").data + b'\n{"id":"tor'


def test_lines_of_several_files_go_to_their_own_in_order(rig: Rig) -> None:
    rig.write(make_line("e1"), make_line("x1", OTHER), make_line("e2"))
    rig.write(make_line("x2", OTHER))
    assert (rig.read(), rig.read(OTHER)) == (["e1", "e2"], ["x1", "x2"])


def test_the_first_line_after_a_trouble_waits_for_those_before_it(rig: Rig, tmp_path: Path) -> None:
    folder = block(tmp_path)
    rig.write(make_line("e1"))
    folder.rmdir()
    rig.write(make_line("e2"))
    assert rig.read() == ["e1", "e2"]


# --- one file made complete


def test_a_file_is_complete_when_it_is_synced_whatever_else_waits(rig: Rig) -> None:
    rig.write(make_line("x1", OTHER), make_line("e1"))
    rig.journal.complete(FILE, rig.conn)
    assert (rig.kept(), rig.kept(OTHER)) == (0, 1) and list(rig.journal.touched) == [OTHER]
    rig.journal.complete(FILE, rig.conn)  # twice is once
    assert rig.read() == ["e1"]


def test_a_file_is_completed_from_rows_that_another_process_left(rig: Rig) -> None:
    insert_lines(rig.conn, [make_line("e1"), make_line("e2")])
    rig.journal.complete(FILE, rig.conn)
    assert rig.read() == ["e1", "e2"] and rig.kept() == 0 and not rig.journal.touched


def test_rows_that_are_not_in_the_file_yet_are_completed_too(rig: Rig) -> None:
    rig.write(make_line("e1"))
    insert_lines(rig.conn, [make_line("e2")])  # of the transaction that is open
    rig.journal.complete(FILE, rig.conn)
    assert rig.read() == ["e1", "e2"] and rig.kept() == 0


def test_a_file_that_cannot_be_completed_is_an_error_and_forgets_nothing(rig: Rig, tmp_path: Path) -> None:
    block(tmp_path)
    rig.write(make_line("e1"))
    with pytest.raises(StateUnwritable, match="cannot be written"):
        rig.journal.complete(FILE, rig.conn)
    assert rig.kept() == 1


def test_a_file_that_was_dropped_never_comes_back(rig: Rig, tmp_path: Path) -> None:
    rig.write(make_line("e1"), make_line("x1", OTHER))
    folder = block(tmp_path, "agents/main/sessions/stuck.jsonl")
    rig.write(make_line("s1", "agents/main/sessions/stuck.jsonl"))
    for path in (FILE, "agents/main/sessions/stuck.jsonl"):
        rig.journal.drop(path, rig.conn)
    (tmp_path / FILE).unlink()
    folder.rmdir()
    assert list(rig.journal.touched) == [OTHER] and not rig.journal.stuck
    assert rig.journal.recover(rig.conn) == 1
    assert not (tmp_path / FILE).exists() and not folder.exists() and rig.kept(OTHER) == 1


# --- the disk


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_no_descriptor_is_left_open(rig: Rig, tmp_path: Path) -> None:
    block(tmp_path, OTHER)
    before = descriptors()
    for n in range(5):
        rig.write(make_line(f"e{n}"), make_line(f"x{n}", OTHER))
        rig.journal.sync(8)
        rig.journal.mend(OTHER, rig.conn)
    assert descriptors() == before


def test_a_file_that_cannot_be_opened_for_the_sync_is_tried_again(rig: Rig, tmp_path: Path) -> None:
    rig.write(make_line("e1"), make_line("x1", OTHER))
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to(tmp_path / FILE)  # leads nowhere
    assert rig.journal.sync(8) == [(OTHER, 2)]
    assert FILE in rig.journal.stuck and rig.journal.pending
    (tmp_path / FILE).unlink()
    assert rig.journal.mend(FILE, rig.conn) and rig.read() == ["e1"]


def test_new_folders_are_ours_alone(rig: Rig) -> None:
    rig.write(make_line("e1"))
    for name in ("agents", "agents/main", "agents/main/sessions"):
        assert (rig.home / name).stat().st_mode & 0o777 == 0o700
    assert (rig.home / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "path", ["state.db", "state.db-wal", "gateway.lock", "../x", "a//b", "/etc/x", "a/../b", "a\0b", ""]
)
def test_lines_go_nowhere_else(rig: Rig, path: str) -> None:
    with pytest.raises(Exception, match="not a transcript path"):
        insert_lines(rig.conn, [make_line("e1", path)])
