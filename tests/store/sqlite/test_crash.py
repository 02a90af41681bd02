"""kill -9 at each of the store's crash points, and power loss at any moment (F1, F2, F4)."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.store.port import InboxItem, Store
from palinurus.store.sqlite import open_sqlite_store
from palinurus.testing.conformance.inbox import claim_one
from store.sqlite.child import A, line, turns
from store.sqlite.processes import child, command

POINTS = [
    *("accept.before:1", "accept.before:2", "accept.after:1", "accept.after:2"),
    *("journal.before:1", "journal.after:1", "journal.before:2", "journal.after:2"),
    *("settle.before", "settle.after", "outbox.claimed", "outbox.receipt"),
]


async def check(store: Store, home: Path, told: set[tuple[str, ...]]) -> None:
    """What was acknowledged is there, and a turn is wholly settled or not at all."""
    for ident in ("m1", "m2"):
        assert ("accepted", ident) not in told or await store.item(ident) is not None
    first = await store.item("m1")
    done = first is not None and first.state == "done"
    assert done or ("settled", "m1") not in told
    assert len(await store.list_usage(0)) == done
    file = home / A
    lines = file.read_bytes().split(b"\n") if file.exists() else [b""]
    assert lines in ([b""], [line("e1").data, b""], [line("e1").data, line("e2").data, b""])
    assert ("appended", "e1") not in told or len(lines) > 1
    assert (len(lines) == 3) == done
    parts = await store.list_due_replies("fake", 99)
    if ("delivered", "r1") in told:
        assert parts == []
    elif ("sending", "r1") in told:
        assert [p.state for p in parts] in (["sending"], [])
    elif done:
        assert [p.state for p in parts] in (["pending"], ["sending"])
    else:
        assert parts == []


def acknowledged(output: str) -> set[tuple[str, ...]]:
    return {tuple(words.split()) for words in output.splitlines()}


@pytest.mark.parametrize("spec", POINTS)
async def test_killed_at(tmp_path: Path, spec: str) -> None:
    died = child("turns", tmp_path, spec)
    assert died.returncode == 137, died.stderr
    told = acknowledged(died.stdout)
    assert ("closed",) not in told
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    left = await store.recover()
    first = await store.item("m1")
    here = [row for row in (first, await store.item("m2")) if row is not None]
    assert {row.state for row in here} <= {"queued", "done"}  # nobody runs after a start
    assert [row.id for row in left] == [row.id for row in here if row.state == "queued"]
    await check(store, tmp_path, told)
    # the senders send again: one turn each (I2), in order (I3)
    again = await store.accept(turn("m1", "d1"), claim=False)
    assert again.duplicate == (first is not None)
    await store.accept(turn("m2", "d2"), claim=False)
    next_one = await claim_one(store, "main")
    assert next_one is not None
    assert next_one.id == ("m2" if first is not None and first.state == "done" else again.id)
    await store.close()


@pytest.mark.parametrize("spec", ["recover.before", "recover.after"])
async def test_killed_while_recovering(tmp_path: Path, spec: str) -> None:
    """The restart dies too; the next one finds the same."""
    told = acknowledged(child("turns", tmp_path, "journal.before:2").stdout)
    assert child("turns", tmp_path, spec).returncode == 137
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    assert [row.id for row in await store.recover()] == ["m2"]  # m1 had been settled
    await check(store, tmp_path, told)
    await store.close()


def turn(ident: str, dedupe: str) -> InboxItem:
    return InboxItem(ident, dedupe, "a", "main", b"", 1)


async def test_nothing_strikes_unless_armed(tmp_path: Path) -> None:
    await turns(str(tmp_path), "")
    assert child("turns", tmp_path / "other", "accept.before:99").returncode == 0


def tear(wal: Path, chance: random.Random) -> None:
    """Cut the WAL somewhere behind its last whole commit and let garbage follow: a write the power cut tore."""
    data = wal.read_bytes()
    size = 24 + int.from_bytes(data[8:12], "big")
    end = sure = 32
    while data[end + 8 : end + 16] == data[16:24] and end + size <= len(data):
        end += size
        if data[end - size + 4 : end - size + 8] != b"\0\0\0\0":  # the last frame of a transaction
            sure = end
    wal.write_bytes(data[: chance.randint(sure, len(data))] + chance.randbytes(chance.randrange(5000)))


async def snapshot(copy: Path) -> set[str]:
    """The copy opens, is sound, and recovers. Returns the settled messages in it."""
    with closing(sqlite3.connect(copy / "state.db")) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        done = {row[0] for row in conn.execute("SELECT id FROM inbox WHERE state = 'done'")}
        replies = {row[0] for row in conn.execute("SELECT item FROM outbox")}
    assert replies == done  # I11: the reply is there with the end of the turn, or neither is
    store = await open_sqlite_store(str(copy), SystemClock())
    await store.recover()
    await store.close()
    lines = [each for file in copy.glob("agents/main/sessions/*.jsonl") for each in file.read_bytes().splitlines()]
    ends = sorted(ident[1:] for ident in (json.loads(each)["id"] for each in lines) if ident.startswith("o"))
    assert ends == sorted(done)  # the last line of every settled turn, once
    return done


async def power_losses(tmp_path: Path, count: int, seed: int) -> None:
    """Freeze a working process, copy its files, let it go on; a frozen copy is what a power cut leaves."""
    chance = random.Random(seed)
    home = tmp_path / "home"
    with subprocess.Popen(command("work", home), stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            told: set[str] = set()
            for n in range(count):
                for _ in range(chance.randrange(5, 60)):
                    told.add(worker.stdout.readline().strip())
                worker.send_signal(signal.SIGSTOP)
                copies = [tmp_path / f"copy{n}", tmp_path / f"cut{n}"]
                for copy in copies:
                    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("*-shm", "*.lock"))
                worker.send_signal(signal.SIGCONT)
                tear(copies[1] / "state.db-wal", chance)
                for copy in copies:
                    assert told <= await snapshot(copy), f"seed {seed}: acknowledged turns are gone"
                    shutil.rmtree(copy)
        finally:
            worker.kill()
    store = await asyncio.wait_for(open_sqlite_store(str(home), SystemClock()), 60)
    left = await store.recover()
    assert len(left) <= 4  # one in each lane
    await store.close()


async def test_power_loss_at_random_moments(tmp_path: Path) -> None:
    await power_losses(tmp_path, 4, 1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(40))
async def test_power_loss_again_and_again(tmp_path: Path, seed: int) -> None:
    await power_losses(tmp_path, 12, seed)
