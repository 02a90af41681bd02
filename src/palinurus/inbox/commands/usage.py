"""/usage: what this session and the last day used, from the ledger."""

from __future__ import annotations

from collections.abc import Iterable

from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.commands.facts import format_tokens
from palinurus.store.port import UsageRow

DAY = 86_400_000


async def run_usage(call: CommandCall) -> CommandAnswer:
    """Tokens, calls and cost; a call without a known price is said to be unpriced, not free."""
    store = call.desk.store
    now = call.desk.clock.now()
    begun = call.record.sessionStartedAt or 0
    here = await store.list_usage(begun if call.stored else now, str(call.key))
    day = await store.list_usage(now - DAY)
    return CommandAnswer(
        "\n".join([f"This session: {format_spending(here)}", f"Last 24 hours, everything: {format_spending(day)}"])
    )


def format_spending(rows: Iterable[UsageRow]) -> str:
    """One line for some calls."""
    rows = list(rows)
    if not rows:
        return "nothing yet."
    priced = [r.cost for r in rows if r.cost is not None]
    cost = f"${sum(priced):.4f}" if priced else "no price known"
    missing = f" ({len(rows) - len(priced)} calls unpriced)" if priced and len(priced) < len(rows) else ""
    read = sum(r.input + r.cache_read + r.cache_write for r in rows)
    cached = sum(r.cache_read for r in rows)
    return (
        f"{len(rows)} model call{'s' if len(rows) != 1 else ''}, {format_tokens(read)} tokens in"
        f" ({format_tokens(cached)} from cache), {format_tokens(sum(r.output for r in rows))} out, {cost}{missing}."
    )
