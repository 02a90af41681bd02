"""Transcript files behind the journal: torn ends, files that cannot be written, nothing doubled (I7, F6, F7)."""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.clock import SystemClock
from palinurus.store.port import RunClaim, Store, TranscriptLine
from palinurus.store.sqlite import open_sqlite_store, schema
from palinurus.store.sqlite.journal import TAIL, TranscriptJournal, forget_lines, insert_lines
from palinurus.testing.conformance.inbox import FILE, make_item, make_line
from store.sqlite.processes import child

LINES = [TranscriptLine(FILE, f"e{n}", b'{"id":"e%d","text":"%s"}' % (n, "zwölf Krebse".encode())) for n in range(4)]
WHOLE = b"".join(each.data + b"\n" for each in LINES)


def journaled(lines: list[TranscriptLine]) -> sqlite3.Connection:
    conn = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate_schema(conn, "x")
    insert_lines(conn, lines)
    return conn


def written(home: Path, content: bytes) -> Path:
    path = home / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_file_cut_at_every_byte_of_its_last_two_lines_is_whole_again(tmp_path: Path) -> None:
    conn = journaled(LINES[2:])
    start = len(WHOLE) - sum(len(each.data) + 1 for each in LINES[2:])
    for end in range(start, len(WHOLE) + 1):
        path = written(tmp_path, WHOLE[:end])
        assert TranscriptJournal(str(tmp_path)).recover(conn) == 1
        assert path.read_bytes() == WHOLE, end
        assert TranscriptJournal(str(tmp_path)).recover(conn) == 1  # twice changes nothing
        assert path.read_bytes() == WHOLE, end


@given(st.binary(max_size=60))
def test_whatever_the_end_looks_like_our_lines_stand_alone(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = written(home, WHOLE[:20] + tail)
    TranscriptJournal(str(home)).recover(journaled(LINES[2:]))
    assert path.read_bytes().startswith(WHOLE[:20] + tail)  # append only
    assert path.read_bytes().split(b"\n")[-3:] == [LINES[2].data, LINES[3].data, b""]


def test_lines_far_from_the_end_are_found(tmp_path: Path) -> None:
    later = b'{"id":"big","text":"' + b"x" * (TAIL + 10) + b'"}\n'
    path = written(tmp_path, WHOLE + later)
    TranscriptJournal(str(tmp_path)).recover(journaled([LINES[1]]))
    assert path.read_bytes() == WHOLE + later


def test_an_id_inside_another_entry_is_not_the_entry(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"id":"e0","parentId":"e1"}\n{"x":{"id":"e1"}}\n["e1"]\n{"id":1}\nnot json\n')
    TranscriptJournal(str(tmp_path)).recover(journaled([LINES[1]]))
    assert path.read_bytes().endswith(b"not json\n" + LINES[1].data + b"\n")


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    TranscriptJournal(str(tmp_path)).recover(journaled(LINES))
    assert (tmp_path / FILE).read_bytes() == WHOLE


def test_rows_go_only_after_the_sync(tmp_path: Path) -> None:
    conn = journaled(LINES)
    journal = TranscriptJournal(str(tmp_path))
    journal.recover(conn)
    assert conn.execute("SELECT count(*) FROM journal").fetchone() == (4,)
    forget_lines(conn, journal.sync(8))
    assert conn.execute("SELECT count(*) FROM journal").fetchone() == (0,)
    assert not journal.pending


def test_a_removed_file_is_not_brought_back(tmp_path: Path) -> None:
    conn = journaled(LINES)
    journal = TranscriptJournal(str(tmp_path))
    journal.recover(conn)
    (tmp_path / FILE).unlink()
    forget_lines(conn, journal.sync(8))
    journal.recover(conn)
    assert not (tmp_path / FILE).exists()


# --- through the store --------------------------------------------------------------------------------------------


async def running(home: Path) -> tuple[Store, RunClaim]:
    store = await open_sqlite_store(str(home), SystemClock())
    held = (await store.accept(make_item("m1"), claim=True)).claim
    assert held is not None
    return store, held


async def test_a_line_is_never_glued_to_a_torn_end(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"id":"old"}\n{"id":"tor')
    store, held = await running(tmp_path)
    await store.append(held, [make_line("e1")])
    assert path.read_bytes() == b'{"id":"old"}\n{"id":"tor\n' + make_line("e1").data + b"\n"
    await store.close()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def taken(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("block", [device, pipe, taken])
async def test_a_file_that_cannot_be_written_fails_nobody(
    tmp_path: Path, block, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    block(path)
    store, held = await running(tmp_path)
    other = make_line("x1", "agents/main/sessions/other.jsonl")
    with caplog.at_level(logging.ERROR):
        await store.append(held, [make_line("e1"), other])
        await store.append(held, [make_line("e2")])
    assert "cannot be written" in caplog.text
    assert (tmp_path / other.path).read_bytes() == other.data + b"\n"
    path.rmdir() if block is taken else path.unlink()
    await store.append(held, [make_line("e3")])
    assert path.read_bytes() == b"".join(make_line(e).data + b"\n" for e in ("e1", "e2", "e3"))
    await store.close()


async def test_what_could_not_be_written_is_written_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.mkdir(parents=True)
    store, held = await running(tmp_path)
    await store.append(held, [make_line("e1")])
    await store.close()
    path.rmdir()
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    await store.recover()
    assert path.read_bytes() == make_line("e1").data + b"\n"
    await store.close()


def test_a_write_cut_short_leaves_no_half_line(tmp_path: Path) -> None:
    done = child("small", tmp_path / "home")
    assert done.stdout.splitlines() == ["size True", "DiskFull", "tail True"], done.stderr
