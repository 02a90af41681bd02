"""Which bytes are on the disk before whom is told what: the system calls of a whole turn, in order, by strace."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.database import locate_database, open_for_writing
from palinurus.testing.conformance.inbox import make_item, make_line
from store.sqlite.processes import command

CALL = re.compile(r"\b(fsync|fdatasync|write|pwrite64|unlink|close)\((\d+)<([^>]*)>(.*)")
SESSIONS = "agents/main/sessions"


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What `child.py turns` did: `sync NAME` with the name below home, and the words it said."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    home, log = tmp_path_factory.mktemp("disk") / "home", tmp_path_factory.mktemp("log") / "calls"
    watch = ["strace", "-f", "-y", "-s", "64", "-o", str(log), "-e", "trace=fsync,fdatasync,write"]
    done = subprocess.run([*watch, *command("turns", home)], capture_output=True, text=True, timeout=120)
    if "ptrace" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("strace may not look here")
    assert done.stdout.splitlines()[-1] == "closed", done.stderr
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = CALL.search(line)
        if match is None:
            continue
        name, number, path, rest = match.groups()
        if name in ("fsync", "fdatasync"):
            found.append(f"sync {Path(path).relative_to(home) if path.startswith(str(home)) else path}")
        elif number == "1":
            found.append(rest.split('"')[1].removesuffix("\\n"))
    return found


def between(calls: list[str], begin: str, end: str) -> list[str]:
    return calls[calls.index(begin) + 1 : calls.index(end)]


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("recovered", "accepted m1"),
        ("accepted m1", "accepted m2"),
        ("accepted m2", "appended e1"),
        ("appended e1", "settled m1"),
        ("settled m1", "sending r1"),
        ("sending r1", "delivered r1"),
    ],
)
def test_nobody_is_told_before_the_log_is_on_disk(calls: list[str], begin: str, end: str) -> None:
    assert "sync state.db-wal" in between(calls, begin, end)


def test_transcripts_and_their_folders_are_on_disk_before_the_journal_forgets_them(calls: list[str]) -> None:
    """The file, the folder that got it, every folder that was made for it; then the commit that deletes the rows."""
    last = between(calls, "delivered r1", "closed")
    synced = [last.index(f"sync {name}") for name in (f"{SESSIONS}/a.jsonl", SESSIONS, "agents/main", "agents", ".")]
    assert max(synced) < max(at for at, call in enumerate(last) if call in ("sync state.db-wal", "sync state.db"))


def test_the_database_is_opened_for_power_cuts(tmp_path: Path) -> None:
    with closing(open_for_writing(str(tmp_path))) as conn:
        assert conn.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert conn.execute("PRAGMA fullfsync").fetchone() == (1,)
        assert conn.execute("PRAGMA busy_timeout").fetchone() == (5000,)
        assert conn.execute("PRAGMA journal_size_limit").fetchone() == (16777216,)


async def test_after_an_orderly_end_nothing_is_left_in_the_journal(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    held = (await store.accept(make_item("m1"), claim=True)).claim
    assert held is not None
    files = [make_line(f"e{n}", f"{SESSIONS}/s{n}.jsonl") for n in range(20)]  # more than are synced in one go
    await store.append(held, files)
    await store.close()
    with closing(sqlite3.connect(locate_database(str(tmp_path)))) as conn:
        assert conn.execute("SELECT count(*) FROM journal").fetchone() == (0,)
    assert not (tmp_path / "state.db-wal").exists()
    assert len(list((tmp_path / SESSIONS).iterdir())) == 20
