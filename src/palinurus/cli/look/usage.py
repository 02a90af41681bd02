"""`pal usage`: what was used and what it cost, from the ledger. Reads; changes nothing. Unpriced is not free."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, parse_since, to_json
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config import paths
from palinurus.errors import NotFound
from palinurus.providers.prices import load_prices
from palinurus.store.factory import open_reader
from palinurus.store.port import UsageRow


class UsageReportLine(msgspec.Struct, rename="camel"):
    """The sum of some calls. `cost` counts the priced ones; None when none was."""

    name: str
    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    unpriced: int = 0  # calls

    def add(self, entry: UsageRow) -> None:
        self.calls += 1
        self.input += entry.input
        self.output += entry.output
        self.cache_read += entry.cache_read
        self.cache_write += entry.cache_write
        if entry.cost is None:
            self.unpriced += 1
        else:
            self.cost = (self.cost or 0.0) + entry.cost


GROUPS: dict[str, Callable[[UsageRow], str]] = {
    "model": lambda e: f"{e.provider}/{e.model}",
    "session": lambda e: e.session,
    "agent": lambda e: e.agent,
    "day": lambda e: datetime.datetime.fromtimestamp(e.at / 1000).astimezone().date().isoformat(),
}


def run_usage(argv: list[str]) -> int:
    """Print the table. Raises BadRequest for a time that is none, StateError kinds."""
    parser = CommandParser("usage", "What was used and what it cost.")
    parser.add_argument("--since", default="30d", help="a duration back from now (7d, 24h) or a date (2026-11-01)")
    parser.add_argument("--by", choices=tuple(GROUPS), default="model", help="what to add up by (default: model)")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    start = parse_since(options.since, SystemClock().now())
    try:
        with open_reader(paths.find_home(os.environ)) as reader:
            entries = reader.list_usage(start)
    except NotFound:
        entries = []
    told = build_usage_report(entries, options.by, start)
    text = to_json(told, pretty=True) if options.json else format_usage(told)
    sys.stdout.write(text + "\n")
    return 0


def build_usage_report(entries: Iterable[UsageRow], by: str, start: int) -> dict[str, Any]:
    """Lines in the order of what they cost, then of what they used; days in their own order."""
    lines: dict[str, UsageReportLine] = {}
    total = UsageReportLine("total")
    for entry in entries:
        name = GROUPS[by](entry)
        lines.setdefault(name, UsageReportLine(name)).add(entry)
        total.add(entry)
    ordered = list(lines.values())
    if by == "day":
        ordered.sort(key=lambda line: line.name)
    else:
        ordered.sort(key=lambda line: (-(line.cost or 0.0), -(line.input + line.output), line.name))
    return {"since": start, "by": by, "lines": ordered, "total": total, "pricesAsOf": load_prices().as_of}


def format_usage(told: dict[str, Any]) -> str:
    """The same for people."""
    lines: list[UsageReportLine] = told["lines"]
    if not lines:
        return "Nothing was used in that time."
    head = (told["by"], "calls", "input", "output", "cache read", "cache write", "cost")
    rows = [head, *(_row(line) for line in lines)]
    if len(lines) > 1:
        rows.append(_row(told["total"]))
    wide = [max(len(row[at]) for row in rows) for at in range(len(head))]
    table_ = [
        "  ".join([row[0].ljust(wide[0]), *(row[at].rjust(wide[at]) for at in range(1, len(head)))]).rstrip()
        for row in rows
    ]
    note = f"Prices: list prices of {told['pricesAsOf']}, or your config's `cost`."
    if told["total"].unpriced:
        note += " Unpriced calls are in the counts, not in the sums."
    return "\n".join([*table_, "", note])


def _row(line: UsageReportLine) -> tuple[str, ...]:
    counts = (line.calls, line.input, line.output, line.cache_read, line.cache_write)
    return (strip_controls(line.name), *(f"{n:,}" for n in counts), _cost(line))


def _cost(line: UsageReportLine) -> str:
    if line.cost is None:
        return "unpriced"
    some = f"${line.cost:.2f}" if line.cost >= 1 or line.cost == 0 else f"${line.cost:.4f}"
    return f"{some} + {line.unpriced} unpriced" if line.unpriced else some
