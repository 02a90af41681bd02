"""Migration and pruning."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from palinurus.errors import StateBroken
from palinurus.store.port import Settlement
from palinurus.store.sqlite import open_sqlite_store, schema
from palinurus.store.sqlite.reader import open_sqlite_reader
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import make_item, make_reply_part


def test_every_step_runs_once() -> None:
    conn = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate_schema(conn, "x")
    assert schema.read_version(conn, "x") == len(schema.MIGRATIONS)
    tables = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"inbox", "outbox", "sessions", "spent", "slots", "steps", "journal", "meta"} <= tables
    schema.migrate_schema(conn, "x")


async def test_old_finished_rows_go_and_unfinished_stay(tmp_path: Path) -> None:
    clock = FakeClock()
    store = await open_sqlite_store(str(tmp_path), clock)
    now = clock.now()
    for n in range(3):
        held = (await store.accept(make_item(f"m{n}", f"s{n}"), claim=True)).claim
        assert held is not None
        if n < 2:
            await store.settle(
                held, Settlement("answered", replies=(make_reply_part(f"r{n}", of=f"m{n}", target=f"t{n}"),))
            )
    await store.mark_sending("r0", now)
    await store.mark_delivered("r0", "55", now)
    assert await store.claim_slot("job", now)
    await store.close()

    clock.jump(400 * 86_400)
    await (await open_sqlite_store(str(tmp_path), clock)).close()  # a start alone forgets nothing
    with open_sqlite_reader(str(tmp_path)) as reader:
        assert [row.id for row in reader.items()] == ["m2", "m1", "m0"]

    store = await open_sqlite_store(str(tmp_path), clock)
    assert await store.prune(500) == 0
    assert await store.prune(now + 1) > 0
    assert await store.prune(now + 1) == 0
    assert await store.item("m0") is None
    assert await store.trace("m0") == []
    kept = await store.item("m2")
    assert kept is not None
    assert kept.state == "running"
    assert [p.id for p in await store.list_due_replies("fake", now)] == ["r1"]  # never delivered: never forgotten
    await store.close()


async def test_everything_old_goes_in_pieces_also_behind_a_row_that_stays(tmp_path: Path) -> None:
    """Messages wait behind one piece at most; a message that never ended does not keep the later ones."""
    store = await open_sqlite_store(str(tmp_path), FakeClock())
    await store.accept(make_item("waits", "s0"), claim=False)
    with closing(sqlite3.connect(tmp_path / "state.db")) as conn, conn:
        rows = ((f"m{n}", f"d{n}", f"s{n}") for n in range(12_000))
        conn.executemany(
            "INSERT INTO inbox (id, dedupe, session, lane, body, at, state) VALUES (?, ?, ?, 'main', '{}', 5, 'done')",
            rows,
        )
    gone = []
    while count := await store.prune(6):
        gone.append(count)
    assert sum(gone) == 12_000 and max(gone) == schema.PRUNED
    await store.close()
    with open_sqlite_reader(str(tmp_path)) as reader:
        assert [row.id for row in reader.items()] == ["waits"]


def test_what_a_newer_program_added_is_taken_back(tmp_path: Path) -> None:
    """Rows and columns that this one knows stay, also rows written since; and it can go up again."""
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as base:
        schema.migrate_schema(base, "s.db")
        base.executescript(
            "CREATE TABLE more (a TEXT); CREATE INDEX more_a ON more (a); ALTER TABLE kept ADD COLUMN why TEXT;"
            "CREATE INDEX kept_why ON kept (why); CREATE TRIGGER t AFTER INSERT ON more BEGIN SELECT 1; END;"
            "INSERT INTO kept VALUES ('k', 'a', x'01', 7, 'new'); PRAGMA user_version = 9"
        )
        assert len(schema.lower_schema(base, "s.db")) == 5
        assert base.execute("SELECT * FROM kept").fetchall() == [("k", "a", b"\x01", 7)]
        assert schema.read_version(base, "s.db") == len(schema.MIGRATIONS) and schema.lower_schema(base, "s.db") == []
        base.execute("CREATE TABLE more (a TEXT)")


def test_without_a_way_back_nothing_is_changed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as base:
        schema.migrate_schema(base, "s.db")
        base.executescript("CREATE TABLE more (a TEXT); ALTER TABLE kept RENAME COLUMN at TO made")
        with pytest.raises(StateBroken, match="table kept changed since"):
            schema.lower_schema(base, "s.db")
        assert base.execute("SELECT count(*) FROM more").fetchone() == (0,)
