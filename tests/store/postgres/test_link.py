"""What a node's connections do when something is wrong with them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.clock import SystemClock
from palinurus.errors import StateBroken
from palinurus.store.port import InboxItem, OutboxRow
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember
from palinurus.store.postgres.schema import read_schema
from palinurus.store.postgres.store import PostgresStore
from store.postgres.server import connected


async def join(url: str, home: Path, name: str, lease: float = 60.0) -> PostgresStore:
    return await open_postgres_store(url, str(home), SystemClock(), FleetMember(name, lease))


async def until(look: Any) -> None:
    async with asyncio.timeout(60):
        while not await look():
            await asyncio.sleep(0.05)


async def test_a_batch_that_comes_late_is_not_made_again(fleet: str, tmp_path: Path) -> None:
    """It was sent on a connection that was given up, and again on the next; others followed. Then the first arrives."""
    store = await join(fleet, tmp_path, "a")
    try:
        await store.put_record("k", "one", b"1")
        await store.put_record("k", "one", b"2")
        epoch = store._link.epoch
        ops = [{"op": "record", "kind": "k", "key": "one", "data": 1, "checks": False}]
        async with connected(fleet) as conn:
            await conn.execute(f"SET search_path TO {read_schema().search_path}")
            number = await conn.fetchval("SELECT batch FROM node WHERE id = 'a'")
            with pytest.raises(Exception, match="comes after batch"):
                late = "SELECT apply_changes('a', $1, $2, NULL, $3, $4, false)"
                await conn.fetchval(late, epoch, number - 1, msgspec.json.encode(ops).decode(), [b"1"])
        found = await store.get_record("k", "one")
        assert found is not None and found.data == b"2"
    finally:
        await store.close()


async def test_what_a_dead_node_did_is_told_with_its_name(fleet: str, tmp_path: Path) -> None:
    """Its run waits again; of the reply that it was sending nobody knows."""
    live, dead = await join(fleet, tmp_path, "a"), await join(fleet, tmp_path, "b")
    try:
        assert await dead.grant("channel/fake")
        item = InboxItem("01", "d1", "agent:main:s", "main", b"{}", 1)
        assert (await dead.accept(item, claim=True)).claim is not None
        await dead.post_replies([OutboxRow("r1", "01", "fake", "t", b"{}", 1)])
        await dead.mark_sending("r1", 1)
        dead._link._tasks.cancel()  # it dies, and its lease ends
        async with connected(fleet) as conn:
            await conn.execute("UPDATE node SET until = clock_timestamp() WHERE id = 'b'")
        live._link.lease._hurry.set()  # … and its end is looked for from now on

        async def waits() -> bool:
            row = await live.item("01")
            return row is not None and row.state == "queued"

        await until(waits)
        told = [(step.what, step.detail) for step in await live.trace("01")]
        assert ("node b lost", "attempt 1") in told and ("node b lost", "while it sent r1") in told
        assert await live.grant("channel/fake")
    finally:
        await live.close()


async def test_what_a_node_ran_before_it_came_back_is_taken_over_while_it_starts(fleet: str, tmp_path: Path) -> None:
    live, before = await join(fleet, tmp_path, "a"), await join(fleet, tmp_path, "b")
    again = None
    try:
        item = InboxItem("01", "d1", "agent:main:s", "main", b"{}", 1)
        assert (await before.accept(item, claim=True)).claim is not None
        before._link._tasks.cancel()  # it dies
        again = await join(fleet, tmp_path, "b")
        live._link.lease._hurry.set()

        async def waits() -> bool:
            row = await live.item("01")
            return row is not None and row.state == "queued"

        await until(waits)
        assert [row.id for row in await again.recover()] == ["01"]
        taken = await live.claim("main")
        assert [claim.attempts for claim in taken] == [2]
    finally:
        await live.close()
        if again is not None:
            await again.close()


async def test_a_listener_that_was_cut_off_is_made_anew(fleet: str, tmp_path: Path) -> None:
    store = await join(fleet, tmp_path, "a")
    try:
        before = store._link._bus
        async with connected(fleet) as conn:
            await conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'palinurus a%'"
            )
        await store.put_record("k", "one", b"1")
        assert await store.get_record("k", "one") is not None
        store._link.lease._hurry.set()

        async def renewed() -> bool:
            return store._link._bus is not before and store._link.lost is None

        await until(renewed)
        await store.confirm()
    finally:
        await store.close()


async def test_a_writer_that_breaks_ends_the_node(fleet: str, tmp_path: Path) -> None:
    """Else it would keep its lease, and with that all that it runs, for ever."""
    why: list[str] = []
    store = await open_postgres_store(fleet, str(tmp_path), SystemClock(), FleetMember("a", 60.0, why.append))
    try:
        broken: Any = object()
        store._link._writer = broken
        with pytest.raises(StateBroken, match="broke"):
            async with asyncio.timeout(60):
                await store.put_record("k", "one", b"1")
        assert len(why) == 1
    finally:
        store._link._bus.terminate()
        await store._link.lease.close()
