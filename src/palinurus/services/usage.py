"""What was used and what it cost, added up by one of several things: for `pal usage`, here or of a gateway elsewhere.
Unpriced is not free. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

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


def build_usage_report(entries: Iterable[UsageRow], by: str, start: int, priced: str) -> dict[str, Any]:
    """Lines in the order of what they cost, then of what they used; days in their own order. `priced`: of when
    the list prices are."""
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
    return {"since": start, "by": by, "lines": ordered, "total": total, "pricesAsOf": priced}
