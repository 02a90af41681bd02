"""Is each request the one before it plus something at the end? Then providers can cache it.

model = ScriptedModel([...])            # … run your agent …
assert_prefix_stable(model.requests)    # raises AssertionError naming section, byte and both texts
assert cacheable(model.requests) > 0.95
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from palinurus.agent.fingerprint import CacheBreak, RequestSnapshot, count_kept_bytes, find_cache_break
from palinurus.agent.watch import describe_break
from palinurus.core.types.model import ModelRequest


def assert_prefix_stable(requests: Sequence[ModelRequest], breaks: Collection[int] = ()) -> None:
    """Raise AssertionError at the first request that changes what came before it.

    `breaks` are the indexes of requests that may (after a compaction, a switch of models); one that does not need to
    be there is an error too, so that a declared break is a real one.
    """
    for index, found in enumerate(find_prefix_breaks(requests), 1):
        if found is not None and index not in breaks:
            sides = f"\n  was: {found.before!r}\n  now: {found.after!r}" if found.before or found.after else ""
            raise AssertionError(f"request {index} breaks the cached prefix: {describe_break(found)}{sides}")
        if found is None and index in breaks:
            raise AssertionError(f"request {index} was declared a break, but its prefix is unchanged")


def find_prefix_breaks(requests: Iterable[ModelRequest]) -> list[CacheBreak | None]:
    """For each request but the first: where it leaves the one before, None where it only adds."""
    found: list[CacheBreak | None] = []
    last: RequestSnapshot | None = None
    for request in requests:
        new = (last or RequestSnapshot()).after(request)
        if last is not None:
            found.append(find_cache_break(last, new))
        last = new
    return found


def measure_cacheable_share(requests: Sequence[ModelRequest], breaks: Collection[int] = ()) -> float:
    """The share of all prompt bytes that stood at the beginning of the request before, declared breaks left out."""
    hit, total = 0, 0
    last: RequestSnapshot | None = None
    for index, request in enumerate(requests):
        new = (last or RequestSnapshot()).after(request)
        if last is not None and index not in breaks:
            hit += count_kept_bytes(last.print, new.print)
            total += new.print.size
        last = new
    return hit / total if total else 1.0
