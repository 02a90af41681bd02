"""Sums over the ledger, as clients read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from palinurus.store.port import UsageRow


def sum_spent(calls: Iterable[UsageRow]) -> dict[str, Any]:
    """Sums. A call without a price counts in `missingCostEntries`; it is not free."""
    made = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "missingCostEntries": 0}
    spent = 0.0
    for call in calls:
        made["input"] += call.input
        made["output"] += call.output
        made["cacheRead"] += call.cache_read
        made["cacheWrite"] += call.cache_write
        made["totalTokens"] += call.input + call.output + call.cache_read + call.cache_write
        made["missingCostEntries"] += call.cost is None
        spent += call.cost or 0.0
    return {**made, "totalCost": spent}
