"""What the cache diagnosis means, in words: a verdict on a session's last request, and the message a break came with.

Told to people by `pal why` and the gateway. Reads nothing itself.
"""

from __future__ import annotations

from palinurus.agent.fingerprint import CHARS
from palinurus.agent.watch import CacheBreakRecord, CacheSnapshot
from palinurus.store.port import InboxRow, UsageRow

SHORT = 300_000  # ms: how long providers keep a prefix at least, as a rule
FIXES = {
    "model": "a cache belongs to one model; switching models pays for the whole history once",
    "tools": "tools come first in every request: a list that changes between turns costs everything after it",
    "prompt": "the stable part changed: an edited workspace file, another skill, another setting",
    "chat": "the part below the boundary follows channel, thinking level and HEARTBEAT.md",
    "compaction": "expected: the history was shortened to fit",
    "history limit": "expected with a history limit: each turn drops the oldest one",
    "history": "messages that were already sent were changed, pruned or taken back",
}


def explain_last_request(look: CacheSnapshot | None, calls: list[UsageRow]) -> str:
    """One sentence: what happened with the last request."""
    if look is None:
        return "No request of this session has been looked at yet."
    if look.requests < 2:
        return "This session has made one request: there was nothing to reuse yet."
    last = look.breaks[-1] if look.breaks else None
    if last is not None and last.at == look.at:
        return f"The last request broke the prefix. {FIXES[last.what.cause].capitalize()}."
    counted = calls[-1] if calls else None
    if counted is None or counted.cache_read or counted.cache_write:
        return "The last request began exactly as the one before it."
    if look.idle > SHORT:
        return (
            f"The prefix was unchanged, but the provider read nothing from its cache: the request before was "
            f"{look.idle // 60_000} minutes older, and it has probably been dropped meanwhile (params.cacheRetention)."
        )
    return (
        "The prefix was unchanged, but the provider reports no cache use: it has no cache, does not tell, or the "
        f"prompt ({look.total // CHARS} tokens) is shorter than it takes."
    )


def find_breaking_message(found: CacheBreakRecord, items: list[InboxRow]) -> str:
    """The message in whose run the break came; "" if it is not on file any more."""
    return next(
        (i.id for i in items if i.claimed and i.claimed <= found.at and (not i.settled or found.at <= i.settled)), ""
    )
