"""`bench/run.py --gate`: is anything dearer than it was?

Two halves. Counts (`counts.py`) do not depend on the machine's other work: more than 1.10 times what is kept fails.
Processor time is told, and fails nothing: one tree gives half and double of it on one machine within the hour. Each of
its figures is the least of a few, as a ratio to something of the same kind that is measured in turns with it (a bare
interpreter, a fixed piece of Python). What is kept stands in `gate.json`; `--keep` writes it anew, for a change that is
worth its price.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import counts
import procs
import sockets
from measures import Bench, crowd
from system import HERE, TOKEN, checked, mark, pal

KEPT = os.path.join(HERE, "gate.json")
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


class Ratio(NamedTuple):
    """One look at a figure: ours and what it is measured against, in the same unit."""

    ours: float
    bare: float

    @property
    def value(self) -> float:
        return self.ours / self.bare


DATA = {f"key {n}": [n, str(n), {"text": "some words " * 3, "at": n / 7}] for n in range(40)}
WORD = re.compile(r"(?:[a-z]+ )+\d*")


async def _step(number: int) -> int:
    await asyncio.sleep(0)
    return number


async def loop() -> float:
    """Processor milliseconds of a fixed piece of Python, of what a turn is made of: dicts, JSON, patterns, tasks. A
    bare request would be nearer, but on a busy machine it is nothing but waking up."""
    start = time.process_time()
    for _ in range(20):
        text = json.dumps(json.loads(json.dumps(DATA)), indent=1)
        found = [match[0].strip().upper() for match in WORD.finditer(text)]
        await asyncio.gather(*(_step(len(word)) for word in found[:100]))
    return (time.process_time() - start) * 1000


LIBRARY = "import asyncio, sqlite3, ssl, msgspec, aiohttp.web"  # what every gateway needs, and nothing of ours


def _spent(bench: Bench, *argv: str) -> float:
    """Processor milliseconds of a command."""
    return procs.timed(list(argv), bench.system.env, bench.system.work)[1] * 1000


async def _starts(bench: Bench, bare: str, ours: Callable[[], Awaitable[float]], times: int) -> Ratio:
    """The least of each, in turns with an interpreter that only runs `bare`: others slow both down alike."""
    pairs = [(_spent(bench, sys.executable, "-c", bare), await ours()) for _ in range(times)]
    return Ratio(min(pair[1] for pair in pairs), min(pair[0] for pair in pairs))


async def _slices(bench: Bench, work: Callable[[], Awaitable[object]], count: int, times: int = 3) -> Ratio:
    """The same for requests: the gateway's processor time for one of `count`, in turns with `loop`."""
    await work()  # the first loads what is loaded late
    bare, ours = [], []
    for _ in range(times):
        bare += [await loop() for _ in range(3)]
        before = procs.cpu(bench.system.pid)
        await work()
        ours.append((procs.cpu(bench.system.pid) - before) * 1000 / count)
    return Ratio(min(ours), min(bare))


async def version(bench: Bench) -> Ratio:
    async def ours() -> float:
        return _spent(bench, pal(), "--version")

    return await _starts(bench, "pass", ours, 15)


async def ready(bench: Bench) -> Ratio:
    async def ours() -> float:
        bench.system.down()
        await bench.system.up()
        return procs.cpu(bench.system.pid) * 1000

    return await _starts(bench, LIBRARY, ours, 4)


async def once(bench: Bench) -> Ratio:
    async def ours() -> float:
        return _spent(bench, pal(), "agent", "--session", "gate", "-m", mark()[1])

    bench.system.down()
    try:
        return await _starts(bench, LIBRARY, ours, 4)
    finally:
        await bench.system.up()


async def first(bench: Bench) -> Ratio:
    """Until ready and through the first message: what is put off must not cost more than it saves."""

    async def ours() -> float:
        bench.system.down()
        await bench.system.up()
        checked(await bench.system.turn("gate-first", mark()[1]), 20)
        return procs.cpu(bench.system.pid) * 1000

    return await _starts(bench, LIBRARY, ours, 4)


async def turn(bench: Bench) -> Ratio:
    count = 12

    async def work() -> None:
        for _ in range(count):
            checked(await bench.system.turn("gate-turn", mark()[1]), 20)

    return await _slices(bench, work, count)


async def stream(bench: Bench) -> Ratio:
    """2,000 chunks in a burst: how many that come apart are read together is the machine's business."""

    async def work() -> None:
        checked(await bench.system.turn("gate-stream", mark(2000, 1)[1]), 2000)

    return await _slices(bench, work, 20)  # for a hundred


async def tool(bench: Bench) -> Ratio:
    """A round with `read`."""
    rounds = 15

    async def work() -> None:
        text = mark(tools=rounds, tool="read", key="path", val="f%d.txt")[1]
        checked(await bench.system.turn("gate-tool", text), 20)

    return await _slices(bench, work, rounds)


async def rpc(bench: Bench) -> Ratio:
    total = 1500

    async def work() -> None:
        await sockets.round_trips(bench.system.port, TOKEN, total)

    return await _slices(bench, work, total // 100)  # for a hundred


async def many(bench: Bench) -> Ratio:
    """60 sessions at once: the gateway's processor time for one."""
    count = 60

    async def work() -> None:
        await crowd(bench, count, 1)

    return await _slices(bench, work, count, 2)


# Name -> (how, unit, what it is measured against). In this order.
FIGURES: dict[str, tuple[Callable[[Bench], Awaitable[Ratio]], str, str]] = {
    "version": (version, "ms", "python -c pass"),
    "ready": (ready, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "once": (once, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "first": (first, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "turn": (turn, "ms", "a piece of Python"),
    "stream": (stream, "ms/100", "a piece of Python"),
    "tool": (tool, "ms", "a piece of Python"),
    "rpc": (rpc, "ms/100", "a piece of Python"),
    "many": (many, "ms", "a piece of Python"),
}


async def look(bench: Bench, keep: bool) -> int:
    """Count and measure all of it next to what is kept. Returns how many counts are too high; with `keep` writes what
    was found."""
    with open(KEPT) as handle:
        kept = json.load(handle)
    found = await counts.measure(bench)
    bad = counts.judge(found, kept["counts"])
    await bench.system.up()
    print("\nProcessor time, told and not enforced:\n| figure | ours | measured against | ratio | kept |")
    print("|---|--:|---|--:|--:|")
    ratios = {}
    for name, (measure, unit, against) in FIGURES.items():
        one = await measure(bench)
        ratios[name] = round(one.value, 3)
        shown = f"{one.ours:.2f} {unit} | {against}: {one.bare:.2f} {unit} | {one.value:.2f}"
        print(f"| {name} | {shown} | {kept['ratios'].get(name, 0.0):.2f} |", flush=True)
    if keep:
        with open(KEPT, "w") as handle:
            told = {"python": PYTHON, "counts": {name: round(value, 2) for name, value in found.items()}}
            json.dump({**told, "ratios": ratios}, handle, indent=2)
            handle.write("\n")
        return 0
    if kept["python"] != PYTHON:  # each of them counts otherwise
        print(f"\nThe counts are kept for Python {kept['python']}; this is {PYTHON}, so they fail nothing.")
        return 0
    if bad:
        print(f"\n{', '.join(bad)}: more than {counts.ALLOWED} times what is kept in bench/gate.json.")
        print("Find out why; if it is worth it, `bench/run.py --gate --keep` and say so in the commit.")
    return len(bad)
