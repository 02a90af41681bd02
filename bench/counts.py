"""The half of the gate that is enforced: what does not depend on how busy the machine is.

Python calls of a start, a turn, a round; modules and private memory of a gateway that waits; bytes that a model is
sent; operations that the store is given. `counted.py` counts inside the process, with the order of sets held still.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import procs
import sockets
from measures import Bench, answered
from system import HERE, TOKEN, checked, mark

ALLOWED = 1.10
QUIET = 100  # calls in a tenth of a second: timers that look around

Counts = dict[str, float]


class Counter:
    """The numbers of a process that runs under `counted.py`."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.file = os.path.join(bench.system.root, "counts.jsonl")
        self.command = [sys.executable, os.path.join(HERE, "counted.py"), self.file]

    def read(self) -> list[dict[str, int]]:
        """Everything told so far."""
        try:
            with open(self.file) as handle:
                return [json.loads(line) for line in handle]
        except FileNotFoundError:
            return []

    async def ask(self) -> dict[str, int]:
        """What the gateway has counted, once it does nothing more by itself."""
        last, same = 0, 0
        while True:
            seen = len(self.read())
            os.kill(self.bench.system.pid, signal.SIGUSR2)
            while len(told := self.read()) == seen:
                if self.bench.system.process is None or self.bench.system.process.poll() is not None:
                    raise SystemExit("the gateway that was counted has ended")
                await asyncio.sleep(0.01)
            same = same + 1 if told[-1]["calls"] - last < QUIET else 0
            last = told[-1]["calls"]
            if same == 5:
                return told[-1]
            await asyncio.sleep(0.1)

    def run(self, *argv: str) -> int:
        """Calls of a command from its start to its end."""
        env = self.bench.system.env
        subprocess.run([*self.command, *argv], env=env, cwd=self.bench.system.work, check=True, capture_output=True)
        return self.read()[-1]["calls"]

    async def spend(self, work: Awaitable[object], times: int) -> tuple[float, float]:
        """(calls, operations) of the gateway for one of `times`."""
        before = await self.ask()
        await work
        after = await self.ask()
        return tuple((after[what] - before[what]) / times for what in ("calls", "operations"))  # type: ignore[return-value]


async def _turns(bench: Bench, session: str, count: int) -> list[int]:
    """Bytes that the model was sent, turn by turn."""
    sent = []
    for _ in range(count):
        ident, text = mark()
        checked(await bench.system.turn(session, text), 20)
        sent.append((await answered(bench, ident, 1))[0]["bytes"])
    return sent


async def _rounds(bench: Bench, tool: str, key: str, value: str, count: int) -> None:
    text = mark(tools=count, tool=tool, key=key, val=value)[1]
    checked(await bench.system.turn(f"count-{tool}", text), 20)


async def measure(bench: Bench) -> Counts:
    """All of them; the gateway is started anew for it."""
    system = bench.system
    system.env["PYTHONHASHSEED"] = "0"
    out: Counts = {"memory": await _weigh(bench)}
    counter = Counter(bench)
    out["version"] = counter.run("--version")
    runs = [
        counter.run("agent", "--session", "counted", "-m", mark()[1]) for _ in range(4)
    ]  # the first makes the session
    out["once"] = min(runs[1:])  # some find the time for what is done beside the turn
    system.command = counter.command
    await system.up(120)
    ready = await counter.ask()
    out |= {"ready": ready["calls"], "modules": ready["modules"]}
    out["first"] = (await counter.spend(_turns(bench, "count", 1), 1))[0]
    sent: list[int] = []

    async def turns() -> None:
        sent.extend(await _turns(bench, "count", 30))

    out["turn"], out["operations"] = await counter.spend(turns(), 30)
    out["bytes"] = sent[-1]
    for tool, key, value in (("read", "path", "f%d.txt"), ("exec", "command", "echo+r%d")):
        await _rounds(bench, tool, key, value, 2)  # loads what is loaded late
        out[tool] = (await counter.spend(_rounds(bench, tool, key, value, 15), 15))[0]
    for total in (10, 200):  # first what a login loads
        out["rpc"] = (await counter.spend(sockets.round_trips(system.port, TOKEN, total, window=1), total))[0]
    system.down()
    system.command = []
    return out


async def _weigh(bench: Bench) -> float:
    """Private memory of a gateway that waits, in that of a bare aiohttp server: libraries differ between machines."""
    bench.system.down()
    await bench.system.up()
    argv = [sys.executable, os.path.join(HERE, "echo.py")]
    echo = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, env=bench.system.env)
    try:
        assert echo.stdout is not None
        echo.stdout.readline()
        own = await asyncio.to_thread(procs.quiet, procs.private, bench.system.pid)
        return own / procs.private(echo.pid)
    finally:
        procs.stop(echo)
        bench.system.down()


def judge(found: Counts, kept: Counts, say: Callable[[str], object] = print) -> list[str]:
    """Print the table. Returns the names of those that are more than they may be."""
    bad = [name for name, value in found.items() if value > kept.get(name, 0.0) * ALLOWED]
    say("| count | now | kept | |\n|---|--:|--:|---|")
    for name, value in found.items():
        verdict = "**too much**" if name in bad else "ok"
        say(f"| {name} | {value:,.2f} | {kept.get(name, 0.0):,.2f} | {verdict} |")
    return bad
