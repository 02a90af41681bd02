"""`pal usage`: what was used and what it cost, from the ledger of this home or of the gateway elsewhere. Reads; changes
nothing."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, parse_since, to_json
from palinurus.cli.reach.elsewhere import find_elsewhere
from palinurus.cli.reach.gateway import call_gateway
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config import paths
from palinurus.config.settings import Settings
from palinurus.errors import NotFound
from palinurus.providers.prices import load_prices
from palinurus.services.usage import GROUPS, UsageReportLine, build_usage_report
from palinurus.store.factory import open_reader


def run_usage(argv: list[str]) -> int:
    """Print the table. Raises BadRequest for a time that is none, StateError kinds."""
    parser = CommandParser("usage", "What was used and what it cost.")
    parser.add_argument("--since", default="30d", help="a duration back from now (7d, 24h) or a date (2026-11-01)")
    parser.add_argument("--by", choices=tuple(GROUPS), default="model", help="what to add up by (default: model)")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    start = parse_since(options.since, SystemClock().now())
    far = find_elsewhere(os.environ)
    told = _ask(far, options.by, start) if far is not None else _read(options.by, start)
    text = to_json(told, pretty=True) if options.json else format_usage(told)
    sys.stdout.write(text + "\n")
    return 0


def _read(by: str, start: int) -> dict[str, Any]:
    """From the ledger of this home."""
    try:
        with open_reader(paths.find_home(os.environ)) as reader:
            entries = reader.list_usage(start)
    except NotFound:
        entries = []
    return build_usage_report(entries, by, start, load_prices().as_of)


def _ask(far: Settings, by: str, start: int) -> dict[str, Any]:
    """From the gateway elsewhere."""
    told = call_gateway(far, "usage.report", {"sinceMs": start, "by": by})
    lines = [msgspec.convert(line, UsageReportLine) for line in told["lines"]]
    return {**told, "lines": lines, "total": msgspec.convert(told["total"], UsageReportLine)}


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
