"""`bench/run.py --gate`: is anything a quarter dearer than it was?

Every figure is a ratio to a loop of the same kind that is measured in the same minute (a bare interpreter, a bare
aiohttp server, a bare client), so it says the same on a slow machine and on a busy one. The ratios that were measured
when a figure was last looked at stand in `gate.json`; `--keep` writes them anew, for a change that is worth its price.
Processor time where there is any, because it does not wait for others; a figure that looks bad is measured twice more
and its least counts. What is kept is a median.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import client
import procs
import sockets
from measures import Bench, crowd
from system import HERE, TOKEN, checked, mark, pal

KEPT = os.path.join(HERE, "gate.json")
ALLOWED = 1.25
TRIES = 3
BODY = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hello " * 20}]}).encode()


class Ratio(NamedTuple):
    """One look at a figure: ours and the loop it is measured against, in the same unit."""

    ours: float
    bare: float

    @property
    def value(self) -> float:
        return self.ours / self.bare


class Echo:
    """The bare aiohttp server as a process."""

    def __init__(self, bench: Bench) -> None:
        argv = [sys.executable, os.path.join(HERE, "echo.py")]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, env=bench.system.env)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().decode().rsplit(":", 1)[1])

    async def cost(self, count: int = 150) -> float:
        """Processor milliseconds a request."""
        before = procs.cpu(self.process.pid)
        for _ in range(count):
            status, *_ = await client.http(self.port, "POST", "/", body=BODY)
            if status != 200:
                raise SystemExit(f"the echo answered {status}")
        return (procs.cpu(self.process.pid) - before) * 1000 / count


def _command(bench: Bench, argv: list[str], times: int = 7) -> float:
    """Median processor seconds of a command."""
    return statistics.median(procs.timed(argv, bench.system.env, bench.system.work)[1] for _ in range(times))


def _library(bench: Bench) -> float:
    """Processor seconds of an interpreter that loads what every gateway needs, and nothing of ours."""
    return _command(bench, [sys.executable, "-c", "import asyncio, sqlite3, ssl, msgspec, aiohttp.web"], 5)


async def version(bench: Bench, echo: Echo) -> Ratio:
    return Ratio(
        _command(bench, [pal(), "--version"], 9) * 1000, _command(bench, [sys.executable, "-c", "pass"], 9) * 1000
    )


async def ready(bench: Bench, echo: Echo) -> Ratio:
    took = []
    for _ in range(3):
        bench.system.down()
        await bench.system.up()
        took.append(procs.cpu(bench.system.pid) * 1000)
    return Ratio(statistics.median(took), _library(bench) * 1000)


async def idle(bench: Bench, echo: Echo) -> Ratio:
    bench.system.down()
    await bench.system.up()
    return Ratio(await asyncio.to_thread(procs.quiet_rss, bench.system.pid), procs.rss(echo.process.pid))


async def once(bench: Bench, echo: Echo) -> Ratio:
    bench.system.down()
    ours = _command(bench, [pal(), "agent", "--session", "gate", "-m", mark()[1]], 4)
    await bench.system.up()
    return Ratio(ours * 1000, _library(bench) * 1000)


async def first(bench: Bench, echo: Echo) -> Ratio:
    """Until ready and through the first message: what is put off must not cost more than it saves."""
    took = []
    for _ in range(3):
        bench.system.down()
        await bench.system.up()
        checked(await bench.system.turn("gate-first", mark()[1]), 20)
        took.append(procs.cpu(bench.system.pid) * 1000)
    return Ratio(statistics.median(took), _library(bench) * 1000)


async def turn(bench: Bench, echo: Echo) -> Ratio:
    count = 30
    for _ in range(3):
        checked(await bench.system.turn("gate-turn", mark()[1]), 20)
    before = procs.cpu(bench.system.pid)
    for _ in range(count):
        checked(await bench.system.turn("gate-turn", mark()[1]), 20)
    return Ratio((procs.cpu(bench.system.pid) - before) * 1000 / count, await echo.cost())


async def stream(bench: Bench, echo: Echo) -> Ratio:
    """400 chunks, 1 ms apart: each wakes us."""
    checked(await bench.system.turn("gate-stream", mark(50, 1, delay=1)[1]), 50)
    before = procs.cpu(bench.system.pid)
    checked(await bench.system.turn("gate-stream", mark(400, 1, delay=1)[1]), 400)
    return Ratio((procs.cpu(bench.system.pid) - before) * 1000 / 400, await echo.cost())


async def tool(bench: Bench, echo: Echo) -> Ratio:
    """A round with `read`."""
    rounds = 20
    await bench.system.turn("gate-tool", mark(tools=2, tool="read", key="path", val="f%d.txt")[1])
    before = procs.cpu(bench.system.pid)
    checked(await bench.system.turn("gate-tool", mark(tools=rounds, tool="read", key="path", val="f%d.txt")[1]), 20)
    return Ratio((procs.cpu(bench.system.pid) - before) * 1000 / rounds, await echo.cost())


async def rpc(bench: Bench, echo: Echo) -> Ratio:
    total = 3000
    await sockets.round_trips(bench.system.port, TOKEN, 100)
    before = procs.cpu(bench.system.pid)
    await sockets.round_trips(bench.system.port, TOKEN, total)
    return Ratio((procs.cpu(bench.system.pid) - before) * 1000 / total, await echo.cost())


async def many(bench: Bench, echo: Echo) -> Ratio:
    """60 sessions at once: the gateway's processor time for one, beside what the bare server takes for a request."""
    _, _, cpu, _, _ = await crowd(bench, 60, 2)
    return Ratio(min(cpu), await echo.cost())


# Name -> (how, unit, what it is measured against). In this order.
FIGURES: dict[str, tuple[Callable[[Bench, Echo], Awaitable[Ratio]], str, str]] = {
    "version": (version, "ms", "python -c pass"),
    "ready": (ready, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "idle": (idle, "MB", "a bare aiohttp server"),
    "once": (once, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "first": (first, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "turn": (turn, "ms", "a bare aiohttp request"),
    "stream": (stream, "ms", "a bare aiohttp request"),
    "tool": (tool, "ms", "a bare aiohttp request"),
    "rpc": (rpc, "ms", "a bare aiohttp request"),
    "many": (many, "ms", "a bare aiohttp request"),
}


async def look(bench: Bench, keep: bool) -> int:
    """Measure all of it next to what is kept. Returns how many are too dear; with `keep` writes what was measured."""
    with open(KEPT) as handle:
        kept: dict[str, float] = json.load(handle)
    echo, found, bad = Echo(bench), dict[str, float](), list[str]()
    print("| figure | ours | measured against | ratio | kept | |\n|---|--:|---|--:|--:|---|")
    try:
        for name, (measure, unit, against) in FIGURES.items():
            start, limit = time.monotonic(), kept.get(name, 0.0) * ALLOWED
            looks = [await measure(bench, echo)]
            while len(looks) < TRIES and (keep or min(one.value for one in looks) > limit):
                looks.append(await measure(bench, echo))
            best = sorted(looks, key=lambda one: one.value)[len(looks) // 2 if keep else 0]
            found[name] = round(best.value, 3)
            verdict = "kept" if keep else "ok" if best.value <= limit else "**too dear**"
            bad += [name] if verdict == "**too dear**" else []
            shown = f"{best.ours:.2f} {unit} | {against}: {best.bare:.2f} {unit} | {best.value:.2f}"
            print(f"| {name} | {shown} | {kept.get(name, 0.0):.2f} | {verdict} |", flush=True)
            print(f"# {name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    finally:
        procs.stop(echo.process)
    if keep:
        with open(KEPT, "w") as handle:
            json.dump(found, handle, indent=2)
            handle.write("\n")
    if bad:
        print(f"\n{', '.join(bad)}: more than {ALLOWED} times what is kept in bench/gate.json, three times over.")
        print("Find out why; if it is worth it, `bench/run.py --gate --keep` and say so in the commit.")
    return len(bad)
