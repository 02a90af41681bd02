"""`pal store copy`: a home to a fleet and back, killed on the way, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from nursery import run_program
from palinurus.clock import SystemClock
from palinurus.errors import StateBroken, StateError
from palinurus.store.copy import (
    COLUMNS,
    DirectorySide,
    copy_state,
    describe_state,
    open_directory,
    open_fleet,
)
from palinurus.store.factory import POINTER
from palinurus.store.port import SessionRow, Settlement, TraceStep, TranscriptLine
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember
from palinurus.store.sqlite import open_sqlite_store
from palinurus.testing.conformance.inbox import make_item, make_ledger_call, make_reply_part
from store.postgres.server import connected, empty_tables

MESSAGES = 12
ODD = b'{"id":"e\\u0000","text":"\xf0\x9f\xa6\x86 \\u0000"}'


async def make_state(home: Path) -> None:
    """Everything that a state can have, in several states."""
    store = await open_sqlite_store(str(home), SystemClock())
    await store.recover()
    for n in range(MESSAGES):
        session, path = f"agent:main:s{n % 3}", f"agents/main/sessions/t{n % 3}.jsonl"
        accepted = await store.accept(make_item(f"m{n}", session), claim=n < MESSAGES - 2)
        if accepted.claim is None:
            continue
        lines = [TranscriptLine(path, f"e{n}", b'{"id":"e%d","n":%d}' % (n, n)), TranscriptLine(path, f"f{n}", ODD)]
        await store.append(accepted.claim, lines[:1], steps=[TraceStep(f"m{n}", n, "tool", "with \0 in it")])
        said = make_reply_part(f"r{n}", of=f"m{n}", target=f"c{n}")
        end = Settlement("answered", f"answer {n}", (lines[1],), (said,),
                         spent=(make_ledger_call(f"m{n}", n, cost=None if n % 2 else 0.1 * n),),
                         session=SessionRow(session, "main", f"t{n % 3}", n, b"{}"))  # fmt: skip
        await store.settle(accepted.claim, end)
    await store.mark_sending("r1", 5)
    await store.mark_delivered("r1", "receipt", 6)
    await store.put_record("job", "j1", b"\x00\xff")
    await store.put_record("job", "\N{SNOWMAN}", b"{}")
    await store.claim_slot("j1", 77)
    await store.close()


def read_all(home: Path) -> tuple[dict[str, list[tuple[object, ...]]], dict[str, bytes]]:
    """Rows and files of a home, as they are on disk."""
    with sqlite3.connect(home / "state.db") as conn:
        rows = {
            table: [tuple(row) for row in conn.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY 1, 2")]
            for table, names in COLUMNS.items()
        }
    for told in rows["steps"]:
        assert isinstance(told[4], str)
    rows["steps"] = [(*told[:4], str(told[4]).replace("\0", "\N{REPLACEMENT CHARACTER}")) for told in rows["steps"]]
    return rows, {path.name: path.read_bytes() for path in sorted(home.glob("agents/*/sessions/*.jsonl"))}


def copy(
    source: object, target: object, *, crash: str = "", more: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PALINURUS_CRASH": crash}
    return run_program("store", "copy", str(source), str(target), *more, env=environ)


@pytest.fixture
def url(server: str) -> str:
    asyncio.run(empty_tables(server))
    return server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    asyncio.run(make_state(tmp_path / "home"))
    return tmp_path / "home"


def test_a_home_copied_there_and_back_is_equal(url: str, home: Path, tmp_path: Path) -> None:
    before = read_all(home)
    assert json.loads(copy(home, url, more=("--dry-run", "--json")).stdout)["rows"]["inbox"] == MESSAGES
    there = copy(home, url)
    assert there.returncode == 0, there.stderr
    assert (
        f"{MESSAGES} inbox" in there.stdout
        and "3 transcripts" in there.stdout
        and "both sides are equal" in there.stdout
    )
    back = copy(url, tmp_path / "back")
    assert back.returncode == 0, back.stderr
    assert read_all(tmp_path / "back") == before == read_all(home)
    assert (tmp_path / "back" / "agents" / "main" / "sessions").stat().st_mode & 0o077 == 0
    assert set(there.stdout.splitlines()) == set(back.stdout.splitlines())  # counts, and a digest for each transcript
    again = copy(home, url)
    assert again.returncode and "is not empty" in again.stderr


def test_a_copied_fleet_goes_on_where_the_home_was(url: str, home: Path) -> None:
    async def go_on() -> None:
        store = await open_postgres_store(url, str(home), SystemClock(), FleetMember("a", lease=600.0))
        try:
            assert [row.id for row in await store.recover()] == ["m10", "m11"]
            taken = await store.claim("main", 9)
            assert [one.id for one in taken] == ["m10", "m11"]
            new = await store.accept(make_item("new", "agent:main:new"), claim=True)
            assert new.claim is not None and (await store.accept(make_item("m1"), claim=True)).duplicate
            assert (await store.read_tail("agents/main/sessions/t0.jsonl", 0)).count(b"\n") == 8
            assert not await store.claim_slot("j1", 77)
        finally:
            await store.close()

    assert copy(home, url).returncode == 0
    asyncio.run(go_on())


@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("point", ["copy.rows:1", "copy.rows:4", "copy.lines:1", "copy.lines:3"])
def test_a_copy_that_is_killed_is_gone_on_with(url: str, home: Path, tmp_path: Path, way: str, point: str) -> None:
    target: object = url
    source: object = home
    if way == "back":
        assert copy(home, url).returncode == 0
        source, target = url, tmp_path / "back"
    assert copy(source, target, crash=point).returncode == 137
    refused = copy(tmp_path / "other", target)  # nobody else copies into it, and nobody runs on it
    assert refused.returncode and (way == "back" or "no directory" in refused.stderr)
    with pytest.raises(StateBroken, match="is not finished"):
        asyncio.run(_start(target))
    done = copy(source, target)
    assert done.returncode == 0, done.stderr
    if way == "there":
        assert copy(url, tmp_path / "back").returncode == 0
    assert read_all(tmp_path / "back") == read_all(home)


async def _start(target: object) -> None:
    if isinstance(target, Path):
        await open_sqlite_store(str(target), SystemClock())
    else:
        await open_postgres_store(str(target), "/nowhere", SystemClock(), FleetMember("a"))


def test_a_state_in_use_is_not_copied(url: str, home: Path, tmp_path: Path) -> None:
    async def try_both() -> None:
        store = await open_postgres_store(url, str(tmp_path), SystemClock(), FleetMember("busy", lease=600.0))
        try:
            with pytest.raises(StateError, match="1 nodes are at work there: busy"):
                async with open_fleet(url):
                    pass
        finally:
            await store.close()
        held = await open_sqlite_store(str(home), SystemClock())
        try:
            with pytest.raises(StateError):
                async with open_directory(str(home), SystemClock(), change=True):
                    pass
        finally:
            await held.close()
        (home / POINTER).write_text("postgresql://pal@db/x")
        with pytest.raises(StateError, match="is in a fleet's database"):
            async with open_directory(str(home), SystemClock(), change=True):
                pass

    asyncio.run(try_both())


async def test_a_copy_that_differs_is_not_called_one(url: str, home: Path, tmp_path: Path) -> None:
    class Forgetful(DirectorySide):
        async def put_transcript(self, path: str, data: bytes) -> None:
            await super().put_transcript(path, data[:-2] if path.endswith("t1.jsonl") else data)

    async with (
        open_directory(str(home), SystemClock(), change=True) as source,
        open_directory(str(tmp_path / "b"), SystemClock()) as target,
    ):
        target.__class__ = Forgetful
        with pytest.raises(StateError, match="differs from"):
            await copy_state(source, target)


async def test_a_path_that_leads_out_of_the_home_is_refused(url: str, tmp_path: Path) -> None:
    async with open_fleet(url) as source, open_directory(str(tmp_path / "b"), SystemClock()) as target:
        async with connected(url) as conn:
            await conn.execute("INSERT INTO line VALUES ('../../evil.jsonl', 0, '', 'x')")
        with pytest.raises(StateBroken, match="not a transcript path"):
            await copy_state(source, target)
        assert (await describe_state(target)).transcripts == []
