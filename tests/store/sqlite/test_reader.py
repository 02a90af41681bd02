"""Reading from outside, beside a running gateway."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.errors import StateError
from palinurus.store.port import SessionRow, Settlement
from palinurus.store.sqlite import database, open_sqlite_store
from palinurus.store.sqlite.reader import open_sqlite_reader
from palinurus.testing.conformance.inbox import make_item, make_ledger_call, make_reply_part
from store.sqlite.processes import child


async def test_sees_what_is_committed_and_changes_nothing(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    with open_sqlite_reader(str(tmp_path)) as reader:
        assert reader.items() == []
        held = (await store.accept(make_item("m1"), claim=True)).claim
        assert held is not None
        await store.accept(make_item("m2"), claim=False)
        row = SessionRow("k", "main", "s", 1, b"{}")
        await store.settle(
            held, Settlement("answered", "hi", (), (make_reply_part("r1"),), row, spent=(make_ledger_call("m1", 5),))
        )
        assert [r.id for r in reader.items()] == ["m2", "m1"]
        assert [r.id for r in reader.items(limit=1, session="agent:main:a", state="done")] == ["m1"]
        assert reader.session("k") == row
        assert reader.sessions("main") == [row]
        assert reader.list_usage() == [make_ledger_call("m1", 5)]
        assert [r.id for r in reader.replies("m1")] == ["r1"]
        found = reader.item("m1")
        assert found is not None
        assert found.note == "hi"
        assert reader.trace("m1") == await store.trace("m1")
        assert reader.integrity() == []
    with (
        closing(database.open_for_reading(str(tmp_path))) as conn,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        conn.execute("DELETE FROM inbox")
    await store.close()
    with pytest.raises(StateError, match="closed"):
        await store.item("m1")
    with pytest.raises(StateError, match="closed"):
        await store.accept(make_item("m3"), claim=False)
    with open_sqlite_reader(str(tmp_path)) as reader:  # no gateway any more
        assert len(reader.items()) == 2


def test_reads_what_a_killed_gateway_left(tmp_path: Path) -> None:
    assert child("turns", tmp_path, "settle.after").returncode == 137
    for _ in range(2):
        with open_sqlite_reader(str(tmp_path)) as reader:
            assert [(row.id, row.state) for row in reader.items()] == [("m2", "queued"), ("m1", "done")]
