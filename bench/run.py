"""`make bench`: every figure we promise, measured in one run, next to its target.

    python bench/run.py [--quick] [--only NAME[,NAME]] [--json OUT] [--readme]
    python bench/run.py --gate [--keep]

Measures the `pal` of the environment it runs in, in a home of its own, against a mock model of its own.
Ends with 1 when a target is missed. `--gate` is the short form that CI runs: see gate.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import sys
import sysconfig
import tempfile
import time

import gate
import measures
import readme
from measures import Bench, Row
from system import Mock, System


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def name_python() -> str:
    """Which build was measured, by what packaging/python.sh goes by: without a profile a start takes half as long again
    (docs/decisions/0126). Debian's own has one and does not say so, therefore the system's is only named as that."""
    told = "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))
    own = "the system's own build" if sys.base_prefix == "/usr" else "built without a profile, as far as it says"
    name = f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()})"
    return f"{name}, {'built with a profile' if told else own}"


def missed(row: Row) -> bool:
    """Judged by the median; a row without a target is for information."""
    if row.target is None:
        return False
    middle = statistics.median(row.samples)
    return middle < row.target if row.floor else middle > row.target


def line(row: Row) -> str:
    middle, least = statistics.median(row.samples), min(row.samples)
    shown = f"{number(middle)} {row.unit}" + (f" ({number(least)})" if len(row.samples) > 1 else "")
    if row.target is None:
        return f"| {row.what} | {shown} | | |"
    sign, verdict = (">=" if row.floor else "<="), "met"
    if missed(row):
        verdict = f"**missed**: {row.why}" if row.why else "**missed**"
    return f"| {row.what} | {shown} | {sign} {number(row.target)} {row.unit} | {verdict} |"


async def measure(names: list[str], quick: bool) -> tuple[list[Row], list[float]]:
    rows: list[Row] = []
    loads = [measures.load()]
    with tempfile.TemporaryDirectory(prefix="palbench-") as root:
        mock = Mock(root)
        system = System(os.path.join(root, "one"), mock.url)
        bench = Bench(system, mock, quick)
        try:
            if any(measures.ALL[name][1] for name in names):
                await system.up()  # makes the folders, compiles the modules
            for name in names:
                start = time.monotonic()
                rows += await measures.ALL[name][0](bench)
                loads.append(measures.load())
                print(f"# {name}: {time.monotonic() - start:.1f} s, load {loads[-1]:.1f}", file=sys.stderr, flush=True)
        finally:
            system.down()
            mock.stop()
    return rows, loads


async def guard(keep: bool) -> int:
    """The gate. Returns the exit code."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="palgate-") as root:
        mock = Mock(root)
        system = System(os.path.join(root, "one"), mock.url)
        try:
            await system.up()  # makes the folders, compiles the modules
            start = time.monotonic()
            bad = await gate.look(Bench(system, mock, True), keep)
            print(f"\n{name_python()}, {time.monotonic() - start:.0f} s, load {measures.load():.1f}.")
            return 1 if bad else 0
        finally:
            system.down()
            mock.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions")
    parser.add_argument("--only", help=f"some of: {', '.join(measures.ALL)}")
    parser.add_argument("--json", help="keep every sample in this file")
    parser.add_argument("--readme", action="store_true", help="write the figures into README's table")
    parser.add_argument("--gate", action="store_true", help="compare with gate.json, in about two minutes")
    parser.add_argument("--keep", action="store_true", help="with --gate: write gate.json anew")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(measures.ALL)
    if unknown := [name for name in names if name not in measures.ALL]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(measures.ALL)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that what was started is stopped
    if options.gate:
        return asyncio.run(guard(options.keep))
    rows, loads = asyncio.run(measure(names, options.quick))
    print("| figure | measured: median (least) | target | |\n|---|---|---|---|")
    for row in rows:
        print(line(row))
    print(f"\n{name_python()}, {os.cpu_count()} cores, load {min(loads):.1f} to {max(loads):.1f}.")
    if options.json:
        with open(options.json, "w") as handle:
            json.dump({"rows": [row._asdict() for row in rows], "loads": loads, "quick": options.quick}, handle)
    if options.readme:
        readme.write(rows, statistics.median(loads))
    return 1 if any(missed(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
