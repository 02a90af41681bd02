"""Several nodes on one PostgreSQL: turns a second, what a turn costs more than on SQLite, how soon others hear, memory.

Has a server of its own, with `fsync` on, on this machine: whatever it needs is part of the figures. Without PostgreSQL
there are no rows, and one sentence says so. As a script it is one node that does turns: `fleet.py URL NAME SECONDS`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import procs
from system import System, checked, mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measures import Bench, Row

AT_ONCE = 48  # turns under way on one node, each in a session of its own
EVENTS = 200
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


@contextmanager
def server() -> Iterator[str]:
    """The address of a PostgreSQL with durable commits."""
    made = import_module("store.postgres.server").Postgres("", 0, "-c fsync=on")
    try:
        made.create()
        made.start()
        yield made.url
    finally:
        made.stop()
        shutil.rmtree(made.folder, ignore_errors=True)


async def join(url: str, home: str, name: str) -> Any:
    member = import_module("palinurus.store.postgres.link").FleetMember(name)
    clock = import_module("palinurus.clock").SystemClock()
    return await import_module("palinurus.store.postgres").open_postgres_store(url, home, clock, member)


async def turn(store: Any, name: str, number: int) -> None:
    """What one turn asks of a store: accept, a flush in the middle, the end with its lines and what it cost."""
    port = import_module("palinurus.store.port")
    ident, now, session = port.make_id(number), 1, f"{name}.{number % AT_ONCE}"
    item = port.InboxItem(ident, f"{name}/{number}", f"agent:main:{session}", "main", b'{"text":"hi"}', now)
    claim = (await store.accept(item, claim=True)).claim
    path = f"agents/main/sessions/{session}.jsonl"
    await store.append(claim, [port.TranscriptLine(path, f"{number}a", b"x" * 300)])
    spent = port.UsageRow(ident, "r", item.session, "main", "p", "m", now, 10, 10, 0, cache_write=0)
    lines = (port.TranscriptLine(path, f"{number}b", b"y" * 600),)
    await store.settle(claim, port.Settlement("answered", "ok", lines, spent=(spent,)))


async def work(url: str, name: str, seconds: float) -> int:
    """A node that does nothing but turns. Returns how many."""
    with tempfile.TemporaryDirectory() as home:
        store, done, until = await join(url, home, name), 0, time.monotonic() + seconds

        async def one(first: int) -> None:
            nonlocal done
            number = first
            while time.monotonic() < until:
                await turn(store, name, number)
                number += AT_ONCE
                done += 1

        await asyncio.gather(*(one(n) for n in range(AT_ONCE)))
        await store.close()
    return done


async def many_stores(url: str, nodes: int, seconds: float) -> float:
    """Settled turns a second of so many processes together."""
    argv = [sys.executable, os.path.abspath(__file__), url]
    made = [
        subprocess.Popen([*argv, f"n{nodes}-{number}", str(seconds)], stdout=subprocess.PIPE, text=True)
        for number in range(nodes)
    ]
    told = await asyncio.gather(*(asyncio.to_thread(one.communicate) for one in made))
    return sum(int(out) for out, _ in told) / seconds


async def alone(store: Any, count: int) -> list[float]:
    """Milliseconds of one turn after the other."""
    took = []
    for number in range(count):
        start = time.monotonic()
        await turn(store, "alone", number)
        took.append((time.monotonic() - start) * 1000)
    return took


async def heard(url: str, home: str, count: int) -> list[float]:
    """Milliseconds from a change on one node (its commit included) until another was told of it."""
    one, other = await join(url, home, "one"), await join(url, home, "other")
    told = asyncio.Event()
    other.watch(lambda news: told.set())
    took = []
    for number in range(count):
        told.clear()
        start = time.monotonic()
        await one.put_record("bench", str(number), b"x")
        async with asyncio.timeout(30):
            await told.wait()
        took.append((time.monotonic() - start) * 1000)
        await asyncio.sleep(0.005)
    await one.close()
    await other.close()
    return took


async def gateways(bench: Bench, url: str, root: str) -> tuple[float, float, float]:
    """Turns a second through three gateways with all that a turn is; the memory of an idle one, and of one without a
    fleet, in MB."""
    made = [System(os.path.join(root, name), bench.mock.url) for name in "abc"]
    plain = System(os.path.join(root, "plain"), bench.mock.url)
    try:
        await plain.up()
        await asyncio.sleep(1)
        embedded = procs.quiet(procs.pss, plain.pid)
        plain.down()
        for name, one in zip("abc", made, strict=True):
            one.env |= {"PALINURUS_STORE": url}
            one.set_config("store", {"node": name})
            await one.up()
        await asyncio.sleep(1)
        idle = procs.quiet(procs.pss, made[0].pid)
        count = bench.many(300)

        async def talk(number: int) -> None:
            checked(await made[number % 3].turn(f"s{number}", mark()[1]), 20)

        await asyncio.gather(*(talk(number) for number in range(24)))  # warm
        start = time.monotonic()
        for first in range(0, count, 60):
            await asyncio.gather(*(talk(100 + number) for number in range(first, min(first + 60, count))))
        return count / (time.monotonic() - start), idle, embedded
    finally:
        for one in (*made, plain):
            one.down()


async def fleet(bench: Bench) -> list[Row]:
    """See the module."""
    row = import_module("measures").Row
    programs = import_module("store.postgres.server")
    if programs.find_programs() is None:
        print(f"# fleet: not measured: {programs.MISSING}", file=sys.stderr)
        return []
    seconds, count = (3.0, 60) if bench.quick else (8.0, 300)
    with tempfile.TemporaryDirectory(dir=bench.system.root) as root, server() as url:
        os.chmod(root, 0o755)
        store = await join(url, root, "one")
        postgres = (await alone(store, count))[5:]
        await store.close()
        sqlite = await import_module("palinurus.store.factory").open_store(
            os.path.join(root, "lite"), import_module("palinurus.clock").SystemClock()
        )
        embedded = (await alone(sqlite, count))[5:]
        await sqlite.close()
        others = await heard(url, root, EVENTS // (4 if bench.quick else 1))
        single, three = await many_stores(url, 1, seconds), await many_stores(url, 3, seconds)
        rate, idle, plain = await gateways(bench, url, root)
    extra = statistics.median(postgres) - statistics.median(embedded)
    late = statistics.quantiles(others, n=20)[-1]
    return [
        row("fleet: turns a second, the stores of three nodes", [three], "/s", 500, True),
        row("… of one node", [single], "/s"),
        row("… three gateways, agent and model's stream included", [rate], "/s"),
        row("… a turn alone, more than on SQLite", [extra], "ms", 8.0),
        row("… another node hears of a change, p95", [late], "ms", 25.0),
        row("… memory of an idle gateway, to one without a fleet", [idle / plain], "x", 1.15),
    ]


if __name__ == "__main__":
    print(asyncio.run(work(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
