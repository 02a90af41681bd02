"""How long a run's event takes from one node of a fleet to another: two processes, one PostgreSQL.

    python -m bench.bus URL [COUNT]

`measure_bus` is for whoever wants the figures as a row.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec

from palinurus.clock import SystemClock
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember

PACE = 0.15  # seconds between two pieces of text of one run, as `inbox/relay.py` sends them


async def speak(url: str, count: int, streams: int) -> None:
    """Say `count` pieces of 300 bytes, as so many runs at once would, each with the moment it was said."""
    store = await open_postgres_store(url, ".", SystemClock(), FleetMember("speaker"))
    bus = await store.open_bus()
    ready = asyncio.Event()
    bus.listen(lambda node, said: ready.set(), lambda: None)
    await ready.wait()  # the other one is there
    for n in range(count):
        bus.send(msgspec.json.encode([n, time.time_ns(), "x" * 300]))
        await asyncio.sleep(PACE / streams)
    await bus.close()
    await store.close()


async def measure_bus(url: str, count: int = 1000, streams: int = 20) -> tuple[float, float, int]:
    """(median, 95th percentile) in milliseconds, and how many were lost."""
    store = await open_postgres_store(url, ".", SystemClock(), FleetMember("hearer"))
    took: list[float] = []
    done, ready = asyncio.Event(), asyncio.Event()

    def hear(node: str, said: bytes) -> None:
        n, at, _ = msgspec.json.decode(said, type=tuple[int, int, str])
        took.append((time.time_ns() - at) / 1e6)
        if n == count - 1:
            done.set()

    bus = await store.open_bus()
    bus.listen(hear, ready.set)
    await ready.wait()
    line = [sys.executable, "-m", "bench.bus", "--speak", url, str(count), str(streams)]
    child = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[1])
    try:
        while not took:
            bus.send(b'"begin"')
            await asyncio.sleep(0.2)
        await asyncio.wait_for(done.wait(), 60 + count * PACE)
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
        await bus.close()
        await store.close()
    took.sort()
    return took[len(took) // 2], took[int(len(took) * 0.95)], count - len(took)


def main() -> int:
    args = sys.argv[1:]
    if args[:1] == ["--speak"]:
        asyncio.run(speak(args[1], int(args[2]), int(args[3])))
        return 0
    if not args:
        print(__doc__, file=sys.stderr)
        return 2
    median, late, lost = asyncio.run(measure_bus(args[0], *map(int, args[1:2])))
    print(f"an event on another node: p50 {median:.1f} ms, p95 {late:.1f} ms, {lost} lost")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
