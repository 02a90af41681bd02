"""What `pal torture` does to a gateway, and the report of what came of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from palinurus import crashpoints
from palinurus.testing.model import say
from palinurus.testing.server import (
    ScriptedResponse,
    cut_stream,
    respond_html,
    respond_malformed,
    respond_status,
    slow_stream,
    stall_stream,
)

# Points that ordinary messages with tools pass; the others need a scenario of their own (`make torture`).
_STEPS = "accept claim prepare model intent tool result settle journal outbox recover".split()
POINTS = tuple(name for name in crashpoints.NAMES if name.partition(".")[0] in _STEPS)
FAULTS: dict[str, Callable[[random.Random], ScriptedResponse]] = {
    "rate limit": lambda dice: respond_status(429, headers={"retry-after": "0.2"}),
    "server error": lambda dice: respond_status(dice.choice((500, 502, 529))),
    "broken stream": lambda dice: cut_stream(say("this never arrives as a whole"), dice.randrange(1, 400)),
    "garbage": lambda dice: respond_malformed(),
    "a proxy's page": lambda dice: respond_html(),
    "slow": lambda dice: slow_stream(say("slowly"), 0.05),
    "hang": lambda dice: stall_stream(say("and then nothing more"), dice.choice((0, dice.randrange(1, 200)))),
}
# Python's own clock, wrong by so many seconds from so many seconds on: nothing of the program knows of it.
SKEWED = """
import sys, time
by, after = float(sys.argv.pop(1)), float(sys.argv.pop(1)) + time.monotonic()
real = time.time_ns
time.time_ns = lambda: real() + (int(by * 1e9) if time.monotonic() >= after else 0)
time.time = lambda: time.time_ns() / 1e9
from palinurus.cli.main import main
main()
"""
MOST_HOURS = 30  # a clock is wrong by; what is older than days is deleted, by design


class TortureReport(msgspec.Struct):
    """What was done to it, and what came of it."""

    seconds: float = 0.0
    seed: int = 0
    sent: Counter[str] = msgspec.field(default_factory=Counter)
    kills: Counter[str] = msgspec.field(default_factory=Counter)
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    recoveries: list[float] = []
    outcomes: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: list[str] = []
    lost: list[str] = []
    doubled: list[str] = []
    wrong: list[str] = []

    @property
    def failed(self) -> bool:
        return bool(self.lost or self.doubled or self.wrong)


_OUTCOMES = {
    "dead": "given up after several crashes and told so",
    "failed": "failed and told so",
    "absorbed": "answered with another",
}


def format_report(report: TortureReport) -> str:
    """For people."""

    def count(found: Mapping[str, int], names: Mapping[str, str] = {}) -> str:
        parts = ", ".join(f"{names.get(name, name)} {number}" for name, number in sorted(found.items()))
        return f"{sum(found.values())}" + (f" ({parts})" if parts else "")

    slow = sorted(report.recoveries) or [0.0]
    lines = [
        f"messages   {count(report.sent)}",
        f"killed     {count(report.kills)}",
        f"faults     {count(report.faults)}",
        f"ended      {count(report.outcomes, _OUTCOMES)}",
        f"recovery   slowest {slow[-1]:.1f} s, median {slow[len(slow) // 2]:.1f} s until it answers again",
        f"lost       {len(report.lost)}",
        f"doubled    {len(report.doubled)}",
        f"wrong      {len(report.wrong)}",
        *(f"  {what}" for what in (*report.lost, *report.doubled, *report.wrong)),
        f"{_conclude(report)} ({report.seconds:.0f} s; --seed {report.seed} draws the same again)",
    ]
    if report.left_out:
        lines.insert(0, f"left out   {', '.join(report.left_out)}: a copy must not reach the world")
    return "\n".join(lines)


def _conclude(report: TortureReport) -> str:
    if not report.failed:
        return f"held: each of {sum(report.sent.values())} messages ended once, and was shown and done once at most"
    return "FAILED: see above; `--keep DIR` leaves the copy to look at"
