"""`bench/run.py --gate`: is anything a quarter dearer than it was?

Every figure is a ratio to something of the same kind that is measured in turns with it (a bare interpreter, a fixed
piece of Python), so it says the same on a slow machine and on a busy one. The ratios that were measured when a figure
was last looked at stand in `gate.json`; `--keep` writes them anew, for a change that is worth its price.
Processor time, because it does not wait for others (but for memory), and the least of each side, because noise only
adds; figures that look bad are measured again when all others are done, twice at most, and the least counts. What is
kept is a median of three.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import procs
import sockets
from measures import Bench, crowd
from system import HERE, TOKEN, checked, mark, pal

KEPT = os.path.join(HERE, "gate.json")
HEADING = "| figure | ours | measured against | ratio | kept | |\n|---|--:|---|--:|--:|---|"
ALLOWED = 1.25
TRIES = 3


class Ratio(NamedTuple):
    """One look at a figure: ours and what it is measured against, in the same unit."""

    ours: float
    bare: float

    @property
    def value(self) -> float:
        return self.ours / self.bare


DATA = {f"key {n}": [n, str(n), {"text": "some words " * 3, "at": n / 7}] for n in range(40)}
WORD = re.compile(r"(?:[a-z]+ )+\d*")


class Echo:
    """The bare aiohttp server as a process: what is measured against its memory."""

    def __init__(self, bench: Bench) -> None:
        argv = [sys.executable, os.path.join(HERE, "echo.py")]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, env=bench.system.env)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().decode().rsplit(":", 1)[1])


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


async def version(bench: Bench, echo: Echo) -> Ratio:
    async def ours() -> float:
        return _spent(bench, pal(), "--version")

    return await _starts(bench, "pass", ours, 15)


async def ready(bench: Bench, echo: Echo) -> Ratio:
    async def ours() -> float:
        bench.system.down()
        await bench.system.up()
        return procs.cpu(bench.system.pid) * 1000

    return await _starts(bench, LIBRARY, ours, 4)


async def idle(bench: Bench, echo: Echo) -> Ratio:
    bench.system.down()
    await bench.system.up()
    return Ratio(await asyncio.to_thread(procs.quiet_rss, bench.system.pid), procs.rss(echo.process.pid))


async def once(bench: Bench, echo: Echo) -> Ratio:
    async def ours() -> float:
        return _spent(bench, pal(), "agent", "--session", "gate", "-m", mark()[1])

    bench.system.down()
    try:
        return await _starts(bench, LIBRARY, ours, 4)
    finally:
        await bench.system.up()


async def first(bench: Bench, echo: Echo) -> Ratio:
    """Until ready and through the first message: what is put off must not cost more than it saves."""

    async def ours() -> float:
        bench.system.down()
        await bench.system.up()
        checked(await bench.system.turn("gate-first", mark()[1]), 20)
        return procs.cpu(bench.system.pid) * 1000

    return await _starts(bench, LIBRARY, ours, 4)


async def turn(bench: Bench, echo: Echo) -> Ratio:
    count = 12

    async def work() -> None:
        for _ in range(count):
            checked(await bench.system.turn("gate-turn", mark()[1]), 20)

    return await _slices(bench, work, count)


async def stream(bench: Bench, echo: Echo) -> Ratio:
    """2,000 chunks in a burst: how many that come apart are read together is the machine's business."""

    async def work() -> None:
        checked(await bench.system.turn("gate-stream", mark(2000, 1)[1]), 2000)

    return await _slices(bench, work, 20)  # for a hundred


async def tool(bench: Bench, echo: Echo) -> Ratio:
    """A round with `read`."""
    rounds = 15

    async def work() -> None:
        text = mark(tools=rounds, tool="read", key="path", val="f%d.txt")[1]
        checked(await bench.system.turn("gate-tool", text), 20)

    return await _slices(bench, work, rounds)


async def rpc(bench: Bench, echo: Echo) -> Ratio:
    total = 1500

    async def work() -> None:
        await sockets.round_trips(bench.system.port, TOKEN, total)

    return await _slices(bench, work, total // 100)  # for a hundred


async def many(bench: Bench, echo: Echo) -> Ratio:
    """60 sessions at once: the gateway's processor time for one."""
    count = 60

    async def work() -> None:
        await crowd(bench, count, 1)

    return await _slices(bench, work, count, 2)


# Name -> (how, unit, what it is measured against). In this order.
FIGURES: dict[str, tuple[Callable[[Bench, Echo], Awaitable[Ratio]], str, str]] = {
    "version": (version, "ms", "python -c pass"),
    "ready": (ready, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "idle": (idle, "MB", "a bare aiohttp server"),
    "once": (once, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "first": (first, "ms", "python that loads aiohttp, msgspec and sqlite"),
    "turn": (turn, "ms", "a piece of Python"),
    "stream": (stream, "ms/100", "a piece of Python"),
    "tool": (tool, "ms", "a piece of Python"),
    "rpc": (rpc, "ms/100", "a piece of Python"),
    "many": (many, "ms", "a piece of Python"),
}


async def look(bench: Bench, keep: bool) -> int:
    """Measure all of it next to what is kept. Returns how many are too dear; with `keep` writes what was measured."""
    with open(KEPT) as handle:
        kept: dict[str, float] = json.load(handle)
    echo = Echo(bench)
    try:
        looks = await measure_all(lambda name: FIGURES[name][0](bench, echo), {} if keep else kept)
    finally:
        procs.stop(echo.process)
    if keep:
        return _keep(looks, kept)
    bad = _tell(looks, kept)
    if bad:
        print(f"\n{', '.join(bad)}: more than {ALLOWED} times what is kept in bench/gate.json, {TRIES} times over.")
        print("Find out why; if it is worth it, `bench/run.py --gate --keep` and say so in the commit.")
    return len(bad)


async def measure_all(measure: Callable[[str], Awaitable[Ratio]], kept: dict[str, float]) -> dict[str, list[Ratio]]:
    """Every figure once, then those that look too dear again, one round after the other: whatever made the machine
    slow in the first round has had time to pass. Those that are not kept are measured in every round."""
    looks: dict[str, list[Ratio]] = {name: [] for name in FIGURES}
    for again in range(TRIES):
        for name, found in looks.items():
            if again and name in kept and _is_fine(found, kept[name]):
                continue
            start = time.monotonic()
            found.append(await measure(name))
            print(f"# {name}: {found[-1].value:.3f}, {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    return looks


def _is_fine(found: list[Ratio], kept: float) -> bool:
    return min(one.value for one in found) <= kept * ALLOWED


def _tell(looks: dict[str, list[Ratio]], kept: dict[str, float]) -> list[str]:
    """Print the table. Returns the names that are too dear."""
    bad = [name for name, found in looks.items() if not _is_fine(found, kept.get(name, 0.0))]
    print(HEADING)
    for name, found in looks.items():
        verdict = "**too dear**" if name in bad else "ok" if len(found) == 1 else f"ok, the {len(found)}. time"
        _line(name, min(found, key=lambda one: one.value), kept, verdict)
    return bad


def _keep(looks: dict[str, list[Ratio]], kept: dict[str, float]) -> int:
    """The middle one of each becomes what is kept."""
    middles = {name: sorted(found, key=lambda one: one.value)[len(found) // 2] for name, found in looks.items()}
    print(HEADING)
    for name, one in middles.items():
        _line(name, one, kept, "kept")
    with open(KEPT, "w") as handle:
        json.dump({name: round(one.value, 3) for name, one in middles.items()}, handle, indent=2)
        handle.write("\n")
    return 0


def _line(name: str, one: Ratio, kept: dict[str, float], verdict: str) -> None:
    _, unit, against = FIGURES[name]
    shown = f"{one.ours:.2f} {unit} | {against}: {one.bare:.2f} {unit} | {one.value:.2f}"
    print(f"| {name} | {shown} | {kept.get(name, 0.0):.2f} | {verdict} |", flush=True)
