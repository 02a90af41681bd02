"""`bench/run.py --readme`: the first column of README's table, from this run, with its date. The peers' columns and
what `make torture` says stay as they stand there."""

from __future__ import annotations

import datetime
import os
import re
import statistics
from collections.abc import Callable, Sequence

from measures import Row
from system import HERE

README = os.path.join(os.path.dirname(HERE), "README.md")
BEGIN, END = "<!-- bench: written by `make bench ARGS=--readme` -->", "<!-- /bench -->"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


# The first words of a row of README -> (the figure, how it is written).
CELLS: dict[str, tuple[str, Callable[[float], str]]] = {
    "gateway start to ready": ("gateway ready", _seconds),
    "one message from the command line": ("one-shot `pal agent`, no gateway", _seconds),
    "memory when idle": ("idle memory (RSS)", lambda value: f"{value:.0f} MB"),
    "message in to model request out": ("message in to model request out, 20 messages of history", _ms),
    "the same with 2,000 messages": ("message in to model request out, 2,000 messages of history", _ms),
    "200 sessions at once": ("200 sessions at once, through the gateway", _seconds),
}
NEEDED = ("ready", "once", "request", "many")  # the measurements these come from


def write(rows: Sequence[Row], load: float) -> None:
    """Raises SystemExit when README has no such block, or the run had not all of it."""
    with open(README, encoding="utf-8") as handle:
        text = handle.read()
    found = re.search(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"README.md has no block between {BEGIN} and {END}")
    figures = {row.what: statistics.median(row.samples) for row in rows}
    lines = [_line(line, figures) for line in found[1].splitlines()]
    day = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d")
    dated = f"measured on {day} (load {load:.1f}), one machine"
    lines = [re.sub(r"measured on .*?one machine", dated, line) for line in lines]
    block = f"{BEGIN}\n" + "\n".join(lines) + f"\n{END}"
    with open(README, "w", encoding="utf-8") as handle:
        handle.write(text[: found.start()] + block + text[found.end() :])


def _line(line: str, figures: dict[str, float]) -> str:
    cells = line.split("|")
    for words, (what, show) in CELLS.items():
        if len(cells) > 2 and cells[1].strip().startswith(words):
            if what not in figures:
                raise SystemExit(f"--readme needs {', '.join(NEEDED)}; there is no figure for {words!r}")
            cells[2] = f" {show(figures[what])} "
            bare = _seconds(figures.get("200 sessions at once, bare client", 0.0))
            cells[1] = re.sub(r"\(a bare client: [^)]*\)", f"(a bare client: {bare})", cells[1])
    return "|".join(cells)
